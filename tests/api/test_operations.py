"""The operators' routes: what the lifecycle is about to do, and which alarms ring, for keys that may operate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from msgspec.structs import replace

import settings
import wiring
from aws.operations import AwsOperations
from tests.worlds.keyed import Door, open_door
from tidetable.access import Access, Scope
from tidetable.errors import StoreUnavailable
from tidetable.feed.mappings import FeedStep

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
ALL, ONE = f"tt_alloperate_{SECRET}", f"tt_oneoperate_{SECRET}"
RINGING = {
    "name": "Tidetable-t-Alarms",
    "state": "ALARM",
    "since": "2026-03-15T11:00:00+00:00",
    "description": "It rings.",
}


@pytest.fixture
def door(tmp_path: Any) -> Iterator[Door]:
    for opened in open_door(tmp_path):
        opened.make(ALL, can=("operate",))
        opened.make(ONE, "quakes", can=("operate",))
        yield opened


def test_the_plan_is_that_of_a_dry_run(door: Door) -> None:
    door.stage.clock.sleep(86_400)
    before = set(door.stage.dynamo.account.tables)
    answer = door.call("GET", "/v1/plan", ALL)
    assert answer.status == 200
    plan = answer.body["plan"]
    assert plan["dry_run"] is True
    assert {"create", "close"} <= {action["action"] for action in plan["actions"]}
    assert {action["outcome"] for action in plan["actions"]} == {"planned"}
    assert set(door.stage.dynamo.account.tables) == before, "nothing was made"
    # Of the request's 30 s two are kept for the answer.
    assert door.stage.operations.within == [pytest.approx(28.0)]


def test_a_key_of_one_stream_sees_the_plan_of_that_stream_alone(door: Door) -> None:
    door.stage.clock.sleep(8 * 86_400)
    everything = door.call("GET", "/v1/plan", ALL).body["plan"]
    mine = door.call("GET", "/v1/plan", ONE).body["plan"]
    assert {action["stream"] for action in everything["actions"]} > {"quakes"}
    assert {action["stream"] for action in mine["actions"]} == {"quakes"}
    assert mine["actions"] == [action for action in everything["actions"] if action["stream"] == "quakes"]
    others = {stream for stream in door.stage.config.streams if stream != "quakes"}
    assert not [
        text
        for text in (*mine["without_next_table"], *mine["archives_overdue"], *mine["changes"])
        if text.split(" ")[0].rstrip(":") in others
    ]


def test_alarms_are_shown(door: Door) -> None:
    door.stage.operations.ringing = [RINGING]
    assert door.call("GET", "/v1/alarms", ONE).body == {"alarms": [RINGING]}


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/alarms"])
def test_a_function_that_does_not_answer_is_503(door: Door, path: str) -> None:
    door.stage.operations.fails = True
    answer = door.call("GET", path, ALL)
    assert (answer.status, answer.body["code"]) == (503, "unavailable")


class Functions:
    """Lambda with one answer."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Alarms:
    """CloudWatch with two pages."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def get_paginator(self, name: str) -> Any:
        assert name == "describe_alarms"
        return self

    def paginate(self, **request: Any) -> Any:
        self.requests.append(request)
        at = datetime(2026, 3, 15, 11, tzinfo=UTC)
        yield {
            "MetricAlarms": [
                {"AlarmName": "b", "StateValue": "ALARM", "StateUpdatedTimestamp": at, "AlarmDescription": "Look."}
            ],
            "CompositeAlarms": [],
        }
        yield {"MetricAlarms": [{"AlarmName": "a", "StateValue": "OK"}]}


def operations(functions: Functions, alarms: Any = None) -> AwsOperations:
    return AwsOperations(lambda _: functions, "lifecycle", lambda: alarms, "Tidetable-prod-")  # type: ignore[arg-type, return-value]


def test_the_adapter_asks_for_a_dry_run_and_nothing_else() -> None:
    functions = Functions({"Payload": BytesIO(b'{"dry_run": true}')})
    assert operations(functions).plan(20.0) == {"dry_run": True}
    assert functions.calls == [{"FunctionName": "lifecycle", "Payload": b'{"dry_run": true}'}]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ({"Payload": BytesIO(b'{"errorMessage": "KeyError"}'), "FunctionError": "Unhandled"}, "failed: KeyError"),
        ({"Payload": BytesIO(b"null")}, "failed: no report"),
        (EndpointConnectionError(endpoint_url="https://lambda"), "did not answer"),
    ],
)
def test_a_failure_of_the_lifecycle_is_told(answer: Any, detail: str) -> None:
    with pytest.raises(StoreUnavailable, match=detail):
        operations(Functions(answer)).plan(20.0)


def test_the_adapter_reads_all_pages_of_the_stage_alone() -> None:
    alarms = Alarms()
    assert operations(Functions({}), alarms).alarms() == [
        {"name": "a", "state": "OK", "since": None, "description": ""},
        {"name": "b", "state": "ALARM", "since": "2026-03-15T11:00:00+00:00", "description": "Look."},
    ]
    assert alarms.requests == [{"AlarmNamePrefix": "Tidetable-prod-"}]


def test_a_stage_asks_for_no_alarm_of_a_stage_whose_name_begins_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alarms of prod-eu are called Tidetable-prod-eu-Alarms..., by CloudFormation."""
    alarms = Alarms()
    monkeypatch.setenv("TIDETABLE_STAGE", "prod")
    known = replace(settings.Settings.from_environment(), alarm_prefix="")
    monkeypatch.setattr(settings, "read_settings", lambda: known)
    monkeypatch.setattr("aws.clients.find_cloudwatch_client", lambda: alarms)
    wiring.Pipeline().operations.alarms()
    assert alarms.requests == [{"AlarmNamePrefix": "Tidetable-prod-Alarms"}]


def test_a_report_says_nothing_of_streams_that_a_key_does_not_see() -> None:
    from handlers.operations import confine_report

    def of(*streams: str, tables: int | None = None) -> dict[str, Any]:
        rows = [{"stream": name, "outcome": "planned"} for name in streams]
        return ({} if tables is None else {"tables": tables}) | {
            "actions": rows,
            "feeds": [
                FeedStep("map", f"tidetable-t.{name}.2026-03-01", "its stream has a feed")._asdict() for name in streams
            ],
            "backfills": rows,
            "removed_streams": rows,
            "without_next_table": list(streams),
            "archives_overdue": [f"{name} 2026-03-01" for name in streams],
            "changes": [f"{name}: shards 1 -> 2 from 2026-03-16T00:00:00.000000Z on" for name in streams],
        }

    troubles = ["table tidetable-t.devices.2026-03-01 could not be described"]
    whole = of("quakes", "devices", tables=7) | {"troubles": troubles}
    strange = FeedStep("unmap", "someone-elses", "its table is gone, or its stream has no feed")._asdict()
    unmapped = whole | {"feeds": [*whole["feeds"], strange]}
    assert confine_report(unmapped, Access("k", frozenset({"quakes"}))) == of("quakes") | {"troubles": []}
    assert confine_report(whole, Access("k", frozenset({"quakes"}))) == of("quakes") | {"troubles": []}
    assert confine_report(whole, Access("k", frozenset())) == of() | {"troubles": []}
    assert confine_report(whole, Access("k", None)) == of("quakes", "devices", tables=7) | {"troubles": troubles}


@pytest.mark.parametrize(
    ("theirs", "mine", "healthy", "shown"),
    [
        ("failed", "planned", False, True),
        ("done", "planned", True, True),
        # Another stream's trouble, which is not shown.
        ("done", "done", False, True),
        ("done", "failed", False, False),
        ("done", "lost", False, False),
        ("done", "deferred", True, True),
        ("done", "done", None, None),
    ],
)
def test_the_health_of_a_report_is_that_of_the_streams_that_a_key_sees(
    theirs: str, mine: str, healthy: bool | None, shown: bool | None
) -> None:
    from handlers.operations import confine_report

    report: dict[str, Any] = {key: [] for key in ("backfills", "removed_streams", "troubles")}
    report |= {key: [] for key in ("without_next_table", "archives_overdue", "changes")}
    report |= {"healthy": healthy, "actions": [{"stream": "devices", "outcome": theirs}]}
    report["feeds"] = [FeedStep("map", "tidetable-t.quakes.2026-03-01", "", mine)._asdict()]
    assert confine_report(report, Access("k", frozenset({"quakes"})))["healthy"] is shown
    assert confine_report(report, Access("k", None))["healthy"] is healthy


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/alarms"])
@pytest.mark.parametrize("query", [{"stream": "devices"}, {"stream": "quakes"}, {"of": "x"}], ids=str)
def test_a_parameter_that_would_have_no_effect_is_refused(door: Door, path: str, query: dict[str, str]) -> None:
    for key in (ALL, ONE):
        answer = door.call("GET", path, key, query=query)
        (name,) = query
        assert (answer.status, answer.body["code"]) == (400, "bad_parameter")
        assert answer.body["detail"] == f"{name}: this route has no parameters"


def test_the_plan_of_a_key_of_one_stream_does_not_count_other_streams(door: Door) -> None:
    mine = door.call("GET", "/v1/plan", ONE).body["plan"]
    assert door.call("GET", "/v1/plan", ALL).body["plan"]["tables"] > 0
    assert "tables" not in mine


def test_the_function_itself_refuses_a_key_that_may_not_operate(door: Door) -> None:
    """The authorizer decides by the route's name alone, and a route may be added without it."""
    from handlers import operations
    from tests.api.gateway import Context

    access = Access("reads", frozenset({"quakes"}), frozenset({"read"}))
    event = {"resource": "/v1/alarms", "requestContext": {"authorizer": access.context()}}
    with wiring.serve_pipeline(door.stage.pipeline):
        answer = operations.handler(event, Context())  # type: ignore[arg-type]
    assert answer["statusCode"] == 403
    assert json.loads(answer["body"])["code"] == "forbidden"


def test_the_copies_of_the_catalog_are_shown_to_keys_of_all_streams_alone() -> None:
    from handlers.operations import confine_report

    report: dict[str, Any] = {key: [] for key in ("actions", "feeds", "backfills", "removed_streams")}
    report |= {key: [] for key in ("without_next_table", "archives_overdue", "changes")}
    report |= {"troubles": ["the catalog's copy failed"], "catalog_copies": [{"region": "eu-west-1"}]}
    can: frozenset[Scope] = frozenset({"operate"})
    assert confine_report(report, Access("all", None, can)) == report
    shown = confine_report(report, Access("few", frozenset({"quakes"}), can))
    assert "catalog_copies" not in shown
    assert shown["troubles"] == []
