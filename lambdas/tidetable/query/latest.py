"""The latest event of each of some series, without a scan: from the newest table backwards, until each has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import TableMissing
from tidetable.keys import MAX_NAME_BYTES
from tidetable.periods import containing
from tidetable.ports import Asked, KeyRange
from tidetable.problems import refuse
from tidetable.query.answer import MAX_ANSWER_BYTES
from tidetable.query.params import parse_consistent, parse_shape, single
from tidetable.query.read import RESERVE, Cost, Reader, Remaining
from tidetable.query.rows import Row, Shape, Shown, complete, row_of, shown
from tidetable.times import to_text

KNOWN = ("series", "fields", "consistent")
MAX_SERIES = 100


@dataclass(slots=True)
class Latest:
    """What was found, by series; tables were searched back to ``searched``, None if there is none."""

    series: Sequence[str]
    found: dict[str, Shown] = field(default_factory=dict)
    searched: datetime | None = None
    cost: Cost = field(default_factory=Cost)
    size: int = 0

    def document(self) -> dict[str, Any]:
        """The answer's body, in the order of the series asked for."""
        events = [self.found.get(name) for name in self.series]
        return {
            "latest": [
                {"series": name, "event": None if event is None else event.document()}
                for name, event in zip(self.series, events, strict=True)
            ],
            "searched_back_to": None if self.searched is None else to_text(self.searched),
        }


def find_latest(
    stream: Stream,
    parameters: Mapping[str, Sequence[str]],
    reader: Reader,
    now: datetime,
    remaining: Remaining,
) -> Latest:
    """The latest event of each series asked for, up to the newest time that the stream accepts; archives are not searched.

    ProblemError says what to change.
    """
    series = _series(parameters)
    given = single({name: values for name, values in parameters.items() if name != "series"}, KNOWN, where=False)
    shape, consistent = parse_shape(stream, given), parse_consistent(given)
    if stream.key.partition_by != "series":
        detail = f"{stream.name} is partitioned by time, so only a scan would find a series' latest event: query a range instead"
        raise refuse(400, "needs_series", detail)
    latest = Latest(series)
    for entry in _backwards(stream, reader, now, consistent=consistent):
        missing = [name for name in series if name not in latest.found]
        if not missing or not entry.live or entry.layout.partition_by != "series" or remaining() < RESERVE:
            break
        rows = _search(entry, missing, latest, shape, reader, consistent=consistent)
        latest.searched = entry.period.start
        for row, one in zip(rows, shown(rows, stream.name, shape), strict=True):
            latest.found[row.names[1]] = one
    return latest


def _backwards(stream: Stream, reader: Reader, now: datetime, *, consistent: bool) -> Iterator[Entry]:
    """The stream's entries from the newest on; what its retention should have taken is looked up only by who comes so far."""
    newest = now + stream.ahead
    edge = containing(now, stream.period).shift(-stream.retention - 1).start
    seen: set[str] = set()
    for start in (edge, None):
        entries = reader.catalog.entries(stream.name, start, newest, consistent=consistent)
        for entry in sorted(entries, key=lambda one: one.period.start, reverse=True):
            if entry.table not in seen:
                seen.add(entry.table)
                yield entry


def _series(parameters: Mapping[str, Sequence[str]]) -> list[str]:
    names = list(dict.fromkeys(parameters.get("series", ())))
    if not 1 <= len(names) <= MAX_SERIES:
        raise refuse(400, "bad_parameter", f"give series= for each of 1 to {MAX_SERIES} series")
    if not all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in names):
        raise refuse(400, "bad_parameter", f"series must have 1 to {MAX_NAME_BYTES} bytes")
    return names


def _search(
    entry: Entry, names: Sequence[str], latest: Latest, shape: Shape, reader: Reader, *, consistent: bool
) -> list[Row]:
    """The latest events that a period has of some series: one item of each suffix is read, all at once."""
    layout, period = entry.layout, entry.period
    low, high = layout.edge(period.start), layout.edge(period.end)
    ranges = [
        (name, KeyRange(entry.table, layout.partition(period.start, name, suffix), low, high))
        for name in names
        for suffix in layout.suffixes(name)
    ]
    pages = reader.store.query_many([Asked(keys, 1) for _, keys in ranges], ascending=False, consistent=consistent)
    best: dict[str, Any] = {}
    for (name, _), page in zip(ranges, pages, strict=True):
        latest.cost.requests += 1
        if page is None:
            continue  # it goes at this moment, and with it its events
        latest.cost.page(page)
        for item in page.items:
            if name not in best or item["sk"] > best[name]["sk"]:
                best[name] = item
    rows = [row_of(reader.unpacker.eased(item), entry, shape) for item in best.values()]
    latest.size += sum(row.size(shape) for row in rows)
    if latest.size > MAX_ANSWER_BYTES:
        raise refuse(422, "too_much", "these events are more than an answer holds: ask for fewer series, or fields")
    try:
        complete(rows, reader.unpacker, shape)
    except TableMissing:
        return []
    return rows
