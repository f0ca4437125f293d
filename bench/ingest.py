"""CPU per event of the ingest function, compared with the textbook handler and other baselines, in one process.

Each side runs all of its layers down to the socket. A server in a separate process answers at once. The baselines are
the code of a tutorial (Powertools' resolver with validation, boto3's ``Table.batch_writer``), PynamoDB, and a floor:
decode the events, write the requests, hash, sign and send them. The bench prints microseconds of CPU per event and the
ratios. They are medians of many rounds, in which the sides take turns.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from unittest import mock

from bench.function import ROOT, Context

# isort: split
import boto3
import msgspec
import pynamodb.attributes as columns
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import BaseModel
from pynamodb.models import Model

import settings
import wiring
from aws.http.credentials import Credentials
from aws.http.signing import Signer
from bench.deployed import restart_as_deployed
from bench.results import note_ratios
from bench.stub import run_stub
from handlers import ingest
from tidetable.catalog import Backfill, Entry, State
from tidetable.names import name_table
from tidetable.periods import find_containing

EVENTS = 500
BATCH = 25
ROUNDS = 25
STREAM = "quakes"
# The same stream with packs. The events of the sample cover eight minutes.
PACKED = "packed"
PACKED_STREAM = """
[streams.packed]
period = "day"
late = "7d"
retention = 14
key = { partition_by = "time", bucket = "6h", shards = 4 }
pack = { span = "10m" }
"""

Handler = Callable[[dict[str, Any]], dict[str, Any]]


def make_request(now: datetime, stream: str = STREAM) -> dict[str, Any]:
    """A request as the API gateway passes it to the function."""
    events = [
        {
            "series": f"station-{index % 40}",
            "time": (now - timedelta(seconds=index)).isoformat(),
            "id": f"event-{index:06d}",
            "data": {"mag": 1.25, "place": "10 km NE of Somewhere, California", "status": "reviewed", "depth": 4.2},
        }
        for index in range(EVENTS)
    ]
    return {
        "httpMethod": "POST",
        "path": f"/v1/streams/{stream}/events",
        "resource": "/v1/streams/{stream}/events",
        "headers": {"Content-Type": "application/json"},
        "pathParameters": {"stream": stream},
        "requestContext": {"requestId": "bench", "stage": "v1"},
        "body": json.dumps(events),
        "isBase64Encoded": False,
    }


class _FixedCatalog:
    """A catalog that knows the periods around now, so no side spends time on reading it."""

    def __init__(self, now: datetime) -> None:
        streams = settings.read_config().streams
        self._entries = {name: _make_entries(name, now) for name in (STREAM, PACKED) if name in streams}

    def entries(self, stream: str, *_: Any, **__: Any) -> list[Entry]:
        return self._entries[stream]

    def backfills(self, _: str) -> list[Backfill]:
        return []


def _make_entries(name: str, now: datetime) -> list[Entry]:
    stream = settings.read_config().streams[name]
    oldest, newest = (find_containing(at, stream.period) for at in (now - stream.late, now + stream.ahead))
    periods = [oldest.shift(number) for number in range(oldest.count_until(newest) + 1)]
    return [
        Entry(name, period, name_table("bench", name, period), stream.layout, State.OPEN, now) for period in periods
    ]


class _Event(BaseModel):
    series: str
    time: datetime
    id: str
    data: dict[str, str | Decimal]


def make_textbook_handler() -> Handler:
    """A resolver with validation, and boto3's batch writer."""
    table = boto3.resource("dynamodb").Table("bench")
    app = APIGatewayRestResolver(enable_validation=True)

    @app.post("/v1/streams/<stream>/events")
    def put(stream: str, events: Annotated[list[_Event], Body()]) -> dict[str, Any]:
        with table.batch_writer() as batch:
            for event in events:
                key = {"pk": stream, "sk": f"{event.time.isoformat()}#{event.series}#{event.id}"}
                batch.put_item(Item={**key, "data": event.data})
        return {"accepted": len(events)}

    return lambda event: app.resolve(event, Context())  # type: ignore[arg-type]


class _Stored(Model):
    class Meta:
        table_name = "bench"
        region = "us-east-1"

    pk = columns.UnicodeAttribute(hash_key=True)
    sk = columns.UnicodeAttribute(range_key=True)
    data: Any = columns.DynamicMapAttribute()  # type: ignore[no-untyped-call]


def make_pynamodb_handler() -> Handler:
    """A model of PynamoDB and its batch."""
    _Stored.Meta.host = os.environ["AWS_ENDPOINT_URL"]  # type: ignore[attr-defined]

    def handle(event: dict[str, Any]) -> dict[str, Any]:
        events = json.loads(event["body"])
        with _Stored.batch_write() as batch:
            for row in events:
                batch.save(_Stored("quakes", f"{row['time']}#{row['series']}#{row['id']}", data=row["data"]))
        return {"statusCode": 200, "body": json.dumps({"accepted": len(events)})}

    return handle


class _Data(msgspec.Struct):
    mag: msgspec.Raw
    depth: msgspec.Raw
    place: str
    status: str


class _Wanted(msgspec.Struct):
    series: str
    time: str
    id: str
    data: _Data


def make_least_handler() -> Handler:
    """The least work that is possible: typed decoding, joining texts, a hash, a signature, and the socket."""
    port = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    decode = msgspec.json.Decoder(list[_Wanted]).decode
    signer, keys = Signer("dynamodb.us-east-1.amazonaws.com", "us-east-1"), Credentials("bench", "bench")

    def handle(event: dict[str, Any]) -> dict[str, Any]:
        events, now = decode(event["body"]), datetime.now(UTC)
        at = int(1000 * now.timestamp())
        for number, start in enumerate(range(0, len(events), BATCH)):
            connection = sockets[number % len(sockets)]
            if number >= len(sockets):
                connection.recv(65536)
            items = ",".join(
                f'{{"PutRequest":{{"Item":{{"pk":{{"S":"{event.series}"}},"sk":{{"S":"{event.time}#{event.id}"}},"at":{{"N":"{at}"}},"data":{{"M":{{'
                f'"mag":{{"N":"{bytes(event.data.mag).decode()}"}},"depth":{{"N":"{bytes(event.data.depth).decode()}"}},'
                f'"place":{{"S":"{event.data.place}"}},"status":{{"S":"{event.data.status}"}}}}}}}}}}}}'
                for event in events[start : start + BATCH]
            )
            body = f'{{"RequestItems":{{"bench":[{items}]}}}}'.encode()
            headers = signer.make_headers("DynamoDB_20120810.BatchWriteItem", body, now, keys)
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), headers, body))
        for connection in sockets:
            connection.recv(65536)
        return {"statusCode": 200, "body": json.dumps({"accepted": len(events)})}

    return handle


def make_our_handler(now: datetime) -> Handler:
    """The deployed function."""
    parts = wiring.get_pipeline().ingest
    parts.catalog = _FixedCatalog(now)  # type: ignore[assignment]
    return lambda event: ingest.handler(event, Context())  # type: ignore[arg-type]


def measure_cpu(handler: Handler, event: dict[str, Any]) -> float:
    """Microseconds of CPU per event, in the second of two calls: the first call fills caches that other sides used."""
    handler(event)
    begun = time.process_time()
    answer = handler(event)
    spent = time.process_time() - begun
    assert answer["statusCode"] == 200, answer
    assert json.loads(answer["body"])["accepted"] == EVENTS
    return spent / EVENTS * 1e6


def main() -> None:
    """Measure all sides alternately, many times, and print the medians."""
    logging.disable(logging.CRITICAL)
    now = datetime.now(UTC)
    silent = mock.patch("sys.stdout.write", lambda text: len(text))  # the metrics' lines
    with TemporaryDirectory() as folder, run_stub() as endpoint, mock.patch.dict(os.environ, AWS_ENDPOINT_URL=endpoint):
        file = Path(folder) / "tidetable.toml"
        file.write_text((ROOT / "tidetable.toml").read_text() + PACKED_STREAM)
        with mock.patch.object(settings, "CONFIG_FILE", file):
            function = make_our_handler(now)
            handlers = {
                "textbook": make_textbook_handler(),
                "pynamodb": make_pynamodb_handler(),
                "ours": function,
                "floor": make_least_handler(),
            }
            plain, packed = make_request(now), make_request(now, PACKED)
            measured = {name: (handler, plain) for name, handler in handlers.items()} | {"packed": (function, packed)}
            with silent:
                rounds = [{name: measure_cpu(*side) for name, side in measured.items()} for _ in range(ROUNDS)][3:]
    medians = {name: median(trial[name] for trial in rounds) for name in measured}
    print(f"ingest, {EVENTS} events a request, us of CPU per event: ", end="")
    print(", ".join(f"{name} {micros:.1f}" for name, micros in medians.items()))
    note_ratios(
        ingest_cpu_textbook_over_ours=median(trial["textbook"] / trial["ours"] for trial in rounds),
        ingest_cpu_pynamodb_over_ours=median(trial["pynamodb"] / trial["ours"] for trial in rounds),
        ingest_cpu_ours_over_floor=median(trial["ours"] / trial["floor"] for trial in rounds),
        packed_ingest_cpu_textbook_over_ours=median(trial["textbook"] / trial["packed"] for trial in rounds),
    )


if __name__ == "__main__":
    restart_as_deployed("bench.ingest")
    main()
