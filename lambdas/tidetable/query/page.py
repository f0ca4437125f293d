"""The page of an answer: its size, its rows, and the beginning of the next page.

Only this module knows how large an answer may be. If rows do not fit, they are not read again in a smaller request: the
answer is cut, and its cursor continues after the last row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from tidetable.exact_json import decode_json, encode_json
from tidetable.query.model import ALL, Cost, Position, Projection
from tidetable.query.rows import Row, Rows, count_escaped_bytes
from tidetable.query.scans import Gap, Scan

if TYPE_CHECKING:
    from tidetable.query.typed import Kind, TypedTable

# AWS: a Lambda answers at most 6 MB, counted after escaping. A page of events ends well below that. It is measured by
# the sizes of its rows as JSON, and some of these are estimates. Rows may be larger in another form.
MAX_PAGE_BYTES = 5_000_000
MAX_BODY_BYTES = 6_000_000
# A page leaves 1 MB of an answer for gaps and sources. They take 130 bytes each, so this number of them surely fits.
_FITTING_GAPS_AND_SOURCES = 5_000


class Room(msgspec.Struct):
    """The space in a page: the number of its events (at most ``limit``), and their bytes."""

    limit: int = 10**9
    count: int = 0
    size: int = 0

    def take(self, size: int, count: int = 1) -> bool:
        """Take an event of ``size`` bytes if it fits; return True if it was taken. The first event is always taken.

        ``count`` is the number of its versions.
        """
        if self.count and (self.count + count > self.limit or self.size + size > MAX_PAGE_BYTES):
            return False
        self.count, self.size = self.count + count, self.size + size
        return True

    def take_all(self, size: int, count: int) -> bool:
        """Take several events if all of them fit, otherwise no event; return True if they were taken."""
        if self.size + size > MAX_PAGE_BYTES:
            return False
        self.count, self.size = self.count + count, self.size + size
        return True

    @property
    def exceeded(self) -> bool:
        """True if the first event alone is larger than a page may be."""
        return self.size > MAX_PAGE_BYTES


def count_body_bytes(body: str) -> int:
    """Count the bytes of a body in the sent answer: a quote and the end of a line take two bytes."""
    return count_escaped_bytes(body) + body.count("\n")


def count_fitting_rows(body: str, rows: int) -> int:
    """Count the rows of a body that fit into an answer: all rows, or an estimate that assumes rows of equal length."""
    size = count_body_bytes(body)
    return rows if size <= MAX_BODY_BYTES else min(rows * MAX_BODY_BYTES // size, rows - 1)


@dataclass(slots=True, kw_only=True)
class Answer(ABC):
    """A page of rows. ``next`` is the next page's cursor, None at the end.

    ``sources`` are the scans that were read; ``shows_sources`` is False if the caller must not see them.
    ``data_losses`` are the reasons why data of events is missing. ``declared`` maps fields to their declared types.
    ``tz`` is the zone in which times are shown; empty for UTC. ``extras`` are the members that only this kind of answer
    has.
    """

    stream: str
    next: str | None
    gaps: Sequence[Gap]
    cost: Cost
    sources: Sequence[Scan]
    shows_sources: bool = True
    data_losses: Sequence[str] = ()
    declared: Mapping[str, str] = field(default_factory=dict)
    tz: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    # The name of the rows in the answer, their members that are times, and True if the rows surely fit into a page as
    # JSON.
    name = ""
    times: ClassVar[Sequence[str]] = ("time", "accepted")
    bounded = True

    @property
    def surely_fits(self) -> bool:
        """True if the answer as JSON surely fits, so that nobody needs to count its bytes."""
        return self.bounded and len(self.gaps) + len(self.sources) <= _FITTING_GAPS_AND_SOURCES

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns that a table of the rows always has, whatever the rows hold."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def list_texts(self) -> list[str]:
        """Return the rows, each as a JSON object."""

    @abstractmethod
    def make_typed_table(self) -> TypedTable:
        """Return the rows as typed columns. Every page has the same columns."""

    @abstractmethod
    def cut_to(self, count: int) -> Self | None:
        """Cut the answer to ``count`` rows or fewer, with a cursor that continues after them; None if that is
        impossible.
        """

    @property
    def losses(self) -> list[str]:
        """The reasons, for the operator, why the answer is incomplete; empty if it is complete."""
        return [*self.data_losses, *(loss for gap in self.gaps for loss in gap.losses)]

    def list_pieces(self) -> list[str]:
        """Return pieces of text that together are the rows as JSON objects with commas between them."""
        return [",".join(self.list_texts())]

    def describe_rest(self) -> dict[str, Any]:
        """Describe the answer without its rows: the cursor, the gaps and the sources."""
        rest = {"next": self.next, **self.extras, "gaps": [gap.document() for gap in self.gaps]}
        if self.tz:
            from tidetable.query.local import show_rest  # imported only when it is needed

            rest = show_rest(rest, self.tz)
        return {**rest, "sources": self.list_sources()} if self.shows_sources else rest

    def list_sources(self) -> list[dict[str, Any]]:
        """Describe the sources, each once."""
        sources: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        for scan in self.sources:
            entry, (source, index) = scan.entry, scan.source
            period, rollup = entry.period.label, None if entry.stream == self.stream else entry.stream
            members = {"period": period, "from": source, "index": index, "rollup": rollup}
            sources[period, source, rollup] = {name: text for name, text in members.items() if text is not None}
        return list(sources.values())

    def document(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {self.name: [decode_json(text) for text in self.list_texts()], **self.describe_rest()}


@dataclass(slots=True, kw_only=True)
class ComputedRows(Answer):
    """An answer whose rows are not stored events, such as aggregates."""

    rows: list[dict[str, Any]]
    # The kinds of the columns. A column that is not listed here holds numbers.
    kinds: ClassVar[Mapping[str, Kind]] = {}

    @property
    def count(self) -> int:
        return len(self.rows)

    def list_texts(self) -> list[str]:
        return [encode_json(row).decode() for row in self.rows]

    def make_typed_table(self) -> TypedTable:
        from tidetable.query.typed import type_rows  # imported only when it is needed

        return type_rows(self.rows, self.columns, self.kinds, self.declared)


@dataclass(slots=True, kw_only=True)
class Events(Answer):
    """A page of events in order. ``make_cursor`` makes the cursor for a position."""

    rows: Sequence[Rows]
    projection: Projection
    make_cursor: Callable[[Position], str]
    name = "events"

    @property
    def columns(self) -> list[str]:
        """The columns that a table of the events always has; the query's ``fields`` are among them."""
        return ["series", "time", "id", *(f"data.{name}" for name in self.projection.fields if name != ALL), "ref"]

    @property
    def count(self) -> int:
        """The number of events; each version counts."""
        return sum(rows.count for rows in self.rows)

    def list_texts(self) -> list[str]:
        return [text for rows in self.rows for text in rows.list_texts()]

    def make_typed_table(self) -> TypedTable:
        from tidetable.query.typed import type_events  # imported only when it is needed

        return type_events("".join(self.list_pieces()), self.declared, self.projection)

    def list_pieces(self) -> list[str]:
        return [piece for rows in self.rows for piece in (",", rows.join_texts())][1:]

    def cut_to(self, count: int) -> Events | None:
        """Cut the answer to its first events. An event and its earlier versions are never separated."""
        first_rows: list[Rows] = []
        for rows in self.rows:
            some = rows.take_first(count)
            count -= some.count
            first_rows += [some] if len(some) else []
            if len(some) < len(rows):
                break
        if not first_rows:
            return None
        return replace(self, rows=first_rows, next=self.make_cursor(first_rows[-1].make_position(-1)))


class EventsPage:
    """A page of events while it is being filled."""

    def __init__(self, limit: int) -> None:
        self._room = Room(limit)
        self._is_exact = False
        self.rows: list[Rows] = []

    @property
    def count(self) -> int:
        """The number of events; each version counts."""
        return self._room.count

    @property
    def position(self) -> Position:
        return self.rows[-1].make_position(-1)

    def take(self, rows: Rows) -> bool:
        """Take as many rows as fit, but always the first row of the page; return True if all rows were taken."""
        room = self._room
        if not len(rows) or room.count >= room.limit:
            return not len(rows)
        fitting = rows.take_first(room.limit - room.count)
        if not (len(fitting) and self._take_all(fitting)):
            # The first event with its versions may exceed the limit on its own.
            fitting = self._take_each(fitting if len(fitting) else rows.cut_to(1))
        if len(fitting):
            self.rows.append(fitting)
        return len(fitting) == len(rows)

    def _take_all(self, rows: Rows) -> bool:
        """Take all rows if they fit. Exact sizes are only needed once the page is nearly full."""
        if not self._is_exact and not self._room.take_all(rows.bound_size(), rows.count):
            self._is_exact, self._room.size = True, sum(taken.measure_size() for taken in self.rows)
            return self._room.take_all(rows.measure_size(), rows.count)
        return not self._is_exact or self._room.take_all(rows.measure_size(), rows.count)

    def _take_each(self, rows: Rows) -> Rows:
        """Take rows one by one; return the rows that fit."""
        number = 0
        for size, count in zip(rows.measure_sizes(), rows.counts, strict=True):
            if not self._room.take(size, count):
                break
            number += 1
        fitting = rows.cut_to(number)
        if self._room.exceeded:
            for row in fitting.rows:
                cut_to_page(row)
        return fitting


def cut_to_page(row: Row) -> None:
    """Leave out the oldest versions of an event until it fits into a page."""
    take_earlier(row, row.earlier, len(row.earlier) + row.left_out)


def take_earlier(row: Row, versions: Iterable[Row | None], count: int) -> None:
    """Give a row the earlier versions that fit into an answer with it. ``count`` is the number of its earlier versions.

    In ``versions``, the latest version comes first, and None is a version that does not exist any more. ``left_out``
    counts the versions that do not fit: reading stops at the first of them.
    """
    room, earlier, number = Room(), list[Row](), -1
    room.take(row.measure_own_size())
    for number, version in enumerate(versions):
        if version is not None and not room.take(version.measure_own_size()):
            number -= 1
            break
        if version is not None:
            earlier.append(version)
    row.earlier, row.left_out = tuple(earlier), count - number - 1
