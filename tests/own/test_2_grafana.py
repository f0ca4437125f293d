"""The dashboard in docs/grafana against the deployed stack: the requests that Grafana makes, and Arrow through the gateway."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from local import Deployed
from local.http import Api
from tests.worlds.grafana import Span, queries, request_of, rows_of, targets


@pytest.fixture(scope="module")
def span(own: Deployed) -> Span:
    """Six hours, with an event every two minutes."""
    now = datetime.now(UTC)
    events = [
        {"series": f"s{n % 2}", "id": str(n), "time": (now - n * timedelta(minutes=2)).isoformat(), "data": {"mag": n}}
        for n in range(170)
    ]
    assert Api(own).send("quakes", json.dumps(events).encode()).status == 200
    return Span(now - timedelta(hours=6), now + timedelta(seconds=1))


def test_the_dashboard_is_answered_by_the_deployed_stage(own: Deployed, span: Span) -> None:
    api, variables = Api(own), span.variables
    choices: dict[str, list[str]] = {}
    for name, target in queries().items():
        answer = api.call(request_of(target, variables))
        assert answer.status == 200, answer.body
        choices[name] = sorted(next(iter(row.values())) for row in rows_of(target, answer.body, variables))
        variables[name] = "quakes" if name == "stream" else choices[name][0]
    assert {"access", "quakes", "sensors"} < {*choices.pop("stream")}
    assert choices == {"series": ["s0", "s1"], "field": ["mag"]}
    shown: dict[int, list[dict[str, Any]]] = {}
    for panel, target in targets():
        answer = api.call(request_of(target, variables | {"__interval": span.step(panel)}))
        assert answer.status == 200, answer.body
        shown[panel["id"]] = rows_of(target, answer.body, variables)
    assert sum(row["events"] for row in shown[1]) == 170
    assert max(row["max"] for row in shown[2]) == 168
    assert {row["series"]: row["events"] for row in shown[4]} == {"s0": 85, "s1": 85}
    assert [row["id"] for row in shown[5]] == [str(number) for number in range(0, 100, 2)]
    assert "open" in {row["state"] for row in shown[6]}


@pytest.mark.parametrize("accept", ["*/*", "application/vnd.apache.arrow.stream"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_arrow_arrives_as_bytes(own: Deployed, span: Span, accept: str, encoding: str) -> None:
    headers = {"x-api-key": own.key, "Accept": accept, "Accept-Encoding": encoding}
    url = f"{own.api}/v1/streams/quakes/events?from=-6h&limit=1000&format=arrow"
    with urlopen(Request(url, headers=headers), timeout=60) as response:  # noqa: S310 - the emulator's
        body = response.read()
        assert response.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
        if response.headers.get("Content-Encoding") == "gzip":
            body = pa.decompress(body, decompressed_size=10**7, codec="gzip").to_pybytes()
    table = pa.ipc.open_stream(body).read_all()
    assert table["mag"].to_pylist() == [float(number) for number in range(170)]
