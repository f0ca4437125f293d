"""Routing: which period's table takes an event, by the event's own time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidetable.catalog import Entry, entry_at
from tidetable.events import Event
from tidetable.keys import Key, Ref
from tidetable.ports import Put


@dataclass(slots=True)
class Routed:
    """Events with their places: ``puts`` and ``refs`` go by the event's index among those given."""

    puts: dict[int, Put] = field(default_factory=dict)
    refs: dict[int, str] = field(default_factory=dict)
    homeless: list[int] = field(default_factory=list)  # no period table is recorded for their time, yet
    sealed: list[int] = field(default_factory=list)  # their period is archived, deleted or not open: no write may land


def route(stream: str, events: Iterable[Event], entries: Sequence[Entry], *, oldest: datetime, now: datetime) -> Routed:
    """Find each event's table and key; nothing is looked up but the periods, which are given.

    Before ``oldest`` only a table that is open for a backfill takes events: any other may be archived at any moment.
    """
    routed = Routed()
    for index, event in enumerate(events):
        entry = entry_at(entries, event.time)
        if entry is None:
            routed.homeless.append(index)
        elif not entry.writable or (event.time < oldest and not entry.is_open(now)):
            routed.sealed.append(index)
        else:
            item = entry.layout.item_of(event)
            routed.puts[index] = Put(entry.table, item)
            routed.refs[index] = Ref(stream, entry.period, Key(item["pk"], item["sk"])).encode()
    return routed
