"""The answer to a query: its page as it fills, and as it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidetable.exact import decode_json, encode_json
from tidetable.query.cursor import Position
from tidetable.query.params import Query
from tidetable.query.plain import PlainRows, cut, joined, parted
from tidetable.query.plan import Gap, Stage
from tidetable.query.read import Cost
from tidetable.query.rows import ALL, Row, Shown, escaped_bytes
from tidetable.times import to_text

# AWS: a Lambda answers at most 6 MB, counted after escaping.
MAX_ANSWER_BYTES = 5_000_000


class Texts(NamedTuple):
    """Events that are shown as they are stored: their rows, the pieces of their JSON, and that joined by commas."""

    rows: PlainRows
    pieces: list[str]
    joined: str


@dataclass(slots=True)
class Answer:
    """A page of events; ``next`` is None at the end. ``parts`` are its events in order, as texts where they are so already.

    ``sources`` are the stages that it was read from.
    """

    parts: Sequence[list[Shown] | Texts] = ()
    next: str | None = None
    gaps: Sequence[Gap] = ()
    cost: Cost = field(default_factory=Cost)
    sources: Sequence[Stage] = ()
    fields: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """What a table of the events has in any case: the fields that were asked for among them."""
        return ["series", "time", "id", *(f"data.{name}" for name in self.fields if name != ALL), "ref"]

    @property
    def count(self) -> int:
        """How many events there are."""
        return sum(len(part.rows if isinstance(part, Texts) else part) for part in self.parts)

    def texts(self) -> list[str]:
        """The events as JSON."""
        return [
            text for part in self.parts for text in (parted(part.pieces) if isinstance(part, Texts) else _texts(part))
        ]

    def joined(self) -> str:
        """The same with commas between them."""
        parts = [part.joined if isinstance(part, Texts) else ",".join(_texts(part)) for part in self.parts]
        return ",".join([part for part in parts if part])

    @property
    def name(self) -> str:
        """What the rows are called."""
        return "events"

    @property
    def bounded(self) -> bool:
        """The page was cut so that it can be answered."""
        return True

    def about(self) -> dict[str, Any]:
        """What the answer says besides its events."""
        return {"next": self.next, "gaps": gaps_of(self.gaps), "sources": sources_of(self.sources)}

    def document(self) -> dict[str, Any]:
        """The answer's body."""
        return {self.name: [decode_json(text) for text in self.texts()], **self.about()}


@dataclass(slots=True, kw_only=True)
class Table:
    """An answer of rows that are not events as they are stored."""

    rows: list[dict[str, Any]]
    next: str | None
    gaps: Sequence[Gap]
    cost: Cost
    sources: Sequence[Stage]
    columns: Sequence[str]

    def texts(self) -> list[str]:
        """The rows as JSON."""
        return [encode_json(row).decode() for row in self.rows]

    def joined(self) -> str:
        """The same with commas between them."""
        return ",".join(self.texts())

    def told(self, **more: Any) -> dict[str, Any]:
        """What the answer says besides its rows."""
        return {"next": self.next, **more, "gaps": gaps_of(self.gaps), "sources": sources_of(self.sources)}


class AnswerPage:
    """The page of an answer as it fills: rows, and items that are shown as they are stored."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._size = 0
        self.count = 0
        self.parts: list[list[Row] | Texts] = []

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for part in self.parts if not isinstance(part, Texts) for row in part]

    @property
    def position(self) -> Position:
        """The place of the last event."""
        last = next(part for part in reversed(self.parts) if len(part.rows if isinstance(part, Texts) else part))
        return last.rows.position(-1) if isinstance(last, Texts) else last[-1].position

    def take(self, rows: Iterable[Row]) -> bool:
        """Take rows as far as they fit, and the first in any case; tells whether one did not."""
        taken: list[Row] = []
        self.parts.append(taken)
        for row in rows:
            # An event is never parted from its earlier versions.
            count = self.count + 1 + len(row.earlier)
            size = self._size + row.size(self._query.shape)
            if self.count and (count > self._query.limit or size > MAX_ANSWER_BYTES):
                return True
            if size > MAX_ANSWER_BYTES:
                row.cut_earlier(self._query.shape, MAX_ANSWER_BYTES)
            self.count, self._size = count, size
            taken.append(row)
        return False

    def take_plain(self, batch: PlainRows) -> bool:
        """The same of plain events, which are shown as they are stored."""
        rows = batch.first(self._query.limit - self.count)
        pieces = rows.pieces(self._query.stream)
        text = joined(pieces)
        size = escaped_bytes(text)
        if self._size + size > MAX_ANSWER_BYTES:
            size, number = 0, 0
            for one in parted(pieces):
                more = escaped_bytes(one) + 1
                if (self.count or number) and self._size + size + more > MAX_ANSWER_BYTES:
                    break
                size, number = size + more, number + 1
            rows, pieces = rows.first(number), cut(pieces, number)
            text = joined(pieces)
        self.parts.append(Texts(rows, pieces, text))
        self.count += len(rows)
        self._size += size
        return len(rows) < len(batch)


def _texts(part: Iterable[Shown]) -> list[str]:
    return [encode_json(one.document()).decode() for one in part]


def gaps_of(gaps: Iterable[Gap]) -> list[dict[str, Any]]:
    """The parts of a range that could not be read."""
    return [{"from": to_text(gap.start), "to": to_text(gap.end), "reason": gap.reason} for gap in gaps]


def sources_of(stages: Iterable[Stage]) -> list[dict[str, Any]]:
    """Which periods an answer came from, and from where: their table, an index of it, a read replica, or the archive."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for stage in stages:
        source: dict[str, Any] = {"period": stage.entry.period.label, "from": stage.source}
        if stage.index is not None:
            source["index"] = stage.index.name
        found[stage.entry.period.label, stage.source] = source
    return list(found.values())
