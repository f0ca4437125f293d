"""Queries compared with the textbook way, on DynamoDB Local: CPU, wall time, requests and read units, in one run.

The textbook way uses boto3's resource: it reads one partition after the other, page by page, then sorts and encodes all
events. Our side is the deployed query function, from the gateway's event to its answer. A floor (``bench.query_floor``)
shows how much of it is the work that any program has to do.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
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
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.tables import DynamoTables
from aws.http.client import LeanClient
from bench.deployed import restart_as_deployed
from bench.fill import DAY, PER_REQUEST, fill_tables
from bench.query_floor import Floor
from bench.results import note_ratios
from local.dynamodb_local import DynamoDBLocal
from local.stack import make_aws_client
from tidetable.catalog import Entry
from tidetable.config import TableClass
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.ports import TableSpec
from tidetable.times import to_text
from tidetable.values import count_item_bytes

EVENTS = 10_000
ROUNDS, SUM_ROUNDS = 21, 7
# What time_call returns.
CPU, WALL = 0, 1
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


def make_request(stream: str, route: str = "events", **parameters: str) -> dict[str, Any]:
    """A request as the API gateway passes it to the function."""
    return {
        "httpMethod": "GET",
        "path": f"/v1/streams/{stream}/{route}",
        "resource": f"/v1/streams/{{stream}}/{route}",
        "headers": {},
        "multiValueHeaders": {},
        "pathParameters": {"stream": stream},
        "queryStringParameters": parameters,
        "multiValueQueryStringParameters": {name: [value] for name, value in parameters.items()},
        "requestContext": {"requestId": "bench", "stage": "v1", "path": "/", "httpMethod": "GET"},
        "body": None,
        "isBase64Encoded": False,
    }


def read_headers(answer: Mapping[str, Any]) -> Mapping[str, str]:
    """The headers of an answer by name. Each header has one value only."""
    return answer.get("headers") or {name: values[0] for name, values in answer["multiValueHeaders"].items()}


def read_all_pages(handler: Handler, stream: str, **parameters: str) -> tuple[list[Any], float, float]:
    """Read every event of a query, page by page; return events, read units and requests."""
    events: list[Any] = []
    units = requests = 0.0
    while True:
        answer = handler(make_request(stream, **parameters), Context())
        if answer["statusCode"] != 200:
            raise RuntimeError(answer["body"])
        headers = read_headers(answer)
        document = json.loads(answer["body"]) if len(answer["body"]) < 100_000 else None
        units += float(headers["Tidetable-Read-Units"])
        requests += float(headers["Tidetable-Requests"])
        if document is None:
            # Only the end of the answer is parsed: to parse the rest is work of the client, on both sides of the bench.
            tail = answer["body"][answer["body"].rindex('"next":') :]
            events.append(answer["body"].count('"ref":"'))
            cursor = json.loads("{" + tail)["next"]
        else:
            events += document["events"]
            cursor = document["next"]
        if cursor is None:
            return events, units, requests
        parameters = {"cursor": cursor, "limit": parameters["limit"]}


def fetch_all(entries: list[Entry]) -> list[Any]:
    """Fetch all items with boto3's resource: one partition after the other, page by page."""
    items: list[Any] = []
    for entry in entries:
        table = boto3.resource("dynamodb").Table(entry.table)
        for suffix in range(entry.layout.shards):
            condition = Key("pk").eq(f"{to_text(entry.period.start)}#{suffix}")
            answer = table.query(KeyConditionExpression=condition)
            items += answer["Items"]
            while "LastEvaluatedKey" in answer:
                answer = table.query(KeyConditionExpression=condition, ExclusiveStartKey=answer["LastEvaluatedKey"])
                items += answer["Items"]
    if len(items) != EVENTS:
        raise AssertionError(len(items))
    return items


def answer_by_textbook(entries: list[Entry]) -> str:
    """Fetch all items, then sort and encode them."""
    items = fetch_all(entries)
    items.sort(key=lambda item: str(item["sk"]), reverse=True)
    return json.dumps(items, default=float)


def aggregate_by_textbook(entries: list[Entry]) -> dict[tuple[str, str], list[Any]]:
    """Fetch all items, then count and sum them by hour and series."""
    cells: defaultdict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, None])
    for item in fetch_all(entries):
        time, series, _ = item["sk"].split("#")
        cell, number = cells[time[:13], series], item["data"]["mag"]
        cell[0] += 1
        cell[1] += number
        cell[2] = number if cell[2] is None else max(cell[2], number)
    return cells


def time_call(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU and of wall time of the second of two calls, because the first call fills the caches again."""
    act()
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return time.process_time() - cpu, time.perf_counter() - wall


def compare_sides(trials: list[dict[str, tuple[float, float]]], above: str, below: str, measure: int = CPU) -> float:
    """The median of the ratios of two sides."""
    return median(trial[above][measure] / trial[below][measure] for trial in trials)


def main() -> None:
    """Fill the tables, measure both sides alternately, and print the medians."""
    logging.disable(logging.CRITICAL)
    from handlers import query

    with (
        TemporaryDirectory() as folder,
        DynamoDBLocal(long=True) as local,
        mock.patch.dict(os.environ, AWS_ENDPOINT_URL=local.endpoint),
        mock.patch.object(settings, "CONFIG_FILE", Path(folder) / "tidetable.toml"),
        mock.patch("sys.stdout.write", lambda text: len(text)),
        # The tables are of the past, and each page is to be read.
        mock.patch("tidetable.query.past.KEPT", timedelta(0)),
    ):
        settings.CONFIG_FILE.write_text(CONFIG)
        config = settings.read_config()
        DynamoTables(make_aws_client(local.endpoint, "dynamodb")).create(
            TableSpec("bench-catalog", None, None, TableClass.STANDARD, {})
        )
        LeanCatalog(LeanClient.of_process(), "bench-catalog").ensure_secret()
        wide = fill_tables(config.streams["wide"], 2, EVENTS)
        span = {"from": to_text(DAY), "to": to_text(DAY + timedelta(days=5))}

        fill_tables(config.streams["packed"], 2, EVENTS)
        partitions = [
            (entry.table, f"{to_text(entry.period.start)}#{suffix}")
            for entry in wide
            for suffix in range(entry.layout.shards)
        ]
        floor = Floor(int(local.endpoint.rpartition(":")[2]))

        def read(stream: str) -> None:
            counts, *_ = read_all_pages(query.handler, stream, **span, limit="10000")
            if sum(counts) != EVENTS:
                raise AssertionError(counts)

        def read_floor() -> None:
            if (count := floor.answer(partitions).count('"series":')) != EVENTS:
                raise AssertionError(count)

        def aggregate_by_hour(stream: str) -> None:
            aggregation = {"step": "1h", "by": "series", "stat": "count,avg,max", "field": "mag"}
            answer: Any = query.handler(make_request(stream, "aggregate", **span, **aggregation), Context())  # type: ignore[arg-type]
            rows = json.loads(answer["body"])["aggregates"]
            if sum(row["count"] for row in rows) != EVENTS:
                raise AssertionError(rows)

        reads: dict[str, Callable[[], object]] = {
            "ours": lambda: read("wide"),
            "textbook": lambda: answer_by_textbook(wide),
            "packed": lambda: read("packed"),
            "floor": read_floor,
        }
        aggregates: dict[str, Callable[[], object]] = {
            "ours": lambda: aggregate_by_hour("wide"),
            "textbook": lambda: aggregate_by_textbook(wide),
            "packed": lambda: aggregate_by_hour("packed"),
        }
        for act in (*reads.values(), *aggregates.values()) * 3:
            act()
        rounds = [{name: time_call(act) for name, act in reads.items()} for _ in range(ROUNDS)]
        sums = [{name: time_call(act) for name, act in aggregates.items()} for _ in range(SUM_ROUNDS)]
        sixteen = config.streams["sixteen"]
        fill_tables(sixteen, 1, 4000, text=830)
        first: Any = query.handler(make_request("sixteen", **span, limit="100"), Context())  # type: ignore[arg-type]
        headers = read_headers(first)
        units, requests = float(headers["Tidetable-Read-Units"]), float(headers["Tidetable-Requests"])
        sizes = sum(
            count_item_bytes(
                sixteen.layout.make_item(
                    Event(event["series"], datetime.fromisoformat(event["time"]), event["id"], event["data"]), at=1
                )
            )
            for event in decode_json(first["body"])["events"]
        )
        fill_tables(config.streams["series"], 1, 2000)
        hour = {"series": "station-7", "from": to_text(DAY), "to": to_text(DAY + timedelta(hours=1)), "limit": "1000"}
        _, _, hour_requests = read_all_pages(query.handler, "series", **hour)
        fill_tables(config.streams["scores"], 3, 6000, scores=True)
        top: Any = query.handler(make_request("scores", "top", **span, limit="50"), Context())  # type: ignore[arg-type]
        ranked = [event["value"] for event in json.loads(top["body"])["top"]]
        if len(ranked) != 50 or ranked != sorted(ranked, reverse=True):
            raise AssertionError(ranked)
        top_events_read = float(read_headers(top)["Tidetable-Events-Read"])
    for what, trials in (("queries", rounds), ("count, average and maximum by hour and series", sums)):
        micros = {name: median(trial[name][0] for trial in trials) / EVENTS * 1e6 for name in trials[0]}
        print(
            f"{what} of {EVENTS} events, 2 tables x 10 suffixes, packs of {PER_REQUEST}; us of CPU per event: ", end=""
        )
        print(", ".join(f"{name} {each:.1f}" for name, each in micros.items()))
    print(f"newest 100 of 16 suffixes, {sizes / 100:.0f} bytes each: {units} read units in {requests:.0f} requests")
    note_ratios(
        query_cpu_textbook_over_ours=compare_sides(rounds, "textbook", "ours"),
        packed_query_cpu_textbook_over_ours=compare_sides(rounds, "textbook", "packed"),
        query_cpu_ours_over_floor=compare_sides(rounds, "ours", "floor"),
        query_wall_textbook_over_ours=compare_sides(rounds, "textbook", "ours", WALL),
        aggregate_cpu_textbook_over_ours=compare_sides(sums, "textbook", "ours"),
        packed_aggregate_cpu_textbook_over_ours=compare_sides(sums, "textbook", "packed"),
        newest100_read_units_over_minimum=units / (ceil(sizes / 4096) / 2),
        series_hour_requests=hour_requests,
        top50_items_read=top_events_read,
    )


if __name__ == "__main__":
    restart_as_deployed("bench.query")
    main()
