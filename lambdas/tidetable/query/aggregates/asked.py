"""What an aggregate is asked for: steps, statistics, groups; and the windows that steps make of a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from tidetable.conditions import Condition, Names
from tidetable.config import Stream
from tidetable.durations import parse_length
from tidetable.problems import refuse
from tidetable.query.aggregates.stats import PLAIN, is_stat, percentile_of
from tidetable.query.cursor import Position, Seal, refuse_long
from tidetable.query.params import (
    MAX_FIELDS_BYTES,
    Query,
    opened_alone,
    parse_limit,
    parse_order,
    parse_range_query,
    refuse_scan,
    single,
)
from tidetable.query.rows import Shape
from tidetable.query.where import is_condition, parse_path
from tidetable.times import EPOCH, from_micros, to_micros

_RANGE = ("from", "to", "series", "series:prefix", "id", "id:prefix", "consistent", "priority", "explain")
_OWN = ("step", "stat", "field", "by", "top", "order", "fill", "limit", "format", "flat", "escape", "cursor")
KNOWN = (*_RANGE, *_OWN)
Fill = Literal["none", "null", "zero", "previous"]
FILLS: tuple[Fill, ...] = ("none", "null", "zero", "previous")
MAX_ROWS = 10_000
MAX_STEPS = 100_000
MAX_STATS, MAX_GROUPS_BY = 20, 4
SERIES = "series"
# ISO weeks begin on Mondays, the epoch on a Thursday.
_WEEK, _MONDAY = timedelta(days=7), EPOCH + timedelta(days=4)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Statistics of a field's numbers (of events, if none is named) in each step of a query's range, by group.

    ``step`` is None for one step that is the whole range. ``by`` are ``series`` and fields of data; of the groups only the first
    ``top`` are shown, by the first statistic over the whole range, the highest first unless ``ascending``.

    A page ends where a step would bring it beyond ``limit`` rows; one step alone may have more, up to ``most``.
    """

    query: Query
    stats: tuple[str, ...]
    field: str | None = None
    step: timedelta | None = None
    by: tuple[str, ...] = ()
    top: int | None = None
    ascending: bool = False
    fill: Fill = "none"
    limit: int = MAX_ROWS
    most: int = MAX_ROWS

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of data that are aggregated, or grouped by."""
        named = [one for one in self.by if one != SERIES]
        return tuple(dict.fromkeys([*([self.field] if self.field else []), *named]))

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields of data that are looked at."""
        return tuple(dict.fromkeys([*self.fields, *(one.field for one in self.query.conditions)]))

    @property
    def shape(self) -> Shape:
        """What of the events is needed."""
        return Shape(tuple(dict.fromkeys(one.partition(".")[0] for one in self.fields)), bare=True)

    @property
    def approximate(self) -> list[str]:
        """The statistics that are estimates."""
        return [one for one in self.stats if percentile_of(one) is not None]

    def window(self, at: datetime) -> tuple[datetime, datetime]:
        """The step that holds an instant, as far as the range goes."""
        start, end = self.query.start, self.query.end
        if self.step is None:
            return start, end
        origin = _MONDAY if not self.step % _WEEK else EPOCH
        first = origin + (at - origin) // self.step * self.step
        return max(first, start), end if end - first <= self.step else first + self.step

    def cursor(self, at: datetime) -> AggregateCursor:
        """The cursor of a page that ended before a step."""
        query = self.query
        return AggregateCursor(
            query.stream,
            query.names,
            to_micros(query.start),
            to_micros(query.end),
            query.conditions,
            query.consistent,
            query.low_priority,
            self.stats,
            self.field,
            None if self.step is None else self.step // timedelta(microseconds=1),
            self.by,
            self.fill,
            to_micros(at),
        )


class AggregateCursor(msgspec.Struct, frozen=True, array_like=True):
    """An aggregate, and the step at which to go on."""

    stream: str
    names: Names
    start: int
    end: int
    conditions: tuple[Condition, ...]
    consistent: bool
    low_priority: bool
    stats: tuple[str, ...]
    field: str | None
    step: int | None
    by: tuple[str, ...]
    fill: Fill
    time: int


def parse_aggregation(
    stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal
) -> Aggregation:
    """Read the query string; ProblemError says what to change."""
    given = single(parameters, KNOWN)
    limit = parse_limit(given.get("limit"), MAX_ROWS, MAX_ROWS)
    if "cursor" in given:
        return _continued(stream, opened_alone(given, AggregateCursor, seal), limit)
    asked = {name: values for name, values in parameters.items() if name in _RANGE or is_condition(name)}
    query = parse_range_query(stream, asked | {"order": ["asc"]}, now, seal)
    stats, by = _stats(given), _groups(given)
    field = parse_path(given["field"]) if "field" in given else None
    if field is None and stats != ("count",):
        raise refuse(400, "bad_parameter", "add field=: only count needs no field of data that holds numbers")
    if field is not None and not all(field.split(".")):
        raise refuse(400, "bad_parameter", "field is the path of a field of data, such as mag or place.depth")
    if sum(len(one.encode()) for one in (*by, field or "")) > MAX_FIELDS_BYTES:
        raise refuse(400, "bad_parameter", f"by and field have at most {MAX_FIELDS_BYTES} bytes together")
    for one in (*by, *([] if field is None else [field])):
        if one.partition(".")[0] in stream.cold:
            raise refuse(400, "bad_parameter", f"{one} is a cold field of {stream.name}: it is shown, and not searched")
    top, step = parse_limit(given["top"], 1000) if "top" in given else None, _step(given, query)
    if top is not None and not by:
        raise refuse(400, "bad_parameter", "top shows the first groups: add by=, such as by=series")
    if "order" in given and top is None:
        raise refuse(
            400, "bad_parameter", "order is that of top groups: add top=, or leave it out; steps come oldest first"
        )
    ascending = top is not None and parse_order(given)
    asked_for = Aggregation(query, stats, field, step, by, top, ascending, _fill(given), limit, limit)
    refuse_scan(stream, query)
    refuse_long(asked_for.cursor(query.start))
    return replace(asked_for, query=replace(query, shape=asked_for.shape))


def _stats(given: Mapping[str, str]) -> tuple[str, ...]:
    stats = tuple(given.get("stat", "count").split(","))
    if not all(map(is_stat, stats)) or len(stats) > MAX_STATS or len(set(stats)) < len(stats):
        what = f"{', '.join(PLAIN)}, or a percentile such as p95"
        raise refuse(400, "bad_parameter", f"stat is a list such as avg,p95 of {what}; each once")
    return stats


def _groups(given: Mapping[str, str]) -> tuple[str, ...]:
    by = tuple(map(parse_path, given["by"].split(","))) if "by" in given else ()
    if not all(all(one.split(".")) for one in by) or len(by) > MAX_GROUPS_BY or len(set(by)) < len(by):
        raise refuse(400, "bad_parameter", f"by is a list of series and fields of data, {MAX_GROUPS_BY} at the most")
    return by


def _step(given: Mapping[str, str], query: Query) -> timedelta | None:
    if "step" not in given:
        return None
    try:
        step = parse_length(given["step"])
    except ValueError as error:
        raise refuse(400, "bad_parameter", f"step: {error}") from error
    if step < timedelta(seconds=1):
        raise refuse(400, "bad_parameter", "step must be one second at the least, such as 5m")
    if (query.end - query.start) / step > MAX_STEPS:
        raise refuse(400, "bad_parameter", f"the range has more than {MAX_STEPS} such steps: make step longer")
    return step


def _fill(given: Mapping[str, str]) -> Fill:
    fill = next((one for one in FILLS if one == given.get("fill", "none")), None)
    if fill is None:
        raise refuse(400, "bad_parameter", f"fill must be one of {', '.join(FILLS)}")
    if fill != "none" and "step" not in given:
        raise refuse(400, "bad_parameter", "fill is for steps without events: add step=, such as step=5m")
    return fill


def _continued(stream: Stream, cursor: AggregateCursor, limit: int) -> Aggregation:
    if cursor.stream != stream.name:
        raise refuse(400, "invalid_cursor", "this cursor belongs to another stream")
    query = Query(
        stream.name,
        from_micros(cursor.start),
        from_micros(cursor.end),
        cursor.names,
        ascending=True,
        limit=1,
        after=Position(from_micros(cursor.time)),
        conditions=cursor.conditions,
        consistent=cursor.consistent,
        low_priority=cursor.low_priority,
    )
    step = None if cursor.step is None else timedelta(microseconds=cursor.step)
    asked = Aggregation(query, cursor.stats, cursor.field, step, cursor.by, None, False, cursor.fill, limit, limit)
    return replace(asked, query=replace(query, shape=asked.shape))
