"""Clients that other projects wrote, before the function on fakes: an outage loses nothing and stores nothing twice."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from typing import Any

import influxdb
import influxdb_client
import influxdb_client_3
import pytest
from cloudevents.core.bindings import http as cloudevents_http
from cloudevents.core.v1.event import CloudEvent
from influxdb_client.client.write.retry import WritesRetry
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client_3.exceptions import InfluxDBPartialWriteError
from influxdb_client_3.write_client.client.write.retry import WritesRetry as WritesRetry3
from influxdb_client_3.write_client.client.write_api import WriteType
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from tests.worlds.doors import LiveDoors, Server, config

POINTS = 1200


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose clients do not wait between their tries."""
    for kind in (WritesRetry, WritesRetry3):
        monkeypatch.setattr(kind, "get_backoff_time", lambda _: 0)
    world = LiveDoors(config({"max_events": 1000, "max_body": 4_000_000}))
    with Server(world).serving() as serving:
        yield serving


def fail_in_every_way(number: int) -> int | str | None:
    """The first tries are refused, then one is stored without an answer, then throttled; the fifth is served."""
    fates: dict[int, int | str] = {1: 503, 2: 503, 3: "lost", 4: 429}
    return fates.get(number)


def lines(server: Server) -> list[str]:
    at = int(server.world.clock.now().timestamp()) - 3600
    return [f"cpu,host=h{n % 7} idle={n}i {(at + n) * 10**9}" for n in range(POINTS)]


def values(server: Server) -> list[int]:
    return sorted(int(event["data"]["idle"]) for event in server.world.events())


def test_influxdb_client_in_batches(server: Server) -> None:
    server.outage = fail_in_every_way
    failed: list[Any] = []
    with (
        influxdb_client.InfluxDBClient(server.url, token="k", org="any", enable_gzip=True) as client,
        client.write_api(error_callback=lambda *error: failed.append(error)) as api,
    ):
        for line in lines(server):
            api.write("quakes", record=line)
    assert failed == []
    assert values(server) == list(range(POINTS))
    assert len(server.requests) > 4


def test_influxdb_client_one_by_one_and_its_probes(server: Server) -> None:
    with influxdb_client.InfluxDBClient(server.url, token="k", org="any") as client:
        assert client.ping() is True
        assert client.health().status == "pass"
        api = client.write_api(write_options=SYNCHRONOUS)
        now = server.world.clock.now()
        point = influxdb_client.Point("m").tag("t", "a b,c=d").field("f", 1.5).field("s", 'x\ny"z').time(now)
        api.write("quakes", record=[point, {"measurement": "n", "fields": {"i": 1}, "time": now}])
        assert {event["series"] for event in server.world.events()} == {r"m,t=a b\,c\=d", "n"}
        with pytest.raises(influxdb_client.rest.ApiException) as refused:
            api.write("quakes", record=[point, "m f=2 1000"])
        assert (refused.value.status, '"line":3' in refused.value.body) == (422, True)  # the text has a line of its own


@pytest.mark.parametrize("old", [False, True])
def test_influxdb_3_in_batches(server: Server, old: bool) -> None:
    server.outage = fail_in_every_way
    failed: list[Any] = []
    options = influxdb_client_3.write_client_options(
        write_options=influxdb_client_3.WriteOptions(use_v2_api=old), error_callback=lambda *error: failed.append(error)
    )
    with influxdb_client_3.InfluxDBClient3(
        server.url,
        token="k",
        database="quakes",
        write_client_options=options,
    ) as client:
        for line in lines(server):
            client.write(line)
    assert failed == []
    assert values(server) == list(range(POINTS))
    assert {target.partition("?")[0] for _, target, _ in server.requests} == {
        "/api/v2/write" if old else "/api/v3/write_lp"
    }


def test_influxdb_3_maps_a_partial_write_to_its_lines(server: Server) -> None:
    options = influxdb_client_3.write_client_options(
        write_options=influxdb_client_3.WriteOptions(WriteType.synchronous, use_v2_api=False)
    )
    with influxdb_client_3.InfluxDBClient3(
        server.url,
        token="k",
        database="quakes",
        write_client_options=options,
    ) as client:
        good = lines(server)[0]
        with pytest.raises(InfluxDBPartialWriteError) as refused:
            client.write(f"{good}\ncpu idle= 5\n")
        assert [(line.line_number, line.original_line) for line in refused.value.line_errors] == [(2, "cpu idle= 5")]
    assert values(server) == [0]


def test_influxdb_1(server: Server) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    client = influxdb.InfluxDBClient(host, int(port), "user", "key", "quakes")
    assert client.ping() == "tidetable"
    assert client.write_points(lines(server)[:10], protocol="line")
    assert client.write_points([{"measurement": "cpu", "tags": {"host": "z"}, "fields": {"idle": 10}}])
    assert values(server) == list(range(11))


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
def test_the_metrics_of_opentelemetry(server: Server, compression: Compression) -> None:
    fates: dict[int, int | str] = {1: 503, 2: "lost", 3: 429}
    server.outage = fates.get
    exporter = OTLPMetricExporter(f"{server.url}/v1/metrics", compression=compression)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], resource=Resource({"service.name": "shop"}))
    meter = provider.get_meter("lib", "1.0")
    counter, histogram = meter.create_counter("orders", "1"), meter.create_histogram("latency", "ms")
    for n in range(50):
        counter.add(1, {"user": str(n)})
        histogram.record(n, {"route": "/a"})
    provider.shutdown()
    found = server.world.events()
    assert sum(event["data"]["value"] for event in found if event["data"]["metric"] == "orders") == 50
    (latency,) = [event["data"] for event in found if event["data"]["metric"] == "latency"]
    assert (latency["count"], latency["sum"], latency["max"]) == (50, 1225, 49)
    assert len(found) == 51
    assert len({body for _, _, body in server.requests}) == 1


def test_the_logs_of_opentelemetry(server: Server) -> None:
    fates: dict[int, int | str] = {1: 503, 2: "lost"}
    server.outage = fates.get
    provider = LoggerProvider(Resource({"service.name": "shop"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{server.url}/v1/logs")))
    logger = logging.getLogger("tests.doors.otlp")
    logger.propagate = False
    logger.addHandler(LoggingHandler(logging.INFO, provider))
    for n in range(600):
        logger.warning("order %d", n, extra={"n": n})
    provider.shutdown()
    found = server.world.events()
    assert sorted(int(event["data"]["attributes"]["n"]) for event in found) == list(range(600))
    assert {event["series"] for event in found} == {"service.name=shop"}


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_messages_of_cloudevents(server: Server, mode: str) -> None:
    event = CloudEvent(
        {"type": "order.paid", "source": "/shop", "subject": "café", "datacontenttype": "application/json"},
        {"total": 4.5},
    )
    make = cloudevents_http.to_binary_event if mode == "binary" else cloudevents_http.to_structured_event
    message = make(event)
    url = f"{server.url}/v1/streams/quakes/cloudevents"
    for _ in range(2):
        sent = urllib.request.Request(url, message.body, dict(message.headers), method="POST")  # noqa: S310 - our server
        with urllib.request.urlopen(sent) as answer:  # noqa: S310 - our server
            assert answer.status == 204
    (stored,) = server.world.events()
    assert (stored["series"], stored["id"]) == ("café", f"/shop {event.get_id()}")
    assert float(stored["data"]["total"]) == 4.5
