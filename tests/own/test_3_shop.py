"""A user's streams on DynamoDB Local: what is sent, what is packed, what expires, and the command line."""

import json
import random
import subprocess
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pytest

from examples.python.send import send_events
from local import Deployed
from local.emulator import ROOT, clean_environment
from local.http import Api
from strict.units import measure_item
from tests.e2e.conftest import run_lifecycle

EVENTS = 1200
STREAMS = {
    *("access", "plain", "packed", "by_series"),
    *("sensors", "metrics", "logs", "orders", "batches"),
    *("quakes", "quakes-grafana"),
}


def day_of(own: Deployed) -> str:
    """The day of the last event, from the event itself, whatever the hour."""
    return str(next(Api(own).walk_events("access", start="-1d", limit=1))["time"])[:10]


def test_the_sender_of_the_examples_reaches_it_and_the_tables_are_in_dynamodb_local(own: Deployed) -> None:
    events = [{"series": "web", "id": f"e{number}", "data": {"n": number}} for number in range(EVENTS)]
    wrong = {"series": "web", "id": "late", "time": "2001-01-01T00:00:00Z", "data": {}}
    refused = list(send_events(own.api, own.key, "access", [*events, wrong]))
    assert [(error["code"], error["event"]["id"]) for error in refused] == [("too_old", "late")]
    rows = list(Api(own).walk_events("access", start="-1h", limit=1000))
    assert sorted(event["data"]["n"] for event in rows) == list(range(EVENTS))
    assert own.dynamodb != own.endpoint
    tables = own.make_client("dynamodb")
    described = tables.describe_table(TableName=f"tidetable-local.access.{day_of(own)}")["Table"]
    tags = {tag["Key"]: tag["Value"] for tag in tables.list_tags_of_resource(ResourceArn=described["TableArn"])["Tags"]}
    assert tags["team"] == "shop"
    assert described["DeletionProtectionEnabled"] is True


def test_the_command_line_reaches_it_with_the_printed_variables(own: Deployed, file: Path) -> None:
    environment = clean_environment() | own.environment | {"TIDETABLE_CONFIG": str(file)}
    done = subprocess.run(  # noqa: S603 - our own command
        [str(ROOT / "bin" / "tidetable"), "status", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {row["stream"] for row in json.loads(done.stdout)} == STREAMS


SETTLED = """
SELECT series, time, id, data, v, state FROM sent
QUALIFY row_number() OVER (PARTITION BY series, time, id ORDER BY number DESC) = 1
"""


@pytest.fixture(scope="module")
def requests() -> list[list[dict[str, Any]]]:
    """Two hours of metrics, orders that are sent again as they were and with other data, and pulses of 100 per second."""
    chance = random.Random(15)
    begun = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)

    def make_event(series: str, seconds: float, id: str | None, **data: Any) -> dict[str, Any]:
        time = (begun + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"series": series, "time": time, "id": id or f"{series}-{seconds:.2f}", "data": data}

    states = ["idle", "busy", "off"]
    events = [
        make_event(
            f"host-{n % 7}", 5 * n, None, v=chance.randrange(1000) / 10, state=chance.choice(states), up=n % 9 > 0
        )
        for n in range(1400)
    ]
    orders = [
        make_event("orders", chance.randrange(7000), f"o{n}", v=chance.randrange(9000), lines=[n, {"q": 1.5}])
        for n in range(300)
    ]
    changed = [order | {"data": {"v": chance.randrange(9000), "state": "paid"}} for order in chance.sample(orders, 90)]
    pulses = [make_event("pulse#1", 3000 + n / 100, None, v=(n * 37) % 500) for n in range(1200)]
    again = chance.sample(orders, 40)
    chance.shuffle(orders)
    parts = [events, pulses, orders, again, changed]
    return [part[start : start + 400] for part in parts for start in range(0, len(part), 400)]


@pytest.fixture(scope="module")
def held(requests: list[list[dict[str, Any]]]) -> duckdb.DuckDBPyConnection:
    """What was sent, in DuckDB."""
    base = duckdb.connect()
    base.execute("CREATE TABLE sent (number INT, series TEXT, time TEXT, id TEXT, data TEXT, v DOUBLE, state TEXT)")
    events = [event for request in requests for event in request]
    rows = [
        [
            n,
            event["series"],
            event["time"],
            event["id"],
            json.dumps(event["data"]),
            event["data"]["v"],
            event["data"].get("state"),
        ]
        for n, event in enumerate(events)
    ]
    base.executemany("INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    base.execute(f"CREATE VIEW events AS {SETTLED}")
    return base


def test_a_packed_stream_answers_as_a_plain_stream_and_duckdb(
    own: Deployed, requests: list[list[dict[str, Any]]], held: duckdb.DuckDBPyConnection
) -> None:
    api, units = Api(own), {"plain": 0.0, "packed": 0.0, "by_series": 0.0}
    refs: dict[str, dict[tuple[str, str, str], str]] = {}
    for stream in units:
        for request in requests:
            answer = api.send(stream, json.dumps(request).encode())
            assert (answer.status, answer.body["accepted"]) == (200, len(request)), answer
            units[stream] += float(answer.headers["tidetable-write-units"])
            names = [(event["series"], event["time"], event["id"]) for event in request]
            refs.setdefault(stream, {}).update(zip(names, answer.body["refs"], strict=True))
    count = sum(map(len, requests))
    assert units["plain"] >= count
    assert units["packed"] < 0.05 * count
    assert items_of(own, "plain") == held.execute("SELECT count(*) FROM events").fetchone()
    assert units["packed"] == size_units(own, "packed")

    first, middle, last = held.execute(
        "SELECT min(time), max(time) FILTER (series = 'pulse#1'), max(time) FROM events"
    ).fetchall()[0]
    end = last[:20] + "999999Z"
    questions: list[tuple[str, dict[str, Any]]] = [
        ("true", {}),
        (f"time >= '{middle}'", {"start": middle}),
        ("series = 'pulse#1'", {"series": "pulse#1"}),
        ("series = 'orders'", {"series": "orders"}),
        ("state = 'paid'", {"where.state": "paid"}),
        ("v >= 90 AND state = 'busy'", {"where.v:ge": 90, "where.state": "busy"}),
    ]
    for stream in units:
        for condition, parameters in questions[2:4] if stream == "by_series" else questions:
            for order in ("desc", "asc"):
                span = {"start": first, "to": end, "limit": 700 if condition == "true" else 150, "order": order}
                found = [
                    (event["series"], event["time"], event["id"], event["data"])
                    for event in api.walk_events(stream, **span | parameters)
                ]
                places = f"time {order}, series {order}, id {order}"
                rows = held.execute(
                    f"SELECT series, time, id, data FROM events WHERE {condition} ORDER BY {places}"  # noqa: S608 - ours
                ).fetchall()
                assert found == [(*row[:3], json.loads(row[3])) for row in rows], (stream, parameters, order)
        if stream == "by_series":
            for series in ("orders", "pulse#1", "host-3"):
                answer = api.call(f"/v1/streams/{stream}/latest?series={quote(series)}")
                newest = held.execute(
                    "SELECT time, id, data FROM events WHERE series = ? ORDER BY time DESC, id DESC LIMIT 1", [series]
                ).fetchall()
                assert [
                    (row["event"]["time"], row["event"]["id"], row["event"]["data"]) for row in answer.body["latest"]
                ] == [(time, id, json.loads(data)) for time, id, data in newest]
        else:
            stats = {
                "start": first,
                "to": end,
                "step": "30m",
                "stat": "count,sum,min,max",
                "field": "v",
                "by": "series",
                "limit": 1000,
            }
            answer = api.query(stream, "aggregate", **stats)
            assert answer.status == 200, answer
            assert [
                (row["group"]["series"], row["start"][:16], *[row[stat] for stat in ("count", "sum", "min", "max")])
                for row in sorted(answer.body["aggregates"], key=lambda row: (row["group"]["series"], row["start"]))
            ] == held.execute(
                "SELECT series, strftime(time_bucket(INTERVAL 30 MINUTE, time::TIMESTAMP), '%Y-%m-%dT%H:%M') AS step, count(*),"
                " round(sum(v), 1), min(v), max(v) FROM events GROUP BY ALL ORDER BY series, step"
            ).fetchall(), stream
        chosen = random.Random(16).sample(sorted(refs[stream]), 8)
        for key in chosen:
            row = held.execute("SELECT data FROM events WHERE series = ? AND time = ? AND id = ?", key).fetchone()
            assert row is not None
            assert api.get(stream, refs[stream][key]).body["data"] == json.loads(row[0])


def scanned(own: Deployed, stream: str) -> list[dict[str, Any]]:
    """The items of a stream's tables, as DynamoDB has them."""
    client = own.make_client("dynamodb")
    tables = [name for name in client.list_tables()["TableNames"] if name.startswith(f"tidetable-local.{stream}.")]
    pages = [page for name in tables for page in client.get_paginator("scan").paginate(TableName=name)]
    return [item for page in pages for item in page["Items"]]


def items_of(own: Deployed, stream: str) -> tuple[int]:
    """How many items the stream has, as a row of DuckDB."""
    return (len(scanned(own, stream)),)


def size_units(own: Deployed, stream: str) -> int:
    """The write units of the stream's items: each 1,024 bytes that begin."""
    return sum(ceil(measure_item(item) / 1024) for item in scanned(own, stream))


def test_an_expired_table_is_archived_and_deleted_as_its_tags_and_protection_are_kept(own: Deployed) -> None:
    tables = own.make_client("dynamodb")
    day = day_of(own)
    start = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    assert f"tidetable-local.access.{day}" in tables.list_tables()["TableNames"]
    later = start + timedelta(days=6, hours=12)
    for _ in range(3):
        report = run_lifecycle(own, at=later.isoformat())
        assert report["healthy"], report
    after = tables.list_tables()["TableNames"]
    assert f"tidetable-local.access.{day}" not in after
    assert f"tidetable-local.access.{later.date()}" in after
    bucket, key = own.outputs["ArchiveBucket"], f"stream=access/period={day}/_manifest.json"
    manifest = json.loads(own.make_client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    assert manifest["events"] > 0
    # These events come from the archive. Around midnight the events of the first test are of two days.
    span = {"start": (start - timedelta(days=1)).isoformat(), "to": (start + timedelta(days=1)).isoformat()}
    events = list(Api(own).walk_events("access", **span, limit=1000))
    assert sorted(event["data"]["n"] for event in events) == list(range(EVENTS))
