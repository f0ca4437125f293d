"""The life of a stream that is partitioned by series and has a rollup, on the strict service, with the real adapters."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.refresher import refresh_rollups
from tests.fakes.stage import ROLLUPS, Stage
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveBusy, TableThrottled
from tidetable.ports import Noting
from tidetable.problems import ProblemError
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.rollups.run import RefreshReport
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
MIDNIGHT = NOON + timedelta(hours=12)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 3
[streams.s.key]
partition_by = "series"
shards = 2
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["n"]
retention = "365d"
"""
PACKS = CONFIG.replace("retention = 3", 'retention = 3\npack = { span = "1h" }')


class Rolled(Stage):
    """A stage with the table of the rollups' state. Each call is a new process."""

    def __init__(self, config: str) -> None:
        super().__init__(NOON, config)
        self.sent: list[dict[str, Any]] = []

    def refresh(self) -> RefreshReport:
        pipeline = self.pipeline
        services = pipeline.refresher(lambda: 100.0)
        report = refresh_rollups(pipeline.definitions, services, "run", choose_lease_length(timedelta(seconds=300)))
        assert report is not None
        assert (report.failed, report.finished) == ([], True)
        return report

    def write(self, *events: tuple[str, datetime, int]) -> None:
        """Send events of these series, times and numbers."""
        body = [{"series": series, "id": f"{n}", "time": to_text(time), "data": {"n": n}} for series, time, n in events]
        assert self.send("s", json.dumps(body).encode()).accepted == len(body)
        self.sent += [{"series": series, "time": time, "n": n} for series, time, n in events]

    def ask(self, **parameters: str) -> Any:
        self.settle()
        now, stream = self.clock.now(), self.config.streams["s"]
        given = {"by": "series", "stat": "count,sum", "field": "n", "from": to_text(MIDNIGHT), **parameters}
        query = parse_aggregation(stream, {name: [value] for name, value in given.items()}, now, self.seal)
        return find_aggregate(query, stream, self.reader(), now, lambda: 100.0)

    def check(self) -> set[str]:
        """What the aggregate of everything says is what was sent; returns what it was read from."""
        answer = self.ask()
        expected: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for event in self.sent:
            expected[event["series"]] += event["n"]
            counts[event["series"]] += 1
        found = {row["group"]["series"]: (row["count"], int(row["sum"])) for row in answer.rows}
        assert found == {series: (counts[series], total) for series, total in expected.items()}
        assert not answer.gaps
        return {scan.entry.stream for scan in answer.sources}

    def entry(self, label: str) -> Entry:
        (found,) = [entry for entry in self.catalog.entries("s", consistent=True) if entry.period.label == label]
        return found

    def notes(self, label: str) -> list[str]:
        return list(self.rollups.read_notes("s", label, consistent=True).series)


@pytest.fixture(params=[CONFIG, PACKS], ids=["items", "packs"])
def stage(request: pytest.FixtureRequest) -> Rolled:
    """At noon of the second day, with events of four series in each hour of that day."""
    stage = Rolled(request.param)
    stage.run_lifecycle()
    stage.refresh()
    number = 0
    while stage.clock.now() < NOON + DAY:
        stage.clock.sleep(3_600)
        stage.run_lifecycle()
        now = stage.clock.now()
        if now > MIDNIGHT:
            number += 10
            stage.write(*[(name, now - timedelta(seconds=n), number + n) for n, name in enumerate("abcd")])
    stage.clock.sleep(600)
    stage.refresh()
    return stage


def test_all_series_are_aggregated_from_the_rollup_and_what_is_not_sealed_from_the_noted_series(stage: Rolled) -> None:
    (edge,) = stage.rollups.read_state("s").edges
    assert (edge.start, edge.sealed) == (NOON - DAY, NOON + DAY)
    assert stage.rollups.read_state("s").noted_since == datetime(1, 1, 1, tzinfo=UTC)
    assert stage.check() == {"s", "s-hours"}
    # A late event of a new series is in the answer at once, and after it was added to the cells. Packs are computed anew.
    stage.write(("late", MIDNIGHT + HOUR, 1_000), ("e", stage.clock.now(), 2_000))
    assert stage.check() == {"s", "s-hours"}
    stage.clock.sleep(200)
    report = stage.refresh()
    assert report.added + report.resealed == 1
    assert stage.check() == {"s", "s-hours"}
    assert stage.notes("2026-03-16") == ["a", "b", "c", "d", "e", "late"]


def test_before_series_were_noted_all_of_them_cannot_be_aggregated(stage: Rolled) -> None:
    """As if the rollup had been added to a stream that was there before."""
    state = stage.rollups.read_state("s")
    stage.rollups.forget("s", "hours")
    assert stage.rollups.put_noting("s", Noting(MIDNIGHT, MIDNIGHT), state.noting)
    with pytest.raises(ProblemError) as error:
        stage.ask(**{"from": to_text(NOON - DAY)})
    assert error.value.problem.code == "needs_series"


def pass_days(stage: Rolled, days: int) -> None:
    for _ in range(days):
        stage.clock.sleep(86_400)
        for _ in range(3):
            stage.run_lifecycle()
            stage.refresh()
            stage.clock.sleep(300)


def test_archives_and_restores_change_no_answer_and_notes_go_two_days_after_their_table(stage: Rolled) -> None:
    pass_days(stage, 4)
    assert stage.entry("2026-03-16").state is State.DELETED
    assert stage.check() == {"s-hours"}
    assert stage.notes("2026-03-16") == ["a", "b", "c", "d"]
    # It comes back from its archive: what is read of it is read by the noted series.
    stage.restore("s", "2026-03-16", keep_days=5)
    assert {row["group"]["series"] for row in stage.ask(rollups="false", to=to_text(NOON + DAY)).rows} == set("abcd")
    pass_days(stage, 6)
    assert stage.entry("2026-03-16").state is State.DELETED
    pass_days(stage, 3)
    assert stage.notes("2026-03-16") == []
    assert stage.check() == {"s-hours"}
    # Without any note left: a restore notes before it writes.
    stage.restore("s", "2026-03-16")
    assert stage.notes("2026-03-16") == ["a", "b", "c", "d"]
    assert {row["group"]["series"] for row in stage.ask(rollups="false", to=to_text(NOON + DAY)).rows} == set("abcd")


def test_a_restore_writes_nothing_whose_series_cannot_be_noted(stage: Rolled) -> None:
    pass_days(stage, 4)
    put: Callable[..., None] = stage.rollups.put_notes

    def fail(*_: Any) -> None:
        raise TableThrottled(ROLLUPS)

    stage.rollups.put_notes = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(ArchiveBusy, match="series of s could not be noted for its rollups; a later run goes on"):
        stage.restore("s", "2026-03-16")
    table = stage.entry("2026-03-16").table
    rows: Any = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    assert rows == []
    stage.clock.sleep(900)
    stage.rollups.put_notes = put  # type: ignore[method-assign]
    stage.restore("s", "2026-03-16")
    assert stage.check() == {"s-hours"}
