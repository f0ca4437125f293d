"""The refresher's function: its payloads, its answers, its lease and the figures that it measures."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import wiring
from tests.fakes import FakeArchive, FakeCatalog, FakeClock, FakeStore, FakeValues, unpacker
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.config import parse
from tidetable.errors import BadInvocation, Outage, StoreUnavailable, TidetableError
from tidetable.ports import Edge
from tidetable.rollup_model.definition import make_definition
from tidetable.rollups.run import RefreshReport
from tidetable.work.claim import Claim, ItemName
from wiring_upkeep import Upkeep

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CONFIG = parse(
    """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 5
    key = { partition_by = "time", bucket = "6h" }
    [[streams.s.rollup]]
    name = "hours"
    every = "1h"
    retention = "30d"
    """
)
TEXT = make_definition(CONFIG.streams["s"], CONFIG.streams["s"].rollup[0]).text
EDGE = Edge("hours", NOON - 5 * HOUR, NOON - 2 * HOUR, TEXT)
SPAN = {"stream": "s", "rollup": "hours", "from": "2026-03-01", "to": "2026-03-01T08:30:00Z"}


class Function:
    """The function on fakes: the leases that it took and what it measured. A call has so many ``seconds``."""

    def __init__(self) -> None:
        self.catalog, self.rollups = FakeCatalog(), FakeRollups()
        self.seconds = 100.0
        self.work = FakeWork()
        self.leases: list[timedelta] = []
        self.claims: list[tuple[str, str, timedelta]] = []
        self.measured: dict[str, tuple[str, float]] = {}
        store = FakeStore(self.catalog)
        self.queue, self.clock = FakeWorkQueue(), FakeClock(NOON)
        self.pipeline = Upkeep(
            work_queue=self.queue,
            config=CONFIG,
            catalog=self.catalog,
            catalog_reader=self.catalog,
            store=store,
            rollups=self.rollups,
            work=self.work,
            clock=self.clock,
            archive_reader=FakeArchive(),
            unpacker=unpacker(store, FakeValues()),
            pools=Serial,
        )
        self._acquire, self.catalog.acquire = self.catalog.acquire, self._take  # type: ignore[method-assign]
        self._claim, self.work.claim = self.work.claim, self._take_claim  # type: ignore[method-assign]

    def __call__(self, **payload: Any) -> Any:
        from handlers import refresher

        context: Any = SimpleNamespace(
            function_name="f",
            memory_limit_in_mb=512,
            invoked_function_arn="arn",
            aws_request_id="request",
            get_remaining_time_in_millis=lambda: int(1000 * self.seconds),
        )
        with wiring.serve_pipeline(self.pipeline):
            return refresher.handler(payload, context)

    def _take(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        self.leases.append(length)
        return self._acquire(lease, owner, now, length)

    def _take_claim(
        self, kind: str, name: str, owner: str, now: datetime, until: datetime, *, added: bool = False
    ) -> Claim | None:
        self.claims.append((name, owner, until - now))
        return self._claim(kind, name, owner, now, until, added=added)

    def measure(self, name: str, unit: Any, value: float) -> None:
        self.measured[name] = unit.value, value


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Function:
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    made = Function()
    monkeypatch.setattr("handlers._observe.metrics.add_metric", made.measure)
    return made


def test_a_run_answers_and_measures_its_report(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    report = RefreshReport(1, 2, 3, ["a"] * 4, ["b"] * 5, [], 6, timedelta(seconds=7.5), finished=False)
    monkeypatch.setattr("handlers.refresher.refresh_rollups", lambda *_: report)
    assert function() == {
        "sealed": 1,
        "resealed": 2,
        "rebuilt": 0,
        "added": 0,
        "gone": 3,
        "blocked": ["a"] * 4,
        "overfull": ["b"] * 5,
        "failed": [],
        "marks": 6,
        "lag_seconds": 7,
        "finished": False,
        "left_to_others": [],
    }
    measured = {
        "RollupLag": ("Seconds", 7),
        "RollupBucketsSealed": ("Count", 1),
        "RollupBucketsResealed": ("Count", 2),
        "RollupBucketsBlocked": ("Count", 4),
        "RollupGroupsExceeded": ("Count", 5),
        "RollupMarks": ("Count", 6),
    }
    assert function.measured == measured
    # A run that failed is measured, too, and its invocation fails.
    function.measured.clear()
    report.failed = ["s: no answer", "t: no answer"]
    with pytest.raises(TidetableError, match=r"^s: no answer; t: no answer$"):
        function()
    assert function.measured == measured | {"StreamsFailed": ("Count", 2)}


def test_the_schedule_wakes_workers_and_measures_what_waits(function: Function) -> None:
    function.rollups.put_edge("s", EDGE, None)
    woken = {"due": 1, "running": 0, "failed": 0, "sent": 1, "oldest": 0, "marks": 0, "lag_seconds": 3390, "unread": []}
    assert function(source="schedule") == woken
    assert function.queue.messages == [ItemName("seal", "s")]
    measured = {
        "RollupLag": ("Seconds", 3390),
        "WorkOldest": ("Seconds", 0),
        "RollupMarks": ("Count", 0),
        "WorkDue": ("Count", 1),
    }
    assert function.measured == measured
    # Ten minutes later no worker has come, and its message may still be under way.
    function.clock.sleep(600)
    assert function(source="schedule") == woken | {"sent": 0, "oldest": 600, "lag_seconds": 3990}
    assert len(function.queue.messages) == 1
    # While a run of a former version works, nobody is woken.
    function.catalog.leases.clear()
    function._acquire("rollups", "another", NOON, HOUR)
    assert function(source="schedule") == {"skipped": "another run refreshes the rollups"}


def test_a_state_that_cannot_be_read_is_counted(function: Function) -> None:
    function.rollups.refuses = True
    (reason,) = function(source="schedule")["unread"]
    assert reason.startswith("s: ")
    assert function.measured["StreamsFailed"] == ("Count", 1)


def message(kind: str, name: str) -> dict[str, str]:
    return {"messageId": name, "body": json.dumps({"kind": kind, "name": name})}


def test_a_worker_does_what_its_message_says(function: Function) -> None:
    function.rollups.put_edge("s", EDGE, None)
    function.seconds = 300.0
    assert function(Records=[message("seal", "s")]) == {"batchItemFailures": []}
    assert function.claims == [("s", "request s", timedelta(seconds=90))]
    # The stream has no tables.
    assert function.measured["RollupBucketsBlocked"] == ("Count", 1)
    # It comes again, for a stream that is no more, and without a meaning.
    wrong = {"messageId": "odd", "body": "no message of ours"}
    records = [message("seal", "s"), wrong, message("seal", "gone"), message("part", "gone#m#x#0001")]
    assert function(Records=records) == {"batchItemFailures": [{"itemIdentifier": "odd"}]}
    assert [name for name, _, _ in function.claims] == ["s", "s", "gone", "gone#m#x#0001"]
    assert function.queue.messages == []


def test_an_item_that_fails_is_counted_and_its_message_is_done(function: Function) -> None:
    function.rollups.put_edge("s", EDGE, None)

    def fail(stream: str) -> None:
        raise StoreUnavailable(Outage.NO_ANSWER, "timed out")

    function.rollups.read_at_once = fail  # type: ignore[method-assign, assignment]
    assert function(Records=[message("seal", "s")]) == {"batchItemFailures": []}
    assert function.measured["StreamsFailed"] == ("Count", 1)
    assert function.work.records["seal", "s"].problem == "no answer: timed out"


def test_the_lease_of_the_stage_outlives_the_call_by_35_seconds_and_claims_are_short(function: Function) -> None:
    """Twice the difference of two clocks, and a request under way. The reserve for the answer is part of the call."""
    length = timedelta(seconds=100 + 35)
    assert function()["finished"]
    assert (function.leases, function.claims) == ([length], [("s", "request", timedelta(seconds=90))])


def test_a_second_run_leaves_the_first_alone(function: Function) -> None:
    function._acquire("rollups", "another", NOON, HOUR)
    assert function() == {"skipped": "another run refreshes the rollups"}
    assert function.measured == {}


def test_a_call_keeps_five_seconds_for_its_answer(function: Function) -> None:
    """Three more seconds are for a request."""
    function.rollups.put_edge("s", EDGE, None)
    for seconds, finished in ((8.0, True), (7.999, False)):
        function.seconds = seconds
        assert function()["finished"] is finished


def test_a_status_and_a_plan_change_nothing(function: Function) -> None:
    function.rollups.put_edge("s", EDGE, None)
    for dry_run in (False, True):
        status = function(status="s", dry_run=dry_run)
        assert (status["stream"], status["rollups"][0]["sealed"]) == ("s", "2026-03-01T10:00:00.000000Z")
    assert function(rebuild=SPAN, dry_run=True) == {
        "buckets": 7,
        "marked": 2,
        "problem": None,
        "rebuild": None,
        "estimate": {
            "from": "2026-03-01T00:00:00.000000Z",
            "to": "2026-03-01T09:00:00.000000Z",
            "cell_units": 1,
            "finer": None,
            "read_units": 0.0,
        },
    }
    assert (function.leases, list(function.rollups.read_state("s").edges)) == ([], [EDGE])


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"rebuil": SPAN},
        "unknown key 'rebuil': the payload may have dry_run and one of status, rebuild, cancel, pause, resume",
    ),
    ({"dry_run": True}, "dry_run goes with rebuild"),
    ({"status": "other"}, "'other' is not a stream with rollups; there are: s"),
    ({"status": ["s"]}, "['s'] is not a stream with rollups; there are: s"),
    ({"rebuild": SPAN | {"rollup": "days"}}, "rebuild: s has no rollup 'days'; it has hours"),
    ({"rebuild": SPAN | {"to": "2026-03-01"}}, "rebuild: from 2026-03-01T00:00:00.000000Z is not before to"),
    ({"rebuild": SPAN | {"from": "soon"}}, "rebuild: 'soon"),
    ({"rebuild": SPAN | {"to": 7}}, "rebuild: Expected"),
    ({"rebuild": SPAN, "dry_run": "yes"}, "dry_run must be true or false"),
]


def test_a_payload_that_is_wrong_says_why(function: Function) -> None:
    for payload, why in WRONG:
        with pytest.raises(BadInvocation) as refused:
            function(**payload)
        assert str(refused.value).startswith(why), payload
    assert function.leases == []
