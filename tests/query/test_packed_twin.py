"""A stream with packs by series, beside a plain twin and a dictionary: every route answers the same, all its life.

Random requests, repeated in other batches, overwritten, late and drained, over a change of the layout; then an archive,
a restored table, and an archive without its table.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tidetable.config import parse
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.query.listings import find_listing, parse_series
from tidetable.times import to_text

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, SECOND = "2026-03-14", "2026-03-15"
CONFIG = """
[lifecycle]
stagger = "0s"
[streams.packed]
period = "day"
late = "14h"
retention = 9
premake = 1
capacity = {{ mode = "on-demand" }}
key = {{ {key}, shard_by = "series" }}
pack = {{ span = "1m", max_bytes = 4096 }}
[streams.plain]
period = "day"
late = "14h"
retention = 9
premake = 1
capacity = {{ mode = "on-demand" }}
key = {{ {key} }}
"""
ROLLUP = """
[[streams.{stream}.rollup]]
name = "{stream}-hourly"
every = "1h"
by = ["series"]
retention = "30d"
"""
CONFIG += "".join(ROLLUP.format(stream=stream) for stream in ("packed", "plain"))
BEFORE = CONFIG.format(key='partition_by = "time", bucket = "6h", shards = 3')
AFTER = CONFIG.format(key='partition_by = "time", bucket = "2h", shards = 5').replace(
    'shard_by = "series" }', 'shard_by = "series", shard_until = "/" }'
)
STREAMS = ("packed", "plain")
SERIES = ["m1/a", "m1/b", "m2/a#%", "n"]
# An event with this text is too large for a pack, and lies alone beside the packs.
NOISE = noise(6000)
Identity = tuple[str, str, str]
_EVENT = st.tuples(
    st.sampled_from([0, 0.000001, 30, 59.999999, 60, 7_199, 7_200, 21_600]),
    st.sampled_from(SERIES),
    st.sampled_from(["1", "2#%"]),
    st.integers(-3, 3),
    st.sampled_from(["", "", "", NOISE]),
)
# A request: its events, if it is sent again in two parts, and if it waits in the queue until the end of the day.
_REQUEST = st.tuples(st.lists(_EVENT, min_size=3, max_size=9), st.booleans(), st.sampled_from([False, False, True]))
_REQUESTS = st.lists(_REQUEST, min_size=2, max_size=3)


class Twins:
    """A stage with both streams, and the events that count: the copy of each that was accepted last."""

    def __init__(self) -> None:
        self.stage = Stage(NOON - DAY, BEFORE)
        self.counting: dict[Identity, tuple[datetime, dict[str, Any]]] = {}
        self.stage.run_lifecycle()
        # The second day has other shards and another bucket.
        self.stage.config = parse(AFTER)
        self.stage.clock.sleep(60)

    def send(self, begin: datetime, request: Any) -> None:
        """Send a request to both streams, or put it into the queue."""
        drawn, again, waits = request
        events = [
            Event(series, begin + timedelta(seconds=seconds), id, {"v": v} | ({"text": text} if text else {}))
            for seconds, series, id, v, text in drawn
        ]
        for part in [events, *([some for some in (events[:2], events[2:]) if some] if again else [])]:
            self.stage.settle()
            now = self.stage.clock.now()
            for stream in STREAMS:
                if waits:
                    assert self.stage.queue.send(stream, part, int(now.timestamp() * 1000)) == []
                else:
                    sent = [{"series": e.series, "time": to_text(e.time), "id": e.id, "data": e.data} for e in part]
                    assert self.stage.send(stream, json.dumps(sent).encode()).accepted == len(part)
            self.counting |= {(to_text(e.time), e.series, e.id): (now, e.data) for e in part}

    def wait_until(self, time: datetime) -> None:
        """Let time pass, and run the lifecycle at most six hours later, and at the end."""
        while self.stage.clock.now() < time:
            left = (time - self.stage.clock.now()).total_seconds()
            self.stage.clock.sleep(min(left, 21_600))
            self.stage.run_lifecycle()
            self.stage.refresh()

    def drain(self) -> None:
        """Write what waits. A message that has waited for an hour is saved in the bucket first."""
        self.stage.drain()
        self.stage.drain_saved()
        assert [*self.stage.queue.messages, *self.stage.queue.dead] == []
        self.stage.settle()

    def archive(self, label: str) -> None:
        """Archive a period of both streams, and delete its tables."""
        for stream in STREAMS:
            self.stage.archive(stream, label, within=800)
            entries = self.stage.catalog.entries(stream, consistent=True)
            (table,) = [entry.table for entry in entries if entry.period.label == label]
            self.stage.client.delete_table(TableName=table)
        self.stage.clock.sleep(60)

    def restore(self, label: str) -> None:
        for stream in STREAMS:
            assert self.stage.restore(stream, label).state == "closed"
        self.stage.settle()

    def list_counting(self, series: Sequence[str] = SERIES, head: str = "", id: str = "") -> list[dict[str, Any]]:
        """The events that count, oldest first."""
        return [
            {"series": name, "time": time, "id": own, "data": data}
            for (time, name, own), (_, data) in sorted(self.counting.items())
            if name in series and name.startswith(head) and id in ("", own)
        ]


RANGE = {"from": [to_text(NOON)], "to": [to_text(NOON + 3 * DAY)]}


def read_pages(stage: Stage, stream: str, limit: int, **parameters: list[str]) -> list[dict[str, Any]]:
    policy, now = stage.config.streams[stream], stage.clock.now()
    texts: dict[str, list[str]] = RANGE | parameters | {"limit": [str(limit)]}
    rows: list[dict[str, Any]] = []
    while True:
        page = run_query(parse_query(policy, texts, now, stage.seal), policy, stage.reader(), now, lambda: 100.0)
        document = page.document()
        assert not document["gaps"]
        rows += document["events"]
        if page.next is None:
            return rows
        texts = {"cursor": [page.next], "limit": [str(limit)]}


def bare(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("series", "time", "id", "data")} for row in rows]


def check_pages(twins: Twins, stream: str, order: str, limit: int) -> None:
    """Whole pages, pages by series, by several series, by a prefix and by id; each ref finds its event."""
    stage = twins.stage
    questions: list[tuple[dict[str, list[str]], dict[str, Any]]] = [
        ({}, {}),
        ({"series": ["m1/a"]}, {"series": ["m1/a"]}),
        ({"series": ["m2/a#%", "n", "none"]}, {"series": ["m2/a#%", "n"]}),
        ({"series:prefix": ["m1/"]}, {"head": "m1/"}),
        ({"series:prefix": ["m"]}, {"head": "m"}),
        ({"id": ["2#%"]}, {"id": "2#%"}),
    ]
    for parameters, chosen in questions:
        expected = twins.list_counting(**chosen)
        rows = read_pages(stage, stream, limit, order=[order], **parameters)
        assert bare(rows) == (expected if order == "asc" else expected[::-1]), (stream, parameters)
        if not parameters:
            for row in rows:
                found = get_event(stage.config.streams[stream], row["ref"], stage.reader(), {"consistent": ["true"]})
                assert bare([found]) == bare([row])


def list_answers(twins: Twins, stream: str) -> Iterator[Any]:
    """The answers of the other routes, without refs."""
    stage, now = twins.stage, twins.stage.clock.now()
    policy = stage.config.streams[stream]
    for more in ({"step": ["1d"]}, {"by": ["series"]}, {"series": ["m1/b", "n"], "by": ["series"], "step": ["2h"]}):
        texts = RANGE | {"stat": ["count,sum,min,max,avg"], "field": ["v"]} | more
        aggregation = parse_aggregation(policy, texts, now, stage.seal)
        yield find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0).rows
    yield find_listing(parse_series(policy, RANGE, now, stage.seal), policy, stage.reader(), now, lambda: 100.0).rows


def check_latest(twins: Twins) -> None:
    """The latest events of series, which a plain stream by time does not answer."""
    stage, policy = twins.stage, twins.stage.config.streams["packed"]
    answer = find_latest(policy, {"series": [*SERIES, "none"]}, stage.reader(), stage.clock.now(), lambda: 100.0)
    newest = {event["series"]: event for event in twins.list_counting()}
    assert {row["series"]: row["event"] and bare([row["event"]])[0] for row in answer.document()["latest"]} == {
        name: newest.get(name) for name in [*SERIES, "none"]
    }


def check_twins(twins: Twins, order: str, limit: int) -> None:
    for stream in STREAMS:
        check_pages(twins, stream, order, limit)
    packed, plain = (list(list_answers(twins, stream)) for stream in STREAMS)
    assert packed == plain
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for event in twins.list_counting():
        counts[event["series"]].append(event["data"]["v"])
    assert sorted(row["series"] for row in packed[-1]) == sorted(counts)
    by_series = {row["group"]["series"]: (row["count"], row["sum"], row["min"], row["max"]) for row in packed[1]}
    assert by_series == {name: (len(vs), sum(vs), min(vs), max(vs)) for name, vs in counts.items()}


@settings(deadline=None, max_examples=6)
@given(_REQUESTS, _REQUESTS, _REQUESTS, st.sampled_from(["asc", "desc"]), st.integers(1, 9))
def test_all_routes_answer_as_a_plain_twin_and_a_dictionary(
    first: list[Any], late: list[Any], second: list[Any], order: str, limit: int
) -> None:
    twins = Twins()
    twins.wait_until(NOON + timedelta(hours=6.5))
    for request in first:
        twins.send(NOON, request)
    twins.wait_until(NOON + timedelta(hours=13))
    for request in late:
        twins.send(NOON, request)
    twins.drain()
    check_twins(twins, order, limit)
    check_latest(twins)
    twins.wait_until(NOON + timedelta(hours=20))
    for request in second:
        twins.send(NOON + timedelta(hours=13), request)
    twins.drain()
    check_twins(twins, order, limit)
    check_latest(twins)
    assert {find_layout(twins, label) for label in (FIRST, SECOND)} == {(3, 21_600), (5, 7_200)}
    twins.wait_until(NOON + timedelta(hours=40))
    twins.archive(FIRST)
    check_twins(twins, order, limit)
    twins.restore(FIRST)
    twins.wait_until(NOON + timedelta(hours=54))
    twins.archive(SECOND)
    check_twins(twins, order, limit)


def find_layout(twins: Twins, label: str) -> tuple[int, int]:
    entries = twins.stage.catalog.entries("packed", consistent=True)
    return next((entry.layout.shards, entry.layout.bucket) for entry in entries if entry.period.label == label)
