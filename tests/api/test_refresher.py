"""The refresher's function: its payloads, its answers and its metrics."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import wiring
import wiring_upkeep
from tests.api.gateway import Context
from tests.fakes import FakeArchive, FakeCatalog, FakeClock, FakeStore, FakeValues, unpacker
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.functions import environment
from tidetable.config import parse
from tidetable.errors import BadInvocation, TidetableError
from tidetable.leases import hold_lease
from tidetable.ports import Edge
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollup_model.definition import make_definition
from tidetable.rollups.run import RefreshReport
from tidetable.work.claim import ItemName
from wiring_upkeep import Upkeep

__all__ = ["environment"]

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


@pytest.fixture
def rollups(environment: Any) -> Any:
    catalog, state = FakeCatalog(), FakeRollups()
    store = FakeStore(catalog)
    pipeline = Upkeep(
        config=CONFIG,
        catalog=catalog,
        catalog_reader=catalog,
        store=store,
        rollups=state,
        work=FakeWork(),
        work_queue=FakeWorkQueue(),
        clock=FakeClock(NOON),
        archive_reader=FakeArchive(),
        unpacker=unpacker(store, FakeValues()),
        pools=Serial,
    )
    with wiring.serve_pipeline(pipeline):
        yield state


def call(event: dict[str, Any]) -> dict[str, Any]:
    # Imported late: its metrics look at the environment when they are made.
    from handlers import refresher

    return refresher.handler(event, Context())  # type: ignore[arg-type, no-any-return]


def test_a_run_begins_a_rollup_ten_minutes_later_and_reports(
    rollups: FakeRollups, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call({}) == {
        "sealed": 0,
        "resealed": 0,
        "rebuilt": 0,
        "added": 0,
        "gone": 0,
        "marks": 0,
        "lag_seconds": 0,
        "blocked": [],
        "overfull": [],
        "failed": [],
        "finished": True,
        "left_to_others": [],
    }
    assert list(rollups.read_state("s").edges) == [Edge("hours", NOON + HOUR, NOON + HOUR, TEXT)]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    names = {metric["Name"] for line in lines[-1]["_aws"]["CloudWatchMetrics"] for metric in line["Metrics"]}
    assert names == {
        *("RollupLag", "RollupBucketsSealed", "RollupBucketsResealed"),
        *("RollupBucketsBlocked", "RollupGroupsExceeded", "RollupMarks"),
    }


def test_a_stream_that_fails_fails_the_run_so_that_its_alarm_rings(rollups: FakeRollups) -> None:
    rollups.refuses = True
    with pytest.raises(TidetableError, match="s: table rollups is throttled"):
        call({})


def test_a_second_run_leaves_the_first_alone(rollups: FakeRollups) -> None:
    catalog = wiring_upkeep.pipeline().catalog
    with hold_lease(catalog, "rollups", "another", NOON, timedelta(minutes=6)):
        assert call({}) == {"skipped": "another run refreshes the rollups"}
    assert rollups.read_state("s").edges == []


def test_the_lease_outlives_the_run(rollups: FakeRollups, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[timedelta] = []
    catalog = wiring_upkeep.pipeline().catalog
    monkeypatch.setattr(catalog, "acquire", lambda *given: taken.append(given[3]))
    call({})
    left = timedelta(milliseconds=Context().get_remaining_time_in_millis())
    assert taken[0] >= left + timedelta(seconds=20)


def test_a_status_says_how_far_a_rollup_is_sealed(rollups: FakeRollups) -> None:
    rollups.put_edge("s", EDGE, None)
    rollups.put_marks("s", [NOON - 4 * HOUR], to_millis(NOON), HOUR)
    rollups.put_over("s", "hours", NOON - 3 * HOUR, 10_001)
    assert call({"status": "s"}) == {
        "stream": "s",
        "paused": False,
        "rollups": [
            {
                "rollup": "hours",
                "stream": "s-hours",
                "every": "1h",
                "by": [],
                "fields": [],
                "stats": ["count", "sum", "min", "max"],
                "start": "2026-03-01T07:00:00.000000Z",
                "sealed": "2026-03-01T10:00:00.000000Z",
                # An hour, less the 210 seconds in which writers may still come.
                "lag_seconds": 3_390,
                "marks": 1,
                "overfull": ["2026-03-01T09:00:00.000000Z"],
                "overfull_count": 1,
                "versions": [
                    {
                        "start": "2026-03-01T07:00:00.000000Z",
                        "sealed": "2026-03-01T10:00:00.000000Z",
                        "present": True,
                    }
                ],
                "rebuild": None,
            }
        ],
    }


def test_a_status_of_all_streams_says_what_is_due_and_which_definitions_hold(rollups: FakeRollups) -> None:
    rollups.put_edge("s", EDGE, None)
    assert call({"status": "*"}) == {
        "work": [
            {"kind": "seal", "stream": "s", "outcome": "due", "reason": "1 bucket to seal"},
            {"kind": "seal", "stream": "s", "outcome": "planned", "reason": "1 bucket to seal"},
        ],
        "definitions": {"s": {"hours": TEXT}},
    }


def test_the_lag_of_a_status_counts_marked_buckets(rollups: FakeRollups) -> None:
    """A marked bucket should be computed anew four minutes after its first mark."""
    rollups.put_edge("s", EDGE, None)
    rollups.put_marks("s", [NOON - 4 * HOUR], to_millis(NOON - 2 * HOUR), HOUR)
    assert call({"status": "s"})["rollups"][0]["lag_seconds"] == 2 * 3_600 - 240


@pytest.mark.parametrize(
    ("start", "end", "plan"),
    [
        ("2026-03-01", "2026-03-01T08:30:00Z", (7, 2)),
        ("2026-03-01T06:30:00Z", "2026-03-01T07:00:00Z", (1, 0)),
        ("2026-03-01T08:00:00Z", "2026-03-02", (0, 2)),
    ],
)
def test_a_dry_run_counts_the_buckets_of_a_rebuild(
    rollups: FakeRollups, start: str, end: str, plan: tuple[int, int]
) -> None:
    rollups.put_edge("s", EDGE, None)
    wanted = {"stream": "s", "rollup": "hours", "from": start, "to": end}
    answer = call({"rebuild": wanted, "dry_run": True})
    assert answer.pop("estimate")["cell_units"] == 1
    assert answer == {"buckets": plan[0], "marked": plan[1], "problem": None, "rebuild": None}
    assert list(rollups.read_state("s").edges) == [EDGE]


PROGRESS = {
    "from": "2026-03-01T06:00:00.000000Z",
    "to": "2026-03-01T09:00:00.000000Z",
    "buckets": 3,
    "left": 3,
    "pieces": 0,
    "running": 0,
    "oldest": 0,
    "problem": None,
}


def test_a_rebuild_is_ordered_joined_shown_and_cancelled(rollups: FakeRollups) -> None:
    rollups.put_edge("s", EDGE, None)
    named = {"stream": "s", "rollup": "hours"}
    wanted = named | {"from": "2026-03-01T06:30:00Z", "to": "2026-03-01T08:30:00Z"}
    queue = wiring_upkeep.pipeline().work_queue
    answer = call({"rebuild": wanted})
    assert answer == {"buckets": 1, "marked": 2, "problem": None, "rebuild": PROGRESS}
    assert queue.messages == [ItemName("seal", "s")]  # type: ignore[attr-defined]
    # Another range joins the rebuild that is under way.
    assert call({"rebuild": wanted | {"from": "2026-03-01"}})["rebuild"] == PROGRESS
    assert call({"status": "s"})["rollups"][0]["rebuild"] == PROGRESS
    assert call({"cancel": named}) == {"rebuild": PROGRESS}
    assert call({"cancel": named}) == {"rebuild": None}
    assert call({"status": "s"})["rollups"][0]["rebuild"] is None


def test_a_rebuild_without_buckets_or_with_a_problem_orders_nothing(rollups: FakeRollups) -> None:
    wanted = {"stream": "s", "rollup": "hours", "from": "2026-03-01T11:00:00Z", "to": "2026-03-01T12:00:00Z"}
    problem = "the rollup has not begun: wait for the refresher's next run"
    assert call({"rebuild": wanted}) == {"buckets": 0, "marked": 0, "problem": problem, "rebuild": None}
    rollups.put_edge("s", EDGE, None)
    assert call({"rebuild": wanted}) == {"buckets": 0, "marked": 0, "problem": None, "rebuild": None}


SPAN = {"stream": "s", "rollup": "hours", "from": "2026-01-01", "to": "2026-02-01"}
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"rebuil": SPAN},
        "unknown key 'rebuil': the payload may have dry_run and one of status, rebuild, cancel, pause, resume",
    ),
    ({"status": "other"}, "'other' is not a stream with rollups; there are: s"),
    ({"rebuild": SPAN | {"rollup": "days"}}, "rebuild: s has no rollup 'days'; it has hours"),
    ({"rebuild": SPAN | {"to": "2026-01-01"}}, "is not before to"),
    ({"rebuild": SPAN | {"from": "soon"}}, "rebuild: "),
    ({"rebuild": {"stream": "s"}}, "rebuild: "),
    ({"rebuild": SPAN, "dry_run": "yes"}, "dry_run must be true or false"),
    ({"dry_run": True}, "dry_run goes with rebuild"),
    ({"dry_run": True, "source": "hand"}, "dry_run goes with rebuild"),
    ({"status": "s", "rebuild": SPAN}, "the payload may have status or rebuild, not both"),
    ({"status": None, "rebuild": SPAN, "dry_run": True}, "the payload may have status or rebuild, not both"),
    ({"pause": "s", "resume": "s"}, "the payload may have pause or resume, not both"),
    ({"pause": "other"}, "'other' is not a stream with rollups; there are: s"),
    ({"resume": "s", "dry_run": True}, "dry_run goes with rebuild"),
    ({"cancel": {"stream": "s"}}, "cancel: Object missing required field `rollup`"),
    ({"cancel": SPAN}, "cancel: Object contains unknown field"),
    ({"cancel": {"stream": "s", "rollup": "days"}}, "cancel: s has no rollup 'days'; it has hours"),
    ({"cancel": {"stream": "s", "rollup": "hours"}, "dry_run": True}, "dry_run goes with rebuild"),
    ({"status": ["s"]}, "['s'] is not a stream with rollups; there are: s"),
]


@pytest.mark.parametrize(("payload", "why"), WRONG)
def test_a_payload_that_is_wrong_says_why(rollups: FakeRollups, payload: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInvocation) as error:
        call(payload)
    assert why in str(error.value)


@pytest.mark.parametrize("paused", ["s", "*"])
def test_rollups_rest_from_a_pause_until_they_go_on(rollups: FakeRollups, paused: str) -> None:
    assert call({"pause": paused}) == {"stream": paused, "paused": True}
    assert call({})["finished"]
    assert (rollups.read_state("s").edges, call({"status": "s"})["paused"]) == ([], True)
    assert call({"resume": paused}) == {"stream": paused, "paused": False}
    call({})
    assert (len(rollups.read_state("s").edges), call({"status": "s"})["paused"]) == (1, False)


def test_a_stream_without_rollups_whose_tables_are_read_for_their_series_rests_too(
    rollups: FakeRollups, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[streams.t]\nperiod = "hour"\nlate = "1h"\nretention = 48\nkey = { partition_by = "series" }'
    config = replace(CONFIG, streams={**CONFIG.streams, **parse(text).streams})
    monkeypatch.setitem(vars(wiring_upkeep.pipeline()), "config", config)
    assert call({"pause": "t"}) == {"stream": "t", "paused": True}
    call({})
    assert (rollups.last, call({"status": "t"})) == ({}, {"stream": "t", "paused": True, "rollups": []})
    call({"resume": "t"})
    call({})
    assert rollups.last["t"].covered == ()


def test_the_metrics_of_a_run_are_those_of_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    from handlers import refresher
    from handlers._observe import observe

    @observe
    def measure(event: dict[str, Any], context: Any) -> None:
        refresher._report_refresh(
            RefreshReport(sealed=1, resealed=2, blocked=["a"] * 3, over=["b"] * 4, marks=5, lag=timedelta(seconds=6.5))
        )

    measure({}, Context())  # type: ignore[arg-type]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    names = (
        *("RollupBucketsSealed", "RollupBucketsResealed", "RollupBucketsBlocked", "RollupGroupsExceeded"),
        *("RollupMarks", "RollupLag"),
    )
    assert [lines[-1][name] for name in names] == [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]


@pytest.mark.parametrize(("millis", "finished"), [(8_000, True), (7_999, False)])
def test_a_run_keeps_three_seconds_for_a_request_and_five_for_its_report(
    rollups: FakeRollups, monkeypatch: pytest.MonkeyPatch, millis: int, finished: bool
) -> None:
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: millis)
    rollups.put_edge("s", EDGE, None)
    assert call({})["finished"] is finished


def test_a_report_counts_the_marks_that_are_left(rollups: FakeRollups) -> None:
    rollups.put_edge("s", EDGE, None)
    rollups.put_marks("s", [NOON - 4 * HOUR, NOON - 3 * HOUR], to_millis(NOON), HOUR)
    report = call({})
    assert (report["marks"], report["gone"], report["resealed"]) == (2, 0, 0)
