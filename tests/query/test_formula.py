"""The units and requests of a question, as docs/design/layout.md computes them, against what the strict service counts.

The stage has 1,200 events of eight series, evenly spread over a day.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY = datetime(2026, 3, 14, tzinfo=UTC)
EVENTS, SERIES = 1_200, 8
_STREAM = """
[streams.{0}]
period = "day"
late = "3d"
retention = 9
key = {{ {1} }}
"""
BY_TIME = 'partition_by = "time", bucket = "6h", shards = 4'
INDEX = '[[streams.indexed.index]]\nname = "by_kind"\npartition_by = "kind"\nshards = 2\n'
LOCAL = '[[streams.local.index]]\nname = "kinds"\nlocal = true\nsort_by = ["kind"]\n'
CONFIG = "".join(
    [
        _STREAM.format("plain", BY_TIME),
        _STREAM.format("indexed", BY_TIME) + INDEX,
        _STREAM.format("local", BY_TIME) + LOCAL,
        _STREAM.format("series", 'partition_by = "series", shards = 2'),
        _STREAM.format("packed", BY_TIME) + '[streams.packed.pack]\nspan = "10m"\n',
        _STREAM.format("sensors", BY_TIME + ', shard_by = "series"') + '[streams.sensors.pack]\nspan = "10m"\n',
    ]
)
STREAMS = ("plain", "indexed", "local", "series", "packed", "sensors")


@cache
def make_stage() -> Stage:
    stage = Stage(NOON, CONFIG)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(120)
    step = timedelta(days=1) / EVENTS
    events = [
        {
            "series": f"s{number % SERIES}",
            "time": to_text(DAY + number * step),
            "data": {"n": number, "kind": "rare" if number % 10 == 0 else "usual", "text": "x" * 150},
        }
        for number in range(EVENTS)
    ]
    for stream in STREAMS:
        for first in range(0, EVENTS, 400):
            assert stage.send(stream, json.dumps(events[first : first + 400]).encode()).accepted == 400
    # DynamoDB counts the sizes of tables every six hours.
    stage.clock.sleep(7 * 3600)
    return stage


def ask(stream: str, route: str, asked: Mapping[str, str]) -> tuple[int, float]:
    """The requests and read units of a page of a question about the day."""
    stage, span = make_stage(), {"from": "2026-03-14", "to": "2026-03-15"}
    policy, now, reader = stage.config.streams[stream], stage.clock.now(), stage.reader()
    parse, run = {"events": (parse_query, run_query), "aggregate": (parse_aggregation, find_aggregate)}[route]
    given = {name: [text] for name, text in (span | dict(asked)).items()}
    answer: Any = run(parse(policy, given, now, stage.seal), policy, reader, now, lambda: 100.0)  # type: ignore[operator]
    return answer.cost.requests, answer.cost.units


ALL = {"limit": "10000"}
RARE = ALL | {"where.kind": "rare"}


@pytest.mark.parametrize(
    ("stream", "index", "route", "asked", "requests", "share"),
    [
        # B x S ranges and all bytes, however the events lie.
        ("plain", "", "aggregate", {}, 16, 1),
        ("plain", "", "events", ALL, 16, 1),
        ("packed", "", "aggregate", {}, 16, 1),
        ("sensors", "", "aggregate", {}, 16, 1),
        # A range of packs begins with a few packs.
        ("packed", "", "events", ALL, 30, 1),
        # The newest page: S ranges of 25 + 0.6 x 5 events; one of them is short of events, and is read again.
        ("plain", "", "events", {"limit": "100"}, 5, 4 * 28 / EVENTS),
        # One series: all packs by their content, the packs of one shard with two of the eight series, its own events.
        ("packed", "", "aggregate", {"series": "s1"}, 16, 1),
        ("sensors", "", "aggregate", {"series": "s1"}, 4, 2 / SERIES),
        ("series", "", "events", ALL | {"series": "s1"}, 2, 1 / SERIES),
        # One value of ten: the shards of the global index, and the buckets and shards of the table.
        ("indexed", "by_kind", "events", RARE, 2, 1 / 10),
        ("local", "kinds", "events", RARE, 16, 1 / 10),
    ],
)
def test_a_question_takes_its_bytes_and_up_to_half_a_unit_per_request(
    stream: str, index: str, route: str, asked: dict[str, str], requests: int, share: float
) -> None:
    table = make_stage().tables.describe(f"tidetable-lapse.{stream}.2026-03-14")
    assert table is not None
    least = share * (table.index_sizes[index][1] if index else table.size_bytes) / 8_192
    counted, units = ask(stream, route, asked)
    assert counted == requests
    assert max(least, requests / 2) <= units <= least + requests / 2


def test_a_consistent_question_takes_twice_the_units() -> None:
    usual, consistent = (ask("plain", "aggregate", asked) for asked in ({}, {"consistent": "true"}))
    assert consistent == (usual[0], 2 * usual[1])
