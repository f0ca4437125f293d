"""The doors of the deployed stage: the documentation's programs as they are written there, and clients at their defaults."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from local import Deployed
from local.emulator import ROOT
from local.http import Api
from local.processes import read_clock_variables

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "use" / "doors.md").read_text(), re.DOTALL)
POINTS = 2500


@pytest.fixture(scope="module")
def domain(own: Deployed) -> Iterator[str]:
    """A domain of the API's own: it adds the path that the gateway gives the stage."""

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names = ("Authorization", "Content-Type", "Content-Encoding")
            headers = {name: self.headers[name] for name in names if self.headers[name]}
            sent = urllib.request.Request(own.api + self.path, body, headers)  # noqa: S310 - the emulator's
            with urllib.request.urlopen(sent) as answer:  # noqa: S310
                self.send_response(answer.status)
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def events(own: Deployed, stream: str) -> list[dict[str, Any]]:
    return list(Api(own).walk_events(stream, start="-1d", to="now", limit=1000))


def test_the_programs_of_the_documentation_run_as_they_are(own: Deployed, domain: str, tmp_path: Path) -> None:
    assert len(PROGRAMS) == 4
    for number, program in enumerate(PROGRAMS):
        file = tmp_path / f"program_{number}.py"
        file.write_text(program)
        environment = read_clock_variables() | {"URL": own.api, "KEY": own.key, "HOST": domain, "PATH": ""}
        done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
        assert (done.returncode, done.stderr) == (0, ""), program
    sensors = [(event["series"], event["data"]["celsius"]) for event in events(own, "sensors")]
    assert sorted(sensors) == [
        ("air,room=attic", 20.5), ("air,room=attic", 21), ("air,room=attic", 21.5), ("air,room=cellar", 12.5),
    ]  # fmt: skip
    (metric,) = events(own, "metrics")
    assert (metric["series"], metric["data"]["value"]) == ("orders{country=fr,service.name=shop}", 3)
    (record,) = events(own, "logs")
    assert (record["series"], record["data"]["body"], record["data"]["attributes"]) == (
        "service.name=shop", "paid", {"order": {"id": "o-17"}},
    )  # fmt: skip
    (order,) = events(own, "orders")
    assert (order["series"], order["data"]["total"], order["data"]["ce"]["type"]) == ("o-17", 4.5, "order.paid")


def test_a_batching_client_at_its_defaults_is_stored_once_in_packs(own: Deployed) -> None:
    failed: list[Any] = []
    with (
        InfluxDBClient(own.api, token=own.key, org="-", enable_gzip=True) as client,
        client.write_api(error_callback=lambda *error: failed.append(error)) as api,
    ):
        assert client.ping()
        now = _now_nanos()
        lines = [f"cpu,host=h{n % 5} idle={n}i {now - n * 1_000_000}" for n in range(POINTS)]
        for line in lines:
            api.write("batches", record=line)
        # The same again, by another way.
        client.write_api(write_options=SYNCHRONOUS).write("batches", record="\n".join(lines))
    assert failed == []
    assert sorted(event["data"]["idle"] for event in events(own, "batches")) == list(range(POINTS))
    newest = Api(own).query("batches", "aggregate", start="-1d", stat="count,max", field="idle", step="1d")
    assert sum(cell["count"] for cell in newest.body["aggregates"]) == POINTS


def test_each_version_answers_bad_lines_in_its_own_words(own: Deployed) -> None:
    good = f"bad,n=1 v=1 {_now_nanos()}"
    with InfluxDBClient(own.api, token=own.key, org="-") as client:
        with pytest.raises(ApiException) as refused:
            client.write_api(write_options=SYNCHRONOUS).write("sensors", record=f"{good}\nbad v=")
        assert (refused.value.status, json.loads(refused.value.body)["line"]) == (400, 2)
    call = Api(own).call
    answer = call("/api/v3/write_lp?db=sensors", f"{good}\nbad v=".encode(), {"Content-Type": "text/plain"})
    assert (answer.status, answer.body["error"]) == (400, "partial write of line protocol occurred")
    assert [line["line_number"] for line in answer.body["data"]] == [2]
    answer = call("/write?db=sensors&precision=s", b"bad v= 5")
    assert (answer.status, answer.body["error"].endswith("dropped=1")) == (400, True)
    assert [event["data"]["v"] for event in events(own, "sensors") if event["data"]["measurement"] == "bad"] == [1]


def test_opentelemetry_by_the_routes_without_a_stream(own: Deployed) -> None:
    for compression in (Compression.Gzip, Compression.NoCompression):
        exporter = OTLPMetricExporter(f"{own.api}/v1/metrics", headers={"x-api-key": own.key}, compression=compression)
        provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
        counter = provider.get_meter("e2e").create_counter(compression.name)
        for n in range(300):
            counter.add(n, {"n": n})
        provider.shutdown()
    found = events(own, "metrics")
    for compression in (Compression.Gzip, Compression.NoCompression):
        values = [event["data"]["value"] for event in found if event["data"]["metric"] == compression.name.lower()]
        assert sorted(values) == list(range(300))


def test_a_request_of_firehose(own: Deployed) -> None:
    records = [{"data": base64.b64encode(json.dumps({"series": "f", "n": n}).encode()).decode()} for n in range(20)]
    body = json.dumps({"requestId": "r-1", "timestamp": _now_nanos() // 1_000_000, "records": records}).encode()
    headers = {"Content-Type": "application/json", "X-Amz-Firehose-Request-Id": "r-1"}
    for _ in range(2):
        answer = Api(own).call("/v1/streams/orders/firehose", body, headers)
        assert (answer.status, answer.body["requestId"]) == (200, "r-1")
    assert len([event for event in events(own, "orders") if event["series"] == "f"]) == 20


def test_probes_and_handshakes_need_no_key_and_writing_does(own: Deployed) -> None:
    for method, path, status in (
        ("GET", "/ping", 204),
        ("GET", "/health", 200),
        ("OPTIONS", "/v1/streams/orders/cloudevents", 204),
    ):
        probe = urllib.request.Request(own.api + path, headers={"WebHook-Request-Origin": "a"}, method=method)  # noqa: S310
        with urllib.request.urlopen(probe) as answer:  # noqa: S310 - the emulator's
            assert answer.status == status
    assert Api(own).call("/write?db=sensors", b"m v=1", key="wrong").status in (401, 403)


def _now_nanos() -> int:
    from time import time_ns

    return time_ns()
