"""What the command `advise` takes from the catalog, from CloudWatch, from the logs and from the keys, at its edges."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from cli import measure
from cli.account import AccountError
from cli.advising import History, Hour
from cli.measure import Sources
from cli.measure_keys import read_shares, share_out
from cli.measure_logs import read_uses
from cli.measure_units import read_hours
from tests.fakes.serial import Serial
from tests.worlds.commands import run
from tests.worlds.entries import make_entry
from tidetable.catalog import Entry, Opening, State
from tidetable.config import TableClass, parse
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Table

NOW = datetime(2026, 3, 15, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)
STREAM = parse(
    '[streams.s]\nperiod = "day"\nlate = "6h"\nretention = 2\n[streams.s.key]\npartition_by = "series"'
).streams["s"]
KIND = Index("by_kind", "kind", 3)
PLAIN = Layout("time", 4, "id", 86_400, (KIND,))
OUTPUTS = {"QueryLogs": "q", "IngestLogs": "i", "DoorsLogs": "d"}
HOT = Hour(NOW, throttles={("Write", "KeyRangeThroughput"): 1.0})


def entry(days: int, layout: Layout = PLAIN, state: State = State.OPEN, **more: Any) -> Entry:
    """The table of a day, so many days from now."""
    return make_entry("s", find_containing(NOW + days * DAY, Kind.DAY), f"t{days}", layout, state, NOW, **more)


ENTRIES = [
    entry(-3, state=State.DELETED),
    entry(-2, replace(PLAIN, pack=Packing(60, 9_000), indexes=())),
    entry(-1, opened=Opening(NOW, 1, 1)),
    entry(0),
    entry(1),
]


class World:
    """An account with the catalog's entries, and what was read of it."""

    def __init__(self, patch: pytest.MonkeyPatch, hours: Any = None) -> None:
        self.read: Any = []
        self.described: list[str] = []
        self.entries = list(ENTRIES)
        self.outputs: dict[str, str] = dict(OUTPUTS)
        hours = hours or {("t-3", ""): (HOT,), ("t-2", ""): (HOT,), ("t-1", ""): (HOT,), ("t-1", "by_kind"): (HOT,)}
        patch.setattr(measure, "read_hours", lambda _, tables, *span: self.note((tables, *span), hours))
        patch.setattr(measure, "read_uses", lambda _, groups, *__: self.note(groups, ()))
        patch.setattr(measure, "read_writing", lambda _, groups, *__: self.read.append(groups))
        patch.setattr(measure, "read_shares", lambda *_: {"k": 1.0} | {_[2].table: 0.0})

    def note(self, read: Any, answer: Any) -> Any:
        self.read.append(read)
        return answer

    def describe(self, name: str) -> Table | None:
        self.described.append(name)
        sizes = {"by_kind": (7, 70)}
        return Table(name, "ACTIVE", 1, 1, TableClass.STANDARD, size_bytes=5000, item_count=50, index_sizes=sizes)

    def find(self, name: str, start: datetime, end: datetime) -> list[Entry]:
        assert name == "s"
        return [own for own in self.entries if own.period.start <= end and own.period.end > start]

    def history(self, span: timedelta = timedelta(days=2, hours=12), now: datetime = NOW) -> History:
        pipeline = SimpleNamespace(
            catalog=SimpleNamespace(entries=self.find), tables=SimpleNamespace(describe=self.describe), pools=Serial
        )
        account: Any = SimpleNamespace(pipeline=pipeline, outputs=self.outputs)
        return measure.measure_history(account, Sources(None, None, None), STREAM, now, span)


def test_tables_are_measured_with_their_sizes_and_their_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late events reach a table six hours after its end; a deleted table has units, and no size."""
    world = World(monkeypatch)
    history = world.history()
    start = NOW - timedelta(days=2, hours=12)
    tables = {"t-3": ["by_kind"], "t-2": [], "t-1": ["by_kind"], "t0": ["by_kind"]}
    assert world.read == [(tables, start, NOW), ["q"], ["i", "d"]]
    assert (history.start, history.end, history.missing) == (start, NOW, ())
    assert world.described == ["t-2", "t-1", "t0"]
    shown = [(r.period.label, r.index, r.shards, r.items, r.bytes, r.imported, r.packed) for r in history.resources]
    assert shown == [
        ("2026-03-12", "", 4, 0, 0, False, False),
        ("2026-03-13", "", 4, 50, 5000, False, True),
        ("2026-03-14", "", 4, 50, 5000, True, False),
        ("2026-03-14", "by_kind", 3, 7, 70, True, False),
    ]


def test_a_table_that_only_late_events_reached_is_measured_and_none_that_begins_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, midnight = World(monkeypatch), datetime(2026, 3, 15, tzinfo=UTC)
    world.history(timedelta(hours=1), midnight + timedelta(hours=2))
    world.history(timedelta(hours=1), midnight)
    assert [list(tables) for tables, *_ in world.read[0::3]] == [["t-1", "t0"], ["t-1"]]


COLD = Hour(NOW, write=1.0)


@pytest.mark.parametrize(
    ("hours", "entries", "shares"),
    [
        ({("t-1", ""): (HOT,)}, ENTRIES, {"k": 1.0, "t0": 0.0}),
        ({("t-1", ""): (COLD,)}, ENTRIES, None),
        # The limit of an index's partition says nothing about the table's keys.
        ({("t-1", ""): (COLD,), ("t-1", "by_kind"): (HOT,)}, ENTRIES, None),
        ({("t-1", ""): (HOT,)}, [*ENTRIES[:3], entry(0, state=State.DELETED)], None),
    ],
)
def test_keys_are_read_of_the_newest_table_if_a_partition_was_throttled(
    hours: Any, entries: list[Entry], shares: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, hours)
    world.entries = entries
    assert world.history().shares == shares


def test_logs_that_cannot_be_read_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> Any:
        raise AccountError("a query lasts.")

    world = World(monkeypatch)
    monkeypatch.setattr(measure, "read_uses", slow)
    (missing,) = world.history().missing
    assert missing.startswith("the logs were not read: a query lasts; allow logs:StartQuery")


class Watch:
    """CloudWatch: a point of one unit for each metric, and a report of Contributor Insights."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at
        self.sizes: list[int] = []
        self.reports: list[Any] = []

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, *, MetricDataQueries: Any, **_: Any) -> Iterator[Any]:  # noqa: N803
        self.sizes.append(len(MetricDataQueries))
        assert {query["MetricStat"]["Stat"] for query in MetricDataQueries} == {"Sum"}
        times = [self.at, self.at + timedelta(minutes=5)]
        results = [{"Id": query["Id"], "Timestamps": times, "Values": [1.0, 2.0]} for query in MetricDataQueries]
        yield {"MetricDataResults": results}

    def get_insight_rule_report(self, **request: Any) -> Any:
        self.reports.append(request)
        return {"Contributors": [{"Keys": ["a#0"], "ApproximateAggregateValue": 3.0}]}


def test_metrics_are_requested_by_500_and_hours_are_those_of_utc() -> None:
    """Ten metrics of each of 51 tables; CloudWatch may answer times of any zone."""
    watch = Watch(NOW.astimezone(timezone(timedelta(hours=5, minutes=45))))
    hours = read_hours(watch, {f"t{number}": [] for number in range(51)}, NOW - DAY, NOW)
    assert watch.sizes == [500, 10]
    (hour,) = hours["t50", ""]
    assert hour.start == datetime(2026, 3, 15, 11, tzinfo=UTC)
    assert (hour.write, hour.peak_write) == (3.0, 2.0 / 300)
    assert hour.throttled("Write", "AccountLimit") == 3.0


class Logs:
    """Logs Insights, whose query has these states one after the other."""

    def __init__(self, states: Sequence[str]) -> None:
        self.states = iter(states)
        self.limit = 0

    def start_query(self, *, limit: int, **_: Any) -> Any:
        self.limit = limit
        return {"queryId": "q"}

    def get_query_results(self, **_: Any) -> Any:
        return {"status": next(self.states), "results": []}


def test_a_query_of_the_logs_may_take_two_minutes_and_answers_ten_thousand_kinds() -> None:
    logs, waited = Logs(["Scheduled"] * 60 + ["Running"] * 59 + ["Complete"]), list[float]()
    assert read_uses(logs, ["q"], "s", NOW - DAY, NOW, waited.append) == ()
    assert (sum(waited), logs.limit) == (119, 10_000)


class Keys:
    """DynamoDB with a state of Contributor Insights, whose suffixes have so many items per second.

    With ``packed``, the items of the suffix 0 are packs of so many events.
    """

    def __init__(
        self, status: str = "DISABLED", rates: Sequence[float] = (), *, cut: bool = False, packed: int = 0
    ) -> None:
        self.status, self.rates, self.cut, self.packed = status, rates, cut, packed
        self.slices: list[tuple[str, str]] = []

    def describe_contributor_insights(self, **_: Any) -> Any:
        rules = ["DynamoDBContributorInsights-PKT-t", "DynamoDBContributorInsights-PKC-t"]
        return {"ContributorInsightsStatus": self.status, "ContributorInsightsRuleList": rules}

    def query(self, **request: Any) -> Any:
        pk, low, high = (next(iter(value.values())) for value in request["ExpressionAttributeValues"].values())
        span = datetime.fromisoformat(high) - datetime.fromisoformat(low)
        self.slices.append((low, high))
        count = round(self.rates[int(pk.rpartition("#")[2])] * span.total_seconds())
        if self.cut and span > timedelta(seconds=20):
            return {"Items": [{}] * min(count, 50), "LastEvaluatedKey": {}}
        assert request["ExpressionAttributeNames"][request["ProjectionExpression"]] == "n"
        pack = {"n": {"N": str(self.packed)}} if self.packed and pk.endswith("#0") else {}
        return {"Items": [pack] * min(count, request["Limit"])}


def test_a_report_is_of_a_day_of_whole_hours_and_of_the_period_alone() -> None:
    watch, own = Watch(), entry(0)
    assert read_shares(Keys("ENABLED"), watch, own, NOW) == {"0": 1.0}
    (request,) = watch.reports
    assert (request["StartTime"], request["EndTime"]) == (own.period.start, NOW.replace(minute=0))
    assert (request["RuleName"], request["MaxContributorCount"]) == ("DynamoDBContributorInsights-PKC-t", 100)
    week = replace(own, period=find_containing(NOW, Kind.WEEK))
    read_shares(Keys("ENABLED"), watch, week, NOW)
    assert watch.reports[1]["StartTime"] == NOW.replace(minute=0) - DAY
    # The first hour of a period has no whole hour.
    assert read_shares(Keys("ENABLED"), watch, own, own.period.start + timedelta(minutes=59)) is None


@pytest.mark.parametrize(
    ("keys", "layout", "shares"),
    [
        (Keys(rates=[1, 3, 0, 0]), PLAIN, {"1": 0.75, "0": 0.25, "2": 0, "3": 0}),
        # A minute of 1,000 items is too full, and so is a page of 1 MB; a quarter of it is not.
        (Keys(rates=[20, 60, 0, 0]), PLAIN, {"1": 0.75, "0": 0.25, "2": 0, "3": 0}),
        (Keys(rates=[1, 3, 0, 0], cut=True), PLAIN, {"1": 0.75, "0": 0.25, "2": 0, "3": 0}),
        (Keys(rates=[10**6] * 4), PLAIN, None),
        (Keys("ENABLING", rates=[1, 3, 0, 0]), PLAIN, {"1": 0.75, "0": 0.25, "2": 0, "3": 0}),
        (Keys(rates=[1]), replace(PLAIN, shards=1), None),
        # 15 packs of 20 events, and 900 events that are alone.
        (
            Keys(rates=[0.25, 15, 0, 0], packed=20),
            replace(PLAIN, pack=Packing(60, 9_000)),
            {"1": 0.75, "0": 0.25, "2": 0, "3": 0},
        ),
    ],
)
def test_a_sample_is_of_a_slice_that_is_counted_whole(keys: Keys, layout: Layout, shares: Any) -> None:
    found = read_shares(keys, Watch(), entry(0, layout), NOW)
    assert found == (None if shares is None else pytest.approx(shares, abs=0.01))
    if shares is not None:
        assert next(iter(found or ())) == "1"


def test_shares_are_of_the_whole_and_never_more_than_all() -> None:
    """The whole of a report is approximate, too."""
    assert share_out({"a": 3.0, "b": 1.0}, 2.0) == {"a": 0.75, "b": 0.25}


ROLLED = """
[streams.s]
period = "day"
late = "1h"
retention = 2
[streams.s.key]
partition_by = "series"
[[streams.s.rollup]]
name = "m"
every = "10m"
retention = "30d"
"""


def test_two_weeks_of_each_stream_are_judged_and_no_rollups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, judged = importlib.import_module("cli.advise"), list[Any]()
    monkeypatch.setattr(module, "find_account", lambda *_: None)
    monkeypatch.setattr(measure, "open_sources", lambda *_: None)

    def read(_: Any, __: Any, stream: Any, now: datetime, span: timedelta) -> History:
        judged.append((stream.name, span.days))
        return History(stream, now - span, now, ())

    monkeypatch.setattr(measure, "measure_history", read)
    file = tmp_path / "tidetable.toml"
    file.write_text(ROLLED)
    assert run("advise", "--config", str(file)).exit_code == 0
    assert judged == [("s", 14)]
    assert [run("advise", "--config", str(file), "--days", days).exit_code for days in ("60", "61", "0")] == [0, 64, 64]
