"""Queries against the textbook way, on DynamoDB Local: CPU, wall time, requests and read units, side by side in one run.

The textbook: boto3's resource, one partition after the other, each page by page, then everything sorted and encoded. Ours is the
query function as it is deployed, from the gateway's event to its answer.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from bench.function import Context

# isort: split
import boto3
from boto3.dynamodb.conditions import Key

import settings
import wiring
from aws.catalog import DynamoCatalog
from aws.tables import DynamoTables
from aws.zstd import Zstd
from bench.deployed import as_deployed
from bench.results import note
from local.dynamodb_local import DynamoDBLocal
from local.stack import aws_client
from tidetable.catalog import Entry, State
from tidetable.config import Stream, TableClass
from tidetable.events import Event
from tidetable.exact import decode_json
from tidetable.names import table_name
from tidetable.packs import make_packs
from tidetable.periods import containing
from tidetable.ports import Put, TableSpec
from tidetable.times import to_text
from tidetable.values import item_bytes

EVENTS = 10_000
# Events of a pack: so many are sent in a request.
PER_REQUEST = 500
ROUNDS = 7
DAY = datetime(2026, 3, 1, tzinfo=UTC)
CONFIG = """
[api]
max_events = 1000
[streams.wide]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "time", bucket = "24h", shards = 10 }
[streams.packed]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "time", bucket = "24h", shards = 1 }
pack = { span = "1h" }
[streams.sixteen]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "time", bucket = "24h", shards = 16 }
[streams.series]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "series", shards = 1 }
[streams.scores]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "series", shards = 1 }
[[streams.scores.index]]
name = "best"
partition_by = "*"
sort_by = "score"
shards = 8
"""

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def filled(stream: Stream, days: int, events: int, text: int = 0, *, scores: bool = False) -> list[Entry]:
    """Period tables of a stream with so many events, and their entries."""
    chance = random.Random(1)  # noqa: S311 - made-up data
    entries = []
    tables = wiring.pipeline().table_reader
    catalog: Any = DynamoCatalog(aws_client(os.environ["AWS_ENDPOINT_URL"], "dynamodb"), "bench-catalog")
    for day in range(days):
        period = containing(DAY + timedelta(days=day), stream.period)
        table = table_name("bench", stream.name, period)
        tables.create(TableSpec(table, None, None, TableClass.STANDARD, {}, stream.layout.indexes))
        entry = Entry(stream.name, period, table, stream.layout, State.OPEN, DAY)
        catalog.add(entry)
        entries.append(entry)
        each = events // days
        puts = [
            Put(
                table,
                stream.layout.item_of(
                    Event(
                        f"station-{number % 40}",
                        period.start + timedelta(seconds=number),
                        f"event-{day}-{number:06d}",
                        {
                            "mag": Decimal("1.25"),
                            "place": "10 km NE of Somewhere, California" + "x" * text,
                            "status": "reviewed",
                            "depth": Decimal("4.2"),
                            **({"score": chance.randrange(10**6)} if scores else {}),
                        },
                    ),
                    at=1,
                ),
            )
            for number in range(each)
        ]
        if stream.pack is not None:
            plain = [put.item for put in puts]
            requests = [plain[start : start + PER_REQUEST] for start in range(0, each, PER_REQUEST)]
            puts = [
                Put(table, one.item) for request in requests for one in make_packs(request, stream.layout, Zstd()).packs
            ]
        for start in range(0, len(puts), 1000):
            unwritten = wiring.pipeline().store.write(puts[start : start + 1000]).unwritten
            if unwritten:
                raise RuntimeError(f"{len(unwritten)} events could not be written")
    return entries


def request(stream: str, what: str = "events", **parameters: str) -> dict[str, Any]:
    """A request of the API gateway."""
    return {
        "httpMethod": "GET",
        "path": f"/v1/streams/{stream}/{what}",
        "resource": f"/v1/streams/{{stream}}/{what}",
        "headers": {},
        "multiValueHeaders": {},
        "pathParameters": {"stream": stream},
        "queryStringParameters": parameters,
        "multiValueQueryStringParameters": {name: [value] for name, value in parameters.items()},
        "requestContext": {"requestId": "bench", "stage": "v1", "path": "/", "httpMethod": "GET"},
        "body": None,
        "isBase64Encoded": False,
    }


def headers_of(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """The headers of an answer, each with its one value."""
    return answer.get("headers") or {name: one[0] for name, one in answer["multiValueHeaders"].items()}


def ours(handler: Handler, stream: str, **parameters: str) -> tuple[list[Any], float, float]:
    """Every event of a query, page by page; read units and requests."""
    events: list[Any] = []
    units = requests = 0.0
    while True:
        answer = handler(request(stream, **parameters), Context())
        if answer["statusCode"] != 200:
            raise RuntimeError(answer["body"])
        headers = headers_of(answer)
        document = json.loads(answer["body"]) if len(answer["body"]) < 100_000 else None
        units += float(headers["Tidetable-Read-Units"])
        requests += float(headers["Tidetable-Requests"])
        if document is None:
            # Only the end is looked at: whoever reads the answer pays for parsing it, on either side.
            tail = answer["body"][answer["body"].rindex('"next":') :]
            events.append(answer["body"].count('"ref":"'))
            cursor = json.loads("{" + tail)["next"]
        else:
            events += document["events"]
            cursor = document["next"]
        if cursor is None:
            return events, units, requests
        parameters = {"cursor": cursor, "limit": parameters["limit"]}


def fetched(entries: list[Entry]) -> list[Any]:
    """boto3's resource: the partitions in turn, page by page."""
    found: list[Any] = []
    for entry in entries:
        table = boto3.resource("dynamodb").Table(entry.table)
        for suffix in range(entry.layout.shards):
            condition = Key("pk").eq(f"{to_text(entry.period.start)}#{suffix}")
            answer = table.query(KeyConditionExpression=condition)
            found += answer["Items"]
            while "LastEvaluatedKey" in answer:
                answer = table.query(KeyConditionExpression=condition, ExclusiveStartKey=answer["LastEvaluatedKey"])
                found += answer["Items"]
    if len(found) != EVENTS:
        raise AssertionError(len(found))
    return found


def textbook(entries: list[Entry]) -> str:
    """Everything fetched, then sorted and encoded."""
    found = fetched(entries)
    found.sort(key=lambda item: str(item["sk"]), reverse=True)
    return json.dumps(found, default=float)


def textbook_aggregate(entries: list[Entry]) -> dict[tuple[str, str], list[Any]]:
    """Everything fetched, then counted and summed up by hour and series."""
    cells: defaultdict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, None])
    for item in fetched(entries):
        time, series, _ = item["sk"].split("#")
        cell, number = cells[time[:13], series], item["data"]["mag"]
        cell[0] += 1
        cell[1] += number
        cell[2] = number if cell[2] is None else max(cell[2], number)
    return cells


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU and of wall time, of the second of two calls: the other side's work has left the caches by then."""
    act()
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Fill the tables, measure in turn, and print the medians."""
    logging.disable(logging.CRITICAL)
    from handlers import query

    with (
        TemporaryDirectory() as folder,
        DynamoDBLocal(long=True) as local,
        mock.patch.dict(os.environ, AWS_ENDPOINT_URL=local.endpoint),
        mock.patch.object(settings, "CONFIG_FILE", Path(folder) / "tidetable.toml"),
        mock.patch("sys.stdout.write", lambda text: len(text)),
    ):
        settings.CONFIG_FILE.write_text(CONFIG)
        config = settings.config()
        DynamoTables(aws_client(local.endpoint, "dynamodb")).create(
            TableSpec("bench-catalog", None, None, TableClass.STANDARD, {})
        )
        DynamoCatalog(aws_client(local.endpoint, "dynamodb"), "bench-catalog").ensure_secret()
        wide = filled(config.streams["wide"], 2, EVENTS)
        span = {"from": to_text(DAY), "to": to_text(DAY + timedelta(days=5))}

        def everything() -> None:
            counts, *_ = ours(query.handler, "wide", **span, limit="10000")
            if sum(counts) != EVENTS:
                raise AssertionError(counts)

        filled(config.streams["packed"], 2, EVENTS)

        def everything_packed() -> None:
            counts, *_ = ours(query.handler, "packed", **span, limit="10000")
            if sum(counts) != EVENTS:
                raise AssertionError(counts)

        def by_hour() -> None:
            asked = {"step": "1h", "by": "series", "stat": "count,avg,max", "field": "mag"}
            answer: Any = query.handler(request("wide", "aggregate", **span, **asked), Context())  # type: ignore[arg-type]
            rows = json.loads(answer["body"])["aggregates"]
            if sum(row["count"] for row in rows) != EVENTS:
                raise AssertionError(rows)

        for _ in range(3):
            everything()
            textbook(wide)
            by_hour()
            everything_packed()
        rounds = [(timed(everything), timed(lambda: textbook(wide)), timed(everything_packed)) for _ in range(ROUNDS)]
        sums = [(timed(by_hour), timed(lambda: textbook_aggregate(wide))) for _ in range(ROUNDS)]
        sixteen = config.streams["sixteen"]
        filled(sixteen, 1, 4000, text=830)
        first: Any = query.handler(request("sixteen", **span, limit="100"), Context())  # type: ignore[arg-type]
        headers = headers_of(first)
        units, requests = float(headers["Tidetable-Read-Units"]), float(headers["Tidetable-Requests"])
        sizes = sum(
            item_bytes(
                sixteen.layout.item_of(
                    Event(one["series"], datetime.fromisoformat(one["time"]), one["id"], one["data"]), at=1
                )
            )
            for one in decode_json(first["body"])["events"]
        )
        filled(config.streams["series"], 1, 2000)
        hour = {"series": "station-7", "from": to_text(DAY), "to": to_text(DAY + timedelta(hours=1)), "limit": "1000"}
        _, _, for_an_hour = ours(query.handler, "series", **hour)
        filled(config.streams["scores"], 3, 6000, scores=True)
        top: Any = query.handler(request("scores", "top", **span, limit="50"), Context())  # type: ignore[arg-type]
        ranked = [one["value"] for one in json.loads(top["body"])["top"]]
        if len(ranked) != 50 or ranked != sorted(ranked, reverse=True):
            raise AssertionError(ranked)
        for_top = float(headers_of(top)["Tidetable-Events-Read"])
    cpu = median(book[0] / mine[0] for mine, book, _ in rounds)
    packed = median(book[0] / mine[0] for _, book, mine in rounds)
    aggregates = median(book[0] / mine[0] for mine, book in sums)
    sum_us = median(mine[0] for mine, _ in sums) / EVENTS * 1e6
    wall = median(book[1] / mine[1] for mine, book, _ in rounds)
    mine_us, book_us, packed_us = (
        median(side[0] for side in sides) / EVENTS * 1e6 for sides in zip(*rounds, strict=True)
    )
    print(
        f"{EVENTS} events from 2 tables x 10 suffixes, us of CPU per event: textbook {book_us:.1f}, ours {mine_us:.1f}"
    )
    print(f"the same in packs of {PER_REQUEST}, us of CPU per event: ours {packed_us:.1f}")
    print(f"the same by hour and series, us of CPU per event: ours {sum_us:.1f}")
    print(f"newest 100 of 16 suffixes, {sizes / 100:.0f} bytes each: {units} read units in {requests:.0f} requests")
    note(
        query_cpu_textbook_over_ours=cpu,
        packed_query_cpu_textbook_over_ours=packed,
        query_wall_textbook_over_ours=wall,
        aggregate_cpu_textbook_over_ours=aggregates,
        newest100_read_units_over_minimum=units / (ceil(sizes / 4096) / 2),
        series_hour_requests=for_an_hour,
        top50_items_read=for_top,
    )


if __name__ == "__main__":
    as_deployed("bench.query")
    main()
