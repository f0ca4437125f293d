"""Parse an aggregation: its steps, statistics and groups. Also compute the windows into which steps divide a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from tidetable.config import Stream
from tidetable.large.searched import refuse_unsearched
from tidetable.problems import refuse_parameter
from tidetable.query.aggregates.steps import TimeStep, parse_step
from tidetable.query.cursor import Seal, refuse_long
from tidetable.query.model import EVERYTHING, Position, Projection, Query, QueryBased
from tidetable.query.parse import MAX_FIELDS_BYTES, Parameters, refuse_scan
from tidetable.statistics import PLAIN, TIMES, find_statistic, parse_percentile
from tidetable.times import EPOCH
from tidetable.where import parse_path

_RANGE = ("from", "to", "tz", "series", "series:prefix", "id", "id:prefix", "consistent", "priority", "explain")
_OWN = (
    "step",
    "align",
    "stat",
    "field",
    "by",
    "top",
    "order",
    "fill",
    "limit",
    "format",
    "flat",
    "escape",
    "cursor",
    "rollups",
)
KNOWN = (*_RANGE, *_OWN)
Fill = Literal["none", "null", "zero", "previous"]
FILLS: tuple[Fill, ...] = ("none", "null", "zero", "previous")
MAX_ROWS = 10_000
MAX_STEPS = 100_000
MAX_STATS, MAX_GROUPS_BY = 20, 4
SERIES = "series"


class Aggregation(QueryBased, msgspec.Struct, frozen=True, array_like=True, tag="aggregate"):
    """Statistics of a field's numbers (without a field: of events), for each step of a query's range and each group.

    If ``step`` is None, the whole range is one step. If the range is ``aligned``, it has only whole steps.

    Events are grouped by ``by``: ``series`` and fields of data. With ``top``, only this number of groups is shown. They
    are ranked by the first statistic over the whole range, the highest first unless ``ascending``.

    A page ends before the step that would give it more than ``limit`` rows. A single step may have at most ``limit``
    rows.
    """

    query: Query
    stats: tuple[str, ...]
    field: str | None = None
    step: TimeStep | None = None
    by: tuple[str, ...] = ()
    top: int | None = None
    ascending: bool = False
    fill: Fill = "none"
    limit: int = MAX_ROWS
    rollups: bool = True
    aligned: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The field of data that is aggregated, and the fields by which events are grouped."""
        named = [name for name in self.by if name != SERIES]
        return tuple(dict.fromkeys([*([self.field] if self.field else []), *named]))

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields of data that must be read: ``fields`` and the fields of the conditions."""
        return tuple(dict.fromkeys([*self.fields, *(condition.field for condition in self.conditions)]))

    @property
    def approximate(self) -> list[str]:
        """The statistics that are estimates."""
        return [stat for stat in self.stats if parse_percentile(stat) is not None]

    @property
    def timed(self) -> bool:
        """True if a statistic is the time of an event."""
        return any(stat in TIMES for stat in self.stats)

    def find_window(self, at: datetime) -> tuple[datetime, datetime]:
        """Return the start and the end of the step that holds an instant, cut to the query's range."""
        start, end = self.query.start, self.query.end
        if self.step is None:
            return start, end
        first, last = self.step.find_whole(at, self.query.tz)
        return max(first, start), min(last, end)

    @property
    def has_ends(self) -> bool:
        """True if a statistic needs the first or the last event."""
        return not {"first", "last"}.isdisjoint(self.stats)

    @property
    def filled(self) -> bool:
        """True if the rows of a step may depend on earlier steps. Then one page must answer all steps."""
        return self.fill == "previous" or (self.fill != "none" and bool(self.by))

    def make_cursor(self, step: datetime) -> Aggregation:
        """Make the aggregation for a cursor, with the start of the first step of the next page."""
        query = replace(self.query, projection=EVERYTHING).make_cursor(Position(step))
        return replace(self, query=query, limit=0)

    def project_needed(self) -> Aggregation:
        """Return the aggregation with a query that shows only the needed data."""
        tops = tuple(dict.fromkeys(field.partition(".")[0] for field in self.fields))
        return replace(self, query=replace(self.query, projection=Projection(tops, only_fields=True)))


def parse_aggregation(
    stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal
) -> Aggregation:
    """Read the query string; ProblemError says what to change."""
    request = Parameters.read(stream, parameters, KNOWN)
    values, limit = request.values, request.parse_count("limit", MAX_ROWS) or MAX_ROWS
    if "cursor" in values:
        cursor = request.open_cursor(Aggregation, seal, lambda cursor: _list_repeats(request, cursor, now))
        return replace(cursor, limit=limit).project_needed()
    # Events are read oldest first: the parameter order is the order of the groups.
    query = replace(request, values={**values, "order": "asc"}).parse_query(now, limit, latest=now)
    stats, by, field = _parse_stats(values), _parse_groups(values), _parse_field(values)
    if field is None:
        _refuse_lack_of_field(stats)
    if sum(len(path.encode()) for path in (*by, field or "")) > MAX_FIELDS_BYTES:
        raise refuse_parameter(f"by and field have at most {MAX_FIELDS_BYTES} bytes together")
    refuse_unsearched(stream, (*by, field or ""))
    step, aligned = _parse_step(values, query), _parse_align(request)
    if aligned and step is not None:
        query = replace(query, start=_align(query.start, step, query), end=_align(query.end, step, query))
        if query.start >= query.end:
            detail = "the range has no whole step that has ended: make it longer or step shorter, or leave align out"
            raise refuse_parameter(detail)
    top, fill = request.parse_count("top", 1000), _parse_fill(request)
    if top is not None and not by:
        raise refuse_parameter("top shows the first groups: add by=, such as by=series")
    if "order" in values and top is None:
        raise refuse_parameter(
            "order is the order of the top groups: add top=, or leave order out; steps come oldest first"
        )
    if fill != "none" and step is None:
        raise refuse_parameter("fill is for steps without events: add step=, such as step=5m")
    ascending = top is not None and request.parse_flag("order")
    aggregation = Aggregation(
        query, stats, field, step, by, top, ascending, fill, limit, _parse_rollups(request), aligned
    )
    if not stream.rollup:
        # If the stream has rollups, they or their noted series may answer. That is decided when the sections are
        # chosen.
        refuse_scan(stream, query)
    refuse_long(aggregation.make_cursor(query.start))
    return aggregation.project_needed()


def _list_repeats(request: Parameters, cursor: Aggregation, now: datetime) -> dict[str, bool]:
    values, step = request.values, _parse_step(request.values, cursor.query)
    edges = {name: request.parse_instant(name, now) for name in ("from", "to")}
    if cursor.aligned and cursor.step is not None:
        edges = {name: at and _align(at, cursor.step, cursor.query) for name, at in edges.items()}
    return request.list_repeats(cursor.query, now) | {
        "from": edges["from"] == cursor.query.start,
        "to": edges["to"] == cursor.query.end,
        "stat": _parse_stats(values) == cursor.stats,
        "field": _parse_field(values) == cursor.field,
        "by": _parse_groups(values) == cursor.by,
        "top": request.parse_count("top", 1000) == cursor.top,
        "step": step == cursor.step,
        "align": _parse_align(request) == cursor.aligned,
        "order": cursor.top is not None and request.parse_flag("order") == cursor.ascending,
        "fill": _parse_fill(request) == cursor.fill,
        "rollups": _parse_rollups(request) == cursor.rollups,
    }


def _parse_field(values: Mapping[str, str]) -> str | None:
    field = parse_path(values["field"]) if "field" in values else None
    if field is not None and not all(field.split(".")):
        raise refuse_parameter("field is the path of a field of data, such as mag or place.depth")
    return field


def _parse_stats(values: Mapping[str, str]) -> tuple[str, ...]:
    stats = tuple(values.get("stat", "count").split(","))
    if not all(map(find_statistic, stats)) or len(stats) > MAX_STATS or len(set(stats)) < len(stats):
        what = f"{', '.join(PLAIN)}, or a percentile such as p95"
        raise refuse_parameter(f"stat is a list such as avg,p95 of {what}; each once")
    return stats


def _refuse_lack_of_field(stats: tuple[str, ...]) -> None:
    *others, last = (name for name, statistic in PLAIN.items() if not statistic.needs_field)
    if not {*others, last}.issuperset(stats):
        names = f"{', '.join(others)} and {last}"
        raise refuse_parameter(f"add field=: only {names} need no field of data that holds numbers")


def _parse_groups(values: Mapping[str, str]) -> tuple[str, ...]:
    by = tuple(map(parse_path, values["by"].split(","))) if "by" in values else ()
    if not all(all(path.split(".")) for path in by) or len(by) > MAX_GROUPS_BY or len(set(by)) < len(by):
        raise refuse_parameter(f"by is a list of series and fields of data, {MAX_GROUPS_BY} at the most")
    return by


def _parse_step(values: Mapping[str, str], query: Query) -> TimeStep | None:
    if "step" not in values:
        return None
    try:
        step = parse_step(values["step"], local=bool(query.tz))
    except ValueError as error:
        raise refuse_parameter(f"step: {error}") from error
    if (query.end - query.start) / step.shortest > MAX_STEPS:
        raise refuse_parameter(f"the range has more than {MAX_STEPS} such steps: make step longer")
    return step


def _parse_align(request: Parameters) -> bool:
    """True if the range has only whole steps."""
    aligned = request.parse_flag("align")
    if aligned and "step" not in request.values and "cursor" not in request.values:
        raise refuse_parameter("align is for whole steps: add step=, such as step=5m")
    return aligned


def _align(at: datetime, step: TimeStep, query: Query) -> datetime:
    """Move an edge of a range back to the beginning of its step."""
    return max(step.find_whole(at, query.tz)[0], EPOCH)


def _parse_fill(request: Parameters) -> Fill:
    return request.read_choice("fill", FILLS, f"fill must be one of {', '.join(FILLS)}")


def _parse_rollups(request: Parameters) -> bool:
    detail = "rollups is true or false: false reads the events themselves"
    return request.read_choice("rollups", ("true", "false"), detail) == "true"
