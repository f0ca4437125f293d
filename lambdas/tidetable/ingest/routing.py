"""Routing: which period's table takes an event, by the event's own time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidetable.catalog import Entry, entry_at
from tidetable.ingest.verdicts import Candidate
from tidetable.keys import Layout, ref_text
from tidetable.ports import Put


@dataclass(slots=True)
class Routed:
    """Events with their places: ``puts`` and ``refs`` go by the event's index among those given."""

    puts: dict[int, Put] = field(default_factory=dict)
    refs: dict[int, str] = field(default_factory=dict)
    homeless: list[int] = field(default_factory=list)  # no period table is recorded for their time, yet
    sealed: list[int] = field(default_factory=list)  # their period is archived, deleted or not open: no write may land


def route(
    stream: str,
    candidates: Iterable[Candidate],
    entries: Sequence[Entry],
    *,
    layout: Layout,
    oldest: datetime,
    now: datetime,
) -> Routed:
    """Find each event's table and key; nothing is looked up but the periods, which are given.

    ``layout`` is the one that the candidates' items have; a period with another gives them another. Before ``oldest`` only a
    table that is open for a backfill takes events: any other may be archived at any moment.
    """
    routed = Routed()
    place: _Place | None = None
    for index, candidate in enumerate(candidates):
        time = candidate.event.time
        # Events of one period mostly come together.
        if place is None or not place.start <= time < place.end:
            entry = entry_at(entries, time)
            if entry is None:
                routed.homeless.append(index)
                continue
            place = _Place(entry, layout, now)
        if not (place.writable and (time >= oldest or place.open)):
            routed.sealed.append(index)
            continue
        item = candidate.item if place.same else place.layout.item_of(candidate.event)
        routed.puts[index] = Put(place.table, item)
        routed.refs[index] = ref_text(stream, place.label, item["pk"], item["sk"])
    return routed


class _Place:
    """What of a period is asked for each of its events, worked out once."""

    def __init__(self, entry: Entry, layout: Layout, now: datetime) -> None:
        self.start, self.end = entry.period.start, entry.period.end
        self.label, self.table, self.layout = entry.period.label, entry.table, entry.layout
        self.writable, self.open = entry.writable, entry.is_open(now)
        self.same = entry.layout == layout
