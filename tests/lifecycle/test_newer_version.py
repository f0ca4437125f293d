"""A stage whose catalog a newer version wrote: this version misreads nothing, changes none of it, and says what to do."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import settings
from aws.dynamodb import catalog_items
from tests.fakes.refresher import expect_failures
from tests.fakes.stage import CATALOG, Stage
from tests.lifecycle.calls import call
from tests.worlds.deploys import CONFIG, NOON
from tidetable.errors import StoreUnavailable
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

ROLLUP = """
[[streams.s.rollup]]
name = "hours"
every = "1h"
retention = "30d"
"""
DAY = "2026-03-15"
REASON = (
    "has format 3, and Tidetable 0.1.0.dev0 reads format 2: a newer version runs this stage, so deploy that version"
)
STANDING = "Custom::TidetableStanding"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", CATALOG)
    settings.read_settings.cache_clear()
    stage = Stage(NOON, CONFIG + ROLLUP)
    monkeypatch.setattr("wiring_upkeep.pipeline", lambda: stage.pipeline)
    call("Create", configuration="a")
    call("Create", STANDING, protected="false")
    yield stage
    settings.read_settings.cache_clear()


def list_items(stage: Stage) -> dict[tuple[str, str], Any]:
    """The catalog's items, without leases, which each run takes."""
    client: Any = stage.client
    items = client.scan(TableName=CATALOG, ConsistentRead=True)["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]): item for item in items if not item["pk"]["S"].startswith("lease#")}


def write_newer_entries(stage: Stage) -> None:
    """Write the entries as a newer version might: this version could not even read their layouts."""
    client: Any = stage.client
    for item in list_items(stage).values():
        if "state" in item:
            client.put_item(TableName=CATALOG, Item=item | {"format": {"N": "3"}, "layout": {"S": "of the future"}})
    stage.settle()
    stage.restart()


def write_newer_mark(stage: Stage) -> None:
    """Write what the deploy of a newer version leaves."""
    client: Any = stage.client
    client.put_item(
        TableName=CATALOG, Item={**{k: {"S": v} for k, v in catalog_items.DEPLOYED_KEY.items()}, "format": {"N": "3"}}
    )


def make_body(stage: Stage) -> bytes:
    return json.dumps([{"series": "a", "time": to_text(stage.clock.now()), "id": "1", "data": {}}]).encode()


def ask_events(stage: Stage) -> Any:
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, {"series": ["a"], "from": ["-1h"]}, now, stage.seal)
    return run_query(query, policy, stage.reader(), now, lambda: 100.0)


@pytest.mark.parametrize(
    "act",
    [
        lambda stage: stage.send("s", make_body(stage)),
        lambda stage: stage.archive("s", DAY, within=100),
        lambda stage: stage.restore("s", DAY),
        lambda stage: stage.sweep(),
    ],
    ids=["ingest", "archiver", "restorer", "sweeper"],
)
def test_a_function_ends_with_the_reason(stage: Stage, act: Callable[[Stage], Any]) -> None:
    # The sweep reads the entries of the periods that have objects.
    stage.values.put(Blob(f"large/stream=s/period={DAY}/a/1", b"data", Key("", "")))
    write_newer_entries(stage)
    before = list_items(stage)
    with pytest.raises(StoreUnavailable, match=REASON):
        act(stage)
    assert list_items(stage) == before


def test_a_query_is_answered_with_503_and_the_remedy(stage: Stage) -> None:
    write_newer_entries(stage)
    with pytest.raises((ProblemError, StoreUnavailable)) as caught:
        ask_events(stage)
    assert REASON in str(caught.value)


def test_waiting_events_stay_in_the_queue(stage: Stage) -> None:
    event = Event("a", stage.clock.now(), "1", {"n": 1})
    stage.queue.push(encode_message("s", [event], 1))
    write_newer_entries(stage)
    before = list_items(stage)
    for _ in range(3):
        stage.clock.sleep(60)
        stage.drain()
    assert (len(stage.queue.messages), stage.queue.dead, list_items(stage)) == (1, [], before)


def test_a_run_of_the_lifecycle_changes_nothing_and_is_not_healthy(stage: Stage) -> None:
    write_newer_entries(stage)
    before, tables = list_items(stage), set(stage.dynamo.account.tables)
    stage.clock.sleep(40 * 86_400)
    report = stage.run_lifecycle()
    assert (report.healthy, report.done) == (False, [])
    assert [REASON in trouble for trouble in report.troubles] == [True, True]
    assert (list_items(stage), set(stage.dynamo.account.tables)) == (before, tables)


@expect_failures(REASON)
def test_a_run_of_the_refresher_seals_nothing(stage: Stage) -> None:
    for _ in range(3):  # the rollup begins with a table whose series are noted from its first event on
        stage.refresh()
        stage.clock.sleep(86_400)
        stage.run_lifecycle()
    write_newer_entries(stage)
    before = list_items(stage)
    report = stage.refresh()
    assert report is not None
    assert (report.sealed, report.resealed, [REASON in reason for reason in report.failed]) == (0, 0, [True])
    # The run claims the work before it reads entries: nothing else changes than the number of the claim, which is given back,
    # and why the work failed.
    claim = before["work#seal", "s"]
    claim["generation"] = {"N": str(int(claim["generation"]["N"]) + 1)}
    claim["problem"] = {"S": report.failed[0].removeprefix("s: ")}
    assert list_items(stage) == before


@pytest.mark.parametrize("request_type", ["Create", "Update"])
@pytest.mark.parametrize("kind", ["Custom::TidetableTables", STANDING, "Custom::TidetableFirstKey"])
def test_a_deploy_after_a_complete_deploy_of_a_newer_version_fails_before_anything_else(
    stage: Stage, request_type: str, kind: str
) -> None:
    """Also if the same configuration was deployed before, and if nothing but the mark is of the newer version."""
    write_newer_mark(stage)
    before, tables = list_items(stage), set(stage.dynamo.account.tables)
    stage.clock.sleep(86_400)
    with pytest.raises(StoreUnavailable, match=f"the catalog {REASON}"):
        call(request_type, kind, configuration="a", protected="true", gateway_key="k")
    assert (list_items(stage), set(stage.dynamo.account.tables)) == (before, tables)


def test_a_rollback_to_this_version_does_not_fail_while_no_newer_deploy_was_complete(stage: Stage) -> None:
    """Otherwise the stack would stay in UPDATE_ROLLBACK_FAILED."""
    write_newer_entries(stage)
    before = {key: item for key, item in list_items(stage).items() if "state" in item}
    call("Update", configuration="a")
    call("Update", STANDING, protected="false")
    assert {key: item for key, item in list_items(stage).items() if "state" in item} == before != {}


def test_a_new_configuration_of_this_version_is_refused_with_the_reason_once(stage: Stage) -> None:
    from handlers.deployment import DeployFailed  # reads the environment when it is imported

    write_newer_entries(stage)
    with pytest.raises(DeployFailed) as caught:
        call("Update", configuration="b")
    assert str(caught.value).count("the catalog could not be read for s: ") == 1


def test_a_complete_deploy_records_the_format(stage: Stage) -> None:
    key = catalog_items.DEPLOYED_KEY["pk"], catalog_items.DEPLOYED_KEY["sk"]
    assert list_items(stage)[key]["format"] == {"N": "2"}
    client: Any = stage.client
    # A version before formats were recorded left no number.
    client.put_item(TableName=CATALOG, Item={name: {"S": value} for name, value in catalog_items.DEPLOYED_KEY.items()})
    call("Update", configuration="b")
    call("Update", STANDING, protected="false")
    assert list_items(stage)[key]["format"] == {"N": "2"}
