"""Routing: which period's table takes an event, by the event's own time, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidetable.catalog import Entry, entry_at
from tidetable.events import Item
from tidetable.ingest.verdicts import Candidate
from tidetable.ingest.versions import first_version
from tidetable.keys import Layout, ref_texts
from tidetable.large.pack import Packer, Place
from tidetable.ports import Compressor, Put, Values


@dataclass(frozen=True, slots=True)
class Outside:
    """What large values need besides the tables. ``unique`` names objects, each only once."""

    values: Values
    compressor: Compressor
    unique: Callable[[], str]


@dataclass(slots=True)
class Routed:
    """Events with their places: ``puts`` and ``refs`` go by the event's index among those given.

    ``plain`` says that no put is a version or refers to anything, ``tables`` which period tables they go to.
    """

    plain: bool = True
    tables: set[str] = field(default_factory=set)
    puts: dict[int, Put] = field(default_factory=dict)
    refs: dict[int, str] = field(default_factory=dict)
    homeless: list[int] = field(default_factory=list)  # no period table is recorded for their time, yet
    sealed: list[int] = field(default_factory=list)  # their period is archived, deleted or not open: no write may land
    oversized: list[int] = field(default_factory=list)  # no remedy of the stream's fits them into their period's table


def route(
    stream: str,
    candidates: Iterable[Candidate],
    entries: Sequence[Entry],
    packer: Packer,
    *,
    layout: Layout,
    oldest: datetime,
    now: datetime,
    at: int,
) -> Routed:
    """Find each event's table and key; nothing is looked up but the periods, which are given.

    ``layout`` is the one that the candidates' items have; a period with another gives them another. Before ``oldest`` only a
    table that is open for a backfill takes events: any other may be archived at any moment.
    """
    routed = Routed()
    place: PeriodPlace | None = None
    plain = packer.plain
    labels: list[str] = []
    pks: list[str] = []
    sks: list[str] = []
    for index, candidate in enumerate(candidates):
        time = candidate.event.time
        # Events of one period mostly come together.
        if place is None or not place.start <= time < place.end:
            entry = entry_at(entries, time)
            if entry is None:
                routed.homeless.append(index)
                continue
            place = PeriodPlace(stream, entry, layout, packer, now)
            if place.writable:
                routed.tables.add(place.table)
        if not (place.writable and (time >= oldest or place.open)):
            routed.sealed.append(index)
            continue
        item = candidate.item if place.same else place.layout.item_of(candidate.event, at=at)
        if place.plain and candidate.size <= plain:
            put: Put | None = Put(place.table, item)
        else:
            put, routed.plain = place.put(item), False
        if put is None:
            routed.oversized.append(index)
            continue
        routed.puts[index] = put
        labels.append(place.label)
        pks.append(item["pk"])
        sks.append(item["sk"])
    # All refs at once cost a fifth of what they cost one by one.
    routed.refs = dict(zip(routed.puts, ref_texts(stream, labels, pks, sks), strict=True))
    return routed


class PeriodPlace:
    """What of a period is asked for each of its events, worked out once."""

    def __init__(self, stream: str, entry: Entry, layout: Layout, packer: Packer, now: datetime) -> None:
        self.start, self.end = entry.period.start, entry.period.end
        self.label, self.table, self.layout = entry.period.label, entry.table, entry.layout
        self.writable, self.open = entry.writable, entry.is_open(now)
        self.same = entry.layout == layout
        # What other indexes hold of an event was not measured with it.
        copies = not self.same and any(index.project for index in entry.layout.indexes)
        self.plain = not (entry.layout.versioned or copies)
        self._packer = packer
        self._place = Place(stream, entry.period.label, entry.table, entry.layout)

    def put(self, item: Item) -> Put | None:
        """The item in the form in which the period's table takes it; None if there is none that it fits into."""
        if self.layout.versioned:
            item = first_version(item, item["data"])
        return self._packer.put(item, self._place)
