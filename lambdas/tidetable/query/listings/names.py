"""The names and values of one page, collected while events and cells are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidetable.query.listings.listing_parameters import Place

# At most this many names are held beyond those that are wanted, or half as many as those, before the last are dropped.
_SLACK = 5_000
# The most characters of the names that are held, and of those that are kept when the last names are dropped: a page has
# 5 MB. A value may be as long as an item.
_MOST_TEXTS, _KEPT_TEXTS = 20_000_000, 5_000_000
# The ``within`` of an event that was itself read: its time is known exactly.
EXACT = "0s"


class SeenTimes(NamedTuple):
    """The times when a name or value was seen: the earliest and the latest time that its event may have, as texts.

    ``within`` is the length of time between the two. ``types`` are the types of a field's values.
    """

    first: str
    last: str
    within: str
    types: Iterable[str] = ()


@dataclass(slots=True)
class NameRecord:
    """A name or value, its earliest and its latest sighting, and the types of all sightings."""

    value: Any
    earliest: SeenTimes
    latest: SeenTimes
    types: set[str]

    def as_list(self) -> list[Any]:
        """Write the record for JSON."""
        first, last = self.earliest, self.latest
        return [self.value, first.first, first.within, last.last, last.within, sorted(self.types)]

    @classmethod
    def of_list(cls, texts: Sequence[Any]) -> NameRecord:
        """Read what ``as_list`` wrote."""
        value, first, first_within, last, last_within, types = texts
        return cls(value, SeenTimes(first, first, first_within), SeenTimes(last, last, last_within), set(types))


class NameCollector:
    """Collects the first ``count`` names and values after a place, each with the times at which it was seen.

    A name is dropped if at least ``count`` other names come before it. A dropped name cannot come back: no name after
    ``last`` is taken.
    """

    def __init__(self, count: int, after: Place | None) -> None:
        self._count = count
        self._after = after
        self._last: Place | None = None
        self._records: dict[Place, NameRecord] = {}
        self._texts = 0

    def add(self, place: Place, value: Any, seen: SeenTimes) -> None:
        """Add a sighting of a name or value."""
        if (self._after is not None and place <= self._after) or (self._last is not None and place > self._last):
            return
        record = self._records.get(place)
        if record is None:
            self._records[place] = NameRecord(value, seen, seen, set(seen.types))
            self._texts += _count_characters(value)
            if len(self._records) > self._count + max(self._count // 2, _SLACK) or self._texts > _MOST_TEXTS:
                self._drop_last()
            return
        # An event at the end of a bucket is later than every event of the bucket.
        if seen.last > record.latest.last or (seen.last == record.latest.last and seen.within == EXACT):
            record.latest = seen
        if seen.first < record.earliest.first:
            record.earliest = seen
        record.types.update(seen.types)

    def holds(self, place: Place) -> bool:
        """True if the name or value at a place is held."""
        return place in self._records

    @property
    def has_dropped(self) -> bool:
        """True if names after the last name were dropped."""
        return self._last is not None

    def resume(self, names: Sequence[tuple[Place, NameRecord]], *, is_whole: bool) -> None:
        """Take the names that an earlier page collected. If they are not whole, it has dropped the names after them."""
        self._records = dict(names)
        self._texts = sum(_count_characters(record.value) for _, record in names)
        self._last = None if is_whole else names[-1][0]

    def _drop_last(self) -> None:
        """Keep only the first ``count`` names and values, or fewer if they have too many characters."""
        first = sorted(self._records)
        kept, self._texts = 1, _count_characters(self._records[first[0]].value)
        for place in first[1 : self._count]:
            size = _count_characters(self._records[place].value)
            if self._texts + size > _KEPT_TEXTS:
                break
            kept, self._texts = kept + 1, self._texts + size
        self._last = first[kept - 1]
        self._records = {place: self._records[place] for place in first[:kept]}

    def list_sorted(self) -> list[tuple[Place, NameRecord]]:
        """Return the names and values with their places, in order."""
        return sorted(self._records.items(), key=lambda pair: pair[0])


def _count_characters(value: Any) -> int:
    return len(value) if type(value) is str else 0
