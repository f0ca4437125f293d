"""Parse and plan a ranking: choose the index that answers it, and make a scan of each period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tidetable.catalog import Entry, GapReason
from tidetable.conditions import ANY, Condition, NameConditions, read_numbers
from tidetable.config import Stream
from tidetable.layout import WHOLE, Index, Layout, escape
from tidetable.periods import find_containing
from tidetable.ports import ArchiveRange, KeyRange, Rank
from tidetable.problems import ProblemError, refuse_parameter, refuse_request
from tidetable.query.access_path import list_key_fields, name_partitions
from tidetable.query.cursor import Seal, refuse_long
from tidetable.query.index_scans import IndexScan
from tidetable.query.model import EVERYTHING, Projection
from tidetable.query.parse import Parameters
from tidetable.query.plain.plain_scans import needs_table_data, push_down
from tidetable.query.plan import cover_range
from tidetable.query.scans import ArchiveScan, Gap, Plan, Scan
from tidetable.times import to_text
from tidetable.where import MAX_VALUE_BYTES, parse_conditions

KNOWN = (
    "index", "value", "kind", "from", "to", "tz", "order", "limit", "fields", "format", "flat", "escape", "refs",
    "explain", "cursor",
    "consistent",
)  # fmt: skip
DEFAULT_LIMIT, MAX_LIMIT = 10, 1_000


class RankKey(NamedTuple):
    """A position in a ranking.

    If the highest number comes first, the newest of several events with the same number comes first.
    """

    number: Decimal
    time: datetime
    series: str
    id: str


class Ranking(msgspec.Struct, frozen=True, array_like=True, tag="top"):
    """The first ``limit`` events with one ``value`` of an index's partition key, by the number that sorts the index.

    Events must also meet ``conditions`` and have a time in ``[start, end)``.
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
    projection: Projection = EVERYTHING
    after: RankKey | None = None
    consistent: bool = False
    tz: str = ""

    @property
    def low_priority(self) -> bool:
        """False: no replica is sorted by a number."""
        return False

    @property
    def names(self) -> NameConditions:
        """An empty condition on names: a ranking has events of all series with the value of its index."""
        return ANY

    def make_cursor(self, position: RankKey) -> Ranking:
        """Make the ranking for a cursor, with the position where its page ended."""
        index = _reduce_to_order(self.index)
        return replace(self, index=index, limit=0, projection=self.projection.bare, after=position)

    def make_archive_rank(self) -> Rank:
        """Return the ranking in the form for an archive's reader."""
        after = self.after
        start = None if after is None else (str(after.number), to_text(after.time), after.series, after.id)
        return Rank(self.index.sort_by, start)

    @property
    def of_series(self) -> str | None:
        """The series whose events a local index ranks; None for any other ranking."""
        return self.value if self.index.local and self.value else None

    @property
    def value_condition(self) -> Condition | None:
        """The condition on the value, which a global index implies; None if the ranking has the events of all values."""
        field = dict(self.index.kinds).get(self.kind) if self.index.kind else self.index.partition_by
        return None if self.index.local or field in (None, WHOLE) else Condition(str(field), "eq", (self.value,))

    def list_all_conditions(self) -> tuple[Condition, ...]:
        """List all conditions that an event of an archive must meet. There, no index implies a condition."""
        kind = (Condition(self.index.kind, "eq", (self.kind,)),) if self.index.kind and not self.index.local else ()
        value = () if self.value_condition is None else (self.value_condition,)
        return (*kind, *value, *self.conditions)


def _reduce_to_order(index: Index) -> Index:
    """Return the index without the settings that do not affect its order."""
    return replace(index, shards=1, project=None)


def parse_ranking(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> Ranking:
    """Read the query string; ProblemError says what to change. The default range is the whole retention."""
    request = Parameters.read(stream, parameters, KNOWN)
    values, limit = request.values, request.parse_count("limit", MAX_LIMIT) or DEFAULT_LIMIT

    def list_repeats(ranking: Ranking) -> dict[str, bool]:
        return request.list_repeats(ranking, now) | {
            "index": values.get("index") == ranking.index.name,
            "value": values.get("value") == ranking.value,
            "kind": values.get("kind") == ranking.kind,
        }

    if "cursor" in values:
        cursor = request.open_cursor(Ranking, seal, list_repeats)
        index, projection = _find_same_index(stream, cursor.index), cursor.projection.of(stream)
        return replace(cursor, index=index, limit=limit, projection=projection)
    index = _find_index(stream, values)
    start, end = request.parse_range(now, find_containing(now, stream.period).shift(-stream.retention).start)
    value, kind = values.get("value", ""), values.get("kind", "")
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise refuse_parameter(f"value has at most {MAX_VALUE_BYTES} bytes")
    of_all = index.partition_by == WHOLE or (index.local and stream.key.partition_by == "time")
    if of_all and "value" in values:
        raise refuse_parameter(f"the index {index.name} ranks all events: leave value out")
    if not of_all and ("value" not in values or (index.local and not value)):
        field = "series" if index.local else dict(index.kinds).get(kind) if index.kind else index.partition_by
        raise refuse_parameter(f"add value=: the index {index.name} ranks the events of one {field}")
    if ("kind" in values) != bool(index.kind) or (index.kind and kind not in dict(index.kinds)):
        kinds = ", ".join(name for name, _ in index.kinds)
        why = f"one of {kinds}, of the index {index.name}" if index.kind else "left out: the index has no kinds"
        raise refuse_parameter(f"kind must be {why}")
    projection, conditions = request.parse_projection(), parse_conditions(stream, request.values)
    ascending, consistent = request.parse_flag("order"), request.parse_flag("consistent")
    if consistent and not index.local:
        detail = f"the index {index.name} is global, and DynamoDB reads it eventually: leave consistent out"
        raise refuse_parameter(f"{detail}, or rank by an index with local = true")
    selection = conditions, projection, None, consistent, request.tz
    ranking = Ranking(stream.name, index, value, kind, start, end, ascending, limit, *selection)
    refuse_long(ranking.make_cursor(RankKey(Decimal(0), start, "", "")))
    return ranking


def _find_same_index(stream: Stream, former: Index) -> Index:
    """Find the stream's index that a cursor's ranking used.

    Raises ProblemError if the order of the index has changed.
    """
    index = next((index for index in stream.layout.indexes if index.name == former.name), None)
    if index is None or _reduce_to_order(index) != former:
        raise refuse_request(400, "invalid_cursor", f"the index {former.name} has changed: begin without the cursor")
    return index


def _find_index(stream: Stream, values: Mapping[str, str]) -> Index:
    """Find the index that the request names, or the stream's only ranking. Raises ProblemError."""
    if stream.pack is not None:
        detail = (
            f"{stream.name} keeps its events in packs, and an index cannot see the events in a pack: query a range and sort it,"
            " or ask aggregate with by= and top= for the first groups; a ranking needs a stream without"
            f" [streams.{stream.name}.pack]"
        )
        raise refuse_request(400, "needs_index", detail)
    indexes = {index.name: index for index in stream.layout.indexes}
    rankings = [name for name, index in indexes.items() if index.ranks]
    named = indexes.get(values.get("index", ""))
    if named is not None and not named.ranks:
        raise _refuse_index(named, rankings)
    if not rankings:
        detail = (
            f"{stream.name} has no ranking: add [[streams.{stream.name}.index]] with a field that holds numbers as sort_by,"
            ' such as sort_by = "score"'
        )
        raise refuse_request(400, "needs_index", detail)
    if "index" not in values and len(rankings) > 1:
        raise refuse_parameter(f"add index=: there are {', '.join(rankings)}")
    if "index" in values and named is None:
        raise refuse_parameter(f"there is no ranking {values['index'][:64]!r}; there are: {', '.join(rankings)}")
    return named or indexes[rankings[0]]


def _refuse_index(index: Index, rankings: Sequence[str]) -> ProblemError:
    """Make the error for an index that is not sorted by numbers.

    An index with ``levels`` is sorted by text, other indexes by time.
    """
    fields = ", ".join(index.levels)
    order = f"the text of {fields}" if index.levels else "time"
    instead = "query events, which are in the order of time"
    if index.levels:
        conditions = " and ".join(f"where.{field}=" for field in (*list_key_fields(index), index.levels[0]))
        groups = f"aggregate with by={index.levels[0]}, whose rows are in the order of text"
        instead = f"query events with {conditions}, or ask {groups}"
    named = f"; the stream's rankings are {', '.join(rankings)}" if rankings else ""
    detail = f"the index {index.name} is sorted by {order}, and a ranking has the order of numbers: {instead}{named}"
    return refuse_parameter(detail)


def plan_ranking(ranking: Ranking, entries: Sequence[Entry]) -> Plan:
    """Plan a scan of each period: of each suffix of its index, or of its archive."""
    scans: list[Scan] = []
    gaps: list[Gap] = []
    for entry, start, end in cover_range(ranking.start, ranking.end, entries, gaps):
        layout = entry.layout
        whole = (start, end) == (entry.period.start, entry.period.end)
        edges = layout.make_edge(start), layout.make_edge(end)
        index = _find_same_order(ranking, layout)
        if not entry.live and entry.archived is not None:
            conditions, rank = ranking.list_all_conditions(), ranking.make_archive_rank()
            names = ANY if ranking.of_series is None else NameConditions(series=(ranking.of_series,))
            keys = ArchiveRange(entry.archived.manifest, *edges, conditions=conditions, rank=rank, names=names)
            scans.append(ArchiveScan(entry=entry, start=start, end=end, conditions=ranking.conditions, keys=keys))
        elif not entry.live:
            gaps.append(Gap(start, end, entry.absence))
        elif index is None:
            gaps.append(Gap(start, end, GapReason.NO_INDEX))
        else:
            scans.append(_plan_index_scan(ranking, index, entry, start, end, None if whole else edges))
    return Plan(scans, gaps)


def _find_same_order(ranking: Ranking, layout: Layout) -> Index | None:
    """Find a period's index that ranks the same events in the same order.

    Its shards and its fields may be different.
    """

    def make_order(index: Index) -> tuple[object, ...]:
        return index.partition_by, index.kind, frozenset(index.kinds), index.sort_by, index.local

    if ranking.index.local and (layout.partition_by == "series") is not (ranking.of_series is not None):
        return None
    return next((index for index in layout.indexes if make_order(index) == make_order(ranking.index)), None)


def _plan_index_scan(
    ranking: Ranking, index: Index, entry: Entry, start: datetime, end: datetime, times: tuple[str, str] | None
) -> IndexScan:
    """Make one range per suffix of the value; no ranges if no event can have the value and a number in the bounds."""
    low, high = _find_bounds(ranking)
    conditions, partitions = ranking.conditions, [index.name_partition("")]
    suffixes: Sequence[int] = range(index.shards)
    layout = entry.layout
    if index.local:
        suffixes = layout.list_suffixes(() if ranking.of_series is None else (ranking.of_series,))
        partitions = [escape(ranking.value)] if ranking.of_series is not None else layout.list_buckets(start, end)
    elif (equal := ranking.value_condition) is not None:
        partitions = name_partitions(index, equal.texts(), ranking.kind)
        if len(partitions) > 1:
            # A number in an unusual form, such as 1.0, is also searched in the partition of its usual form 1.
            conditions = (*conditions, equal)
    if low is not None and high is not None and low > high:
        partitions = []
    return IndexScan(
        entry=entry,
        start=start,
        end=end,
        conditions=conditions,
        index=index,
        keys=KeyRange(entry.table, "", low, high, None, index, push_down(index, conditions), times),
        partitions=partitions,
        suffixes=suffixes,
        fetches=needs_table_data(index, ranking.projection, conditions),
    )


def _find_bounds(ranking: Ranking) -> tuple[Decimal | None, Decimal | None]:
    """Find the lowest and the highest number to read, from the conditions on it and the end of an earlier page."""
    lows, highs = [], []
    for condition in ranking.conditions:
        numbers = [number for text in condition.values for number in read_numbers(text)]
        if condition.field == ranking.index.sort_by and numbers:
            lows += [min(numbers)] if condition.operator in ("gt", "ge", "eq", "in") else []
            highs += [max(numbers)] if condition.operator in ("lt", "le", "eq", "in") else []
    if ranking.after is not None:
        (lows if ranking.ascending else highs).append(ranking.after.number)
    return max(lows, default=None), min(highs, default=None)
