"""The deployed functions with the strict DynamoDB between them and the engine: a small table, and a day of faults."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from local import Deployed
from local.http import Api
from strict import Fault, Kind, StrictDynamo, SystemClock, Timings
from strict.engines import HttpEngine
from strict.proxy import Proxy
from tests.e2e.clock import TODAY
from tests.e2e.conftest import eventually, run_lifecycle

VARIABLE = "AWS_ENDPOINT_URL_DYNAMODB"


@pytest.fixture(scope="module")
def strict(deployed: Deployed) -> Iterator[StrictDynamo]:
    """Every function of the stack calls the proxy instead of the engine, as long as this module runs."""
    service = StrictDynamo(HttpEngine(deployed.endpoint), SystemClock(), timings=Timings().scale(0.005))
    with Proxy(service) as proxy:
        point_functions(deployed, {VARIABLE: proxy.endpoint})
        yield service
        point_functions(deployed, {})


def point_functions(deployed: Deployed, variables: dict[str, str]) -> None:
    client = deployed.make_client("lambda")
    for function in client.list_functions()["Functions"]:
        environment = function.get("Environment", {}).get("Variables", {})
        if "TIDETABLE_STAGE" in environment:
            environment.pop(VARIABLE, None)
            client.update_function_configuration(
                FunctionName=function["FunctionName"], Environment={"Variables": environment | variables}
            )


@pytest.fixture(autouse=True)
def _calm(strict: StrictDynamo) -> Iterator[None]:
    yield
    strict.faults.clear()


def send(api: Api, series: str, count: int = 3, stream: str = "quakes") -> Any:
    events = [{"series": series, "id": f"{series}-{number}", "data": {"n": number}} for number in range(count)]
    return api.send(stream, json.dumps(events).encode())


def ids(api: Api, series: str, stream: str = "quakes") -> list[str]:
    return sorted(event["id"] for event in api.walk_events(stream, start="-1h", series=series))


def test_the_functions_really_call_the_strict_service(api: Api, strict: StrictDynamo) -> None:
    before = dict(strict.calls)
    assert send(api, "strict").status == 200
    assert ids(api, "strict") == ["strict-0", "strict-1", "strict-2"]
    assert strict.calls["BatchWriteItem"] > before.get("BatchWriteItem", 0)
    assert strict.calls["Query"] > before.get("Query", 0)


def test_units_are_those_of_the_service(api: Api, strict: StrictDynamo) -> None:
    large = {"series": "units", "id": "large", "data": {"text": "x" * 2900}}
    answer = api.send("stations", json.dumps([large, {**large, "id": "small", "data": {}}]).encode())
    assert float(answer.headers["tidetable-write-units"]) == 3 + 1
    read = api.query("stations", start="-1h", series="units")
    # Half a unit for each of the series' two suffixes: 3 KB and 100 bytes are less than the 4 KB that half a unit reads.
    assert float(read.headers["tidetable-read-units"]) == 2 * 0.5


def test_a_table_too_small_for_a_request_delays_it_and_loses_nothing(api: Api, strict: StrictDynamo) -> None:
    today = f"tidetable-local.quakes.{TODAY}"
    # The proxy has just adopted the table, so it has no saved units.
    strict.account.tables.pop(today)
    table = strict.account.find(today)
    refused = strict.calls.get("BatchWriteItem", 0)
    answer = send(api, "burst", table.write * 8)
    assert (answer.status, answer.body["accepted"]) == (200, table.write * 8)
    assert strict.calls["BatchWriteItem"] - refused > 2, "some came back unprocessed and were tried again"
    assert len(ids(api, "burst")) == table.write * 8


@pytest.mark.parametrize(
    "kind", [Kind.SERVER_ERROR, Kind.RESET, Kind.TIMEOUT_BEFORE, Kind.TIMEOUT_AFTER, Kind.THROTTLED]
)
def test_a_write_that_fails_once_is_stored_once(api: Api, strict: StrictDynamo, kind: Kind) -> None:
    fault = strict.faults.add(Fault(kind, operation="BatchWriteItem", times=1))
    series = f"once-{kind.name}"
    answer = send(api, series)
    assert (answer.status, answer.body["accepted"]) == (200, 3)
    assert fault.struck == 1
    assert ids(api, series) == [f"{series}-{number}" for number in range(3)]


def test_when_the_catalog_is_gone_nothing_is_acknowledged_and_the_caller_is_told_when_to_return(
    api: Api, strict: StrictDynamo
) -> None:
    strict.faults.add(Fault(Kind.GONE, table="tidetable-local-catalog"))
    # A process keeps entries of the catalog for two seconds.
    eventually(lambda: send(api, "known").status, lambda status: status == 503)
    for answer in (send(api, "gone"), api.query("quakes", start="-1h")):
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
    strict.faults.clear()
    assert ids(api, "gone") == []
    assert send(api, "gone").status == 200


def test_one_table_that_may_not_be_described_is_reported_and_the_rest_is_tended(
    deployed: Deployed, strict: StrictDynamo
) -> None:
    today = f"tidetable-local.quakes.{TODAY}"
    strict.faults.add(Fault(Kind.ACCESS_DENIED, operation="DescribeTable", table=today))
    report = run_lifecycle(deployed)
    assert [(action["action"], action["table"], action["outcome"]) for action in report["actions"]] == [
        ("unseen", today, "failed")
    ]
    assert "AccessDenied" in report["actions"][0]["reason"]
    strict.faults.clear()
    assert run_lifecycle(deployed)["healthy"]
