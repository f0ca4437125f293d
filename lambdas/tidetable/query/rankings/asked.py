"""Rankings: which index answers one, what is to be read of each period, and what the query string asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import Condition, numbers_of
from tidetable.config import Stream
from tidetable.keys import WHOLE, Index
from tidetable.periods import containing
from tidetable.ports import ArchiveRange, KeyRange, Rank
from tidetable.problems import refuse
from tidetable.query.access import logical_partitions
from tidetable.query.cursor import Seal, refuse_long
from tidetable.query.params import opened_alone, parse_limit, parse_order, parse_range, parse_shape, single
from tidetable.query.plan import Gap, Stage, covered, fetches_from, told_by
from tidetable.query.rows import EVERYTHING, Shape
from tidetable.query.where import MAX_VALUE_BYTES, parse_conditions
from tidetable.times import from_micros, to_micros, to_text

KNOWN = (
    "index",
    "value",
    "kind",
    "from",
    "to",
    "order",
    "limit",
    "fields",
    "format",
    "flat",
    "escape",
    "explain",
    "cursor",
)
DEFAULT_LIMIT, MAX_LIMIT = 10, 1_000


class Place(NamedTuple):
    """A place in a ranking: the number, and of events of one number the newest first when the highest comes first."""

    number: Decimal
    time: datetime
    series: str
    id: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first ``limit`` events by an index's number, of one value of what it is partitioned by.

    ``conditions`` narrow it down further. Times are those of events.
    """

    stream: str
    index: Index
    value: str
    kind: str
    start: datetime
    end: datetime
    ascending: bool
    limit: int
    conditions: tuple[Condition, ...] = ()
    shape: Shape = EVERYTHING
    after: Place | None = None

    def cursor(self, place: Place) -> RankCursor:
        """The cursor of a page that ended there."""
        index = self.index
        return RankCursor(
            self.stream,
            (index.name, index.partition_by, index.sort_by, index.kind, index.kinds),
            self.value,
            self.kind,
            to_micros(self.start),
            to_micros(self.end),
            self.ascending,
            self.conditions,
            self.shape.fields,
            str(place.number),
            to_micros(place.time),
            place.series,
            place.id,
        )

    def archived(self) -> Rank:
        """How an archive is to rank its events."""
        after = self.after
        place = None if after is None else (str(after.number), to_text(after.time), after.series, after.id)
        return Rank(self.index.sort_by, place)

    def asked(self) -> tuple[Condition, ...]:
        """All that an event must meet, for whoever has no index of it: an archive."""
        kind = (Condition(self.index.kind, "eq", (self.kind,)),) if self.index.kind else ()
        field = dict(self.index.kinds).get(self.kind) if self.index.kind else self.index.partition_by
        value = (Condition(field, "eq", (self.value,)),) if field is not None and field != WHOLE else ()
        return (*kind, *value, *self.conditions)


class RankCursor(msgspec.Struct, frozen=True, array_like=True):
    """A ranking and the place reached in it; the index by all that its order depends on."""

    stream: str
    index: tuple[str, str, str, str, tuple[tuple[str, str], ...]]
    value: str
    kind: str
    start: int
    end: int
    ascending: bool
    conditions: tuple[Condition, ...]
    fields: tuple[str, ...]
    number: str
    time: int
    series: str
    id: str


def parse_ranking(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> Ranking:
    """Read the query string. Without edges it is all that the stream's retention keeps; ProblemError says what to change."""
    given = single(parameters, KNOWN)
    limit = parse_limit(given.get("limit"), MAX_LIMIT, DEFAULT_LIMIT)
    if "cursor" in given:
        return _continued(stream, opened_alone(given, RankCursor, seal), limit)
    index = _index(stream, given)
    kept = containing(now, stream.period).shift(-stream.retention).start
    start, end = parse_range(stream, given, now, kept)
    value, kind = given.get("value", ""), given.get("kind", "")
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise refuse(400, "bad_parameter", f"value has at most {MAX_VALUE_BYTES} bytes")
    if index.partition_by == WHOLE and "value" in given:
        raise refuse(400, "bad_parameter", f"the index {index.name} ranks all events: leave value out")
    if index.partition_by != WHOLE and "value" not in given:
        field = dict(index.kinds).get(kind) if index.kind else index.partition_by
        raise refuse(400, "bad_parameter", f"add value=: the index {index.name} ranks the events of one {field}")
    if ("kind" in given) != bool(index.kind) or (index.kind and kind not in dict(index.kinds)):
        kinds = ", ".join(name for name, _ in index.kinds)
        why = f"one of {kinds}, of the index {index.name}" if index.kind else "left out: the index has no kinds"
        raise refuse(400, "bad_parameter", f"kind must be {why}")
    shape, conditions = parse_shape(stream, given), parse_conditions(stream, given)
    ranking = Ranking(stream.name, index, value, kind, start, end, parse_order(given), limit, conditions, shape)
    refuse_long(ranking.cursor(Place(Decimal(0), start, "", "")))
    return ranking


def _continued(stream: Stream, cursor: RankCursor, limit: int) -> Ranking:
    index = next((one for one in stream.layout.indexes if one.name == cursor.index[0]), None)
    known = () if index is None else (index.name, index.partition_by, index.sort_by, index.kind, index.kinds)
    if cursor.stream != stream.name or index is None or known != cursor.index:
        detail = "this cursor belongs to another stream, or its index has become another: begin without it"
        raise refuse(400, "invalid_cursor", detail)
    return Ranking(
        stream.name,
        index,
        cursor.value,
        cursor.kind,
        from_micros(cursor.start),
        from_micros(cursor.end),
        cursor.ascending,
        limit,
        cursor.conditions,
        Shape.of(stream, cursor.fields, versions=False),
        Place(Decimal(cursor.number), from_micros(cursor.time), cursor.series, cursor.id),
    )


def _index(stream: Stream, given: Mapping[str, str]) -> Index:
    rankings = [index for index in stream.layout.indexes if index.ranks]
    if not rankings:
        detail = (
            f"{stream.name} has no ranking: [[streams.{stream.name}.index]] with a field that holds numbers as sort_by,"
            ' such as sort_by = "score", would be one'
        )
        raise refuse(400, "needs_index", detail)
    names = ", ".join(index.name for index in rankings)
    if "index" not in given and len(rankings) > 1:
        raise refuse(400, "bad_parameter", f"add index=: there are {names}")
    found = next((index for index in rankings if given.get("index", index.name) == index.name), None)
    if found is None:
        raise refuse(400, "bad_parameter", f"there is no ranking {given['index'][:64]!r}; there are: {names}")
    return found


def plan_ranking(ranking: Ranking, entries: Sequence[Entry], gaps: list[Gap]) -> list[Stage]:
    """A stage for each period: a range of each suffix of its index, or its archive."""
    stages = []
    for entry, start, end in covered(ranking.start, ranking.end, entries, gaps):
        layout = entry.layout
        whole = (start, end) == (entry.period.start, entry.period.end)
        edges = layout.edge(start), layout.edge(end)
        index = _same(ranking.index, layout.indexes)
        if not entry.live and entry.archived is not None:
            keys = ArchiveRange(entry.archived.manifest, *edges, conditions=ranking.asked(), rank=ranking.archived())
            stages.append(Stage(entry, start, end, archive=keys, conditions=ranking.conditions))
        elif not entry.live:
            gaps.append(Gap(start, end, entry.absence))
        elif index is None:
            gaps.append(Gap(start, end, "no index"))
        else:
            stages.append(_stage(ranking, index, entry, start, end, None if whole else edges))
    return stages


def _same(wanted: Index, indexes: Sequence[Index]) -> Index | None:
    """The index of a period that ranks the same events in the same order, whatever its suffixes and what it holds."""

    def order(index: Index) -> tuple[object, ...]:
        return index.partition_by, index.kind, frozenset(index.kinds), index.sort_by

    return next((index for index in indexes if order(index) == order(wanted)), None)


def _stage(
    ranking: Ranking, index: Index, entry: Entry, start: datetime, end: datetime, times: tuple[str, str] | None
) -> Stage:
    """A range of each suffix of the value; none, if no event can have it, or no number lies within the conditions."""
    low, high = _bounds(ranking)
    conditions, partitions = ranking.conditions, [index.logical("")]
    if index.partition_by != WHOLE:
        equal = Condition(dict(index.kinds).get(ranking.kind, index.partition_by), "eq", (ranking.value,))
        partitions = logical_partitions(index, equal.texts(), ranking.kind)
        if len(partitions) > 1:
            # A number in another form than its usual one is also looked for where text of that form is.
            conditions = (*conditions, equal)
    if low is not None and high is not None and low > high:
        partitions = []
    keys = KeyRange(entry.table, "", low, high, None, index, told_by(index, conditions), times)
    fetches = fetches_from(index, ranking.shape, conditions)
    suffixes = range(index.shards)
    return Stage(entry, start, end, keys, partitions, suffixes, index=index, conditions=conditions, fetches=fetches)


def _bounds(ranking: Ranking) -> tuple[Decimal | None, Decimal | None]:
    """Between which numbers to read, by the conditions on the number itself and by where a page before ended."""
    lows, highs = [], []
    for one in ranking.conditions:
        if one.field == ranking.index.sort_by:
            numbers = [number for text in one.values for number in numbers_of(text)]
            if one.operator in ("gt", "ge", "eq", "in"):
                lows += [min(numbers)] if numbers else []
            if one.operator in ("lt", "le", "eq", "in"):
                highs += [max(numbers)] if numbers else []
    if ranking.after is not None:
        (lows if ranking.ascending else highs).append(ranking.after.number)
    return max(lows, default=None), min(highs, default=None)
