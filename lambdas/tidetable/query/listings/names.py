"""The names and values of one page, as they are met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidetable.query.listings.parse import Place

# So many names beyond those of the page are held before the last ones are dropped.
_SLACK = 5_000
# How far apart the two times of an event are that was itself read.
EXACT = "0s"


class Seen(NamedTuple):
    """When a name or value was seen: the texts of the earliest and the latest time that its event may have.

    ``within`` is how far the two are apart; ``types`` are those of a field.
    """

    first: str
    last: str
    within: str
    types: Iterable[str] = ()


@dataclass(slots=True)
class NameRecord:
    """What is known of a name or value. Times are texts; the event of a time lies within its ``within`` of it."""

    value: Any
    first: str
    first_within: str
    last: str
    last_within: str
    types: set[str] = field(default_factory=set)


class Names:
    """The first ``limit + 1`` of all names and values behind a place, each with all that was seen of it.

    A name is dropped if more than ``limit`` others come before it; it cannot come back.
    """

    def __init__(self, limit: int, after: Place | None) -> None:
        self._count = limit + 1
        self._after = after
        self._bound: Place | None = None
        self._records: dict[Place, NameRecord] = {}

    def add(self, place: Place, value: Any, seen: Seen) -> None:
        """Take something into account that was seen."""
        if (self._after is not None and place <= self._after) or (self._bound is not None and place >= self._bound):
            return
        record = self._records.get(place)
        if record is None:
            self._records[place] = NameRecord(value, seen.first, seen.within, seen.last, seen.within, set(seen.types))
            if len(self._records) > self._count + _SLACK:
                self._drop()
            return
        if seen.last > record.last:
            record.last, record.last_within = seen.last, seen.within
        if seen.first < record.first:
            record.first, record.first_within = seen.first, seen.within
        record.types.update(seen.types)

    def holds(self, place: Place) -> bool:
        """Whether something was seen that is held."""
        return place in self._records

    def _drop(self) -> None:
        """Keep the first ones."""
        first = sorted(self._records)
        self._bound = first[self._count]
        self._records = {place: self._records[place] for place in first[: self._count]}

    def sorted(self) -> list[tuple[Place, NameRecord]]:
        """What was found, in order."""
        return sorted(self._records.items(), key=lambda pair: pair[0])
