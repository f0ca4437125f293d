"""Streams with simulated histories for which the right advice is known. It was written down before the rules."""

from __future__ import annotations

from typing import Any, NamedTuple

from cli.advising.history import Use
from tests.worlds.histories import Traffic, daily, steady

WEEKS = 14 * 86_400


def stream(
    key: str = 'partition_by = "time"\nbucket = "24h"',
    *,
    head: str = 'period = "day"\nlate = "1h"\nretention = 7',
    capacity: str = "",
    tail: str = "",
) -> str:
    ladder = f'[streams.s.capacity]\nmode = "provisioned"\nladder = [{capacity}]' if capacity else ""
    return f"[streams.s]\n{head}\n[streams.s.key]\n{key}\n{ladder}\n{tail}"


BY_TIME = 'partition_by = "time"\nbucket = "24h"'
BY_SERIES = 'partition_by = "series"'
BY_KIND = '[[streams.s.index]]\nname = "by_kind"\npartition_by = "kind"'
LATE_LADDER = (
    '{{ age = 0, write = {0}, read = 5 }}, {{ age = "late", write = 1, read = 5 }}, {{ age = 1, write = 1, read = 1 }}'
)


def sized(units: int) -> str:
    """A ladder with these write units for the current table, a step for late events, and one unit for old tables."""
    return LATE_LADDER.format(units)


def reading(*conditions: str, queries: float, read: int, returned: int, units: float, requests: int = 7) -> Use:
    """The use of a stream: queries per second over two weeks. Each reads ``read`` and returns ``returned`` events."""
    count = round(queries * WEEKS)
    return Use("events", conditions, count, count * requests, count * units, count * read, count * returned)


class Case(NamedTuple):
    """A history and its right advice: for each rule, the settings that tidetable.toml must have."""

    text: str
    traffic: Traffic
    right: dict[str, Any]
    days: float = 14


CASES: dict[str, Case] = {
    "a small stream on demand needs nothing": Case(stream(), Traffic(steady(1)), {}),
    "two days are too few for anything but throttles": Case(
        stream(capacity=sized(1000)), Traffic(steady(10)), {}, days=2
    ),
    "a large steady stream on demand costs half when provisioned": Case(
        stream(tail=BY_KIND),
        Traffic(steady(300), size=900, in_index={"by_kind": 0.01}, index_reads={"by_kind": 3}),
        {
            "mode": {
                "capacity": {
                    "mode": "provisioned",
                    "ladder": [
                        {"age": 0, "write": 429, "read": 1, "index": {"by_kind": {"write": 5, "read": 5}}},
                        {"age": "late", "write": 1, "read": 1, "index": {"by_kind": {"write": 1, "read": 5}}},
                        {"age": 1, "mode": "on-demand"},
                    ],
                }
            }
        },
    ),
    "a provisioned stream with one busy hour costs less on demand": Case(
        stream(capacity=sized(1200)),
        Traffic(daily(20, 800, 12)),
        {"mode": {"capacity": {"mode": "on-demand", "ladder": [{"age": 0}]}}},
    ),
    "a steady stream with five times the units that it needs gets fewer": Case(
        stream(capacity=sized(1000)),
        Traffic(steady(200), reads=3.5),
        {
            "units": {
                "capacity": {
                    "ladder": [
                        {"age": 0, "write": 286, "read": 5},
                        {"age": "late", "write": 1, "read": 5},
                        {"age": 1, "write": 1, "read": 1},
                    ]
                }
            }
        },
    ),
    "a steady stream that is throttled each evening gets more units, at most twice as many": Case(
        stream(capacity=sized(100)),
        Traffic(daily(90, 180, 18, 19, 20), reads=3.5),
        {
            "units": {
                "capacity": {
                    "ladder": [
                        {"age": 0, "write": 200, "read": 5},
                        {"age": "late", "write": 1, "read": 5},
                        {"age": 1, "write": 1, "read": 1},
                    ]
                }
            }
        },
    ),
    "a well sized stream needs nothing": Case(stream(capacity=sized(430)), Traffic(steady(300), reads=3.5), {}),
    "auto scaling follows the traffic by itself": Case(
        stream(capacity=sized(700), tail="[streams.s.capacity.autoscaling]\nwrite = { min = 100, max = 1000 }"),
        Traffic(daily(350, 450, 12, 13), reads=3.5),
        {},
    ),
    "one partition key takes 1,000 units per second, and a bucket has one": Case(
        stream(tail=BY_KIND),
        Traffic(daily(10, 1500, 12), in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}),
        {"shards": {"key": {"shards": 3}}},
    ),
    "the same after one day: throttles need no week": Case(
        stream(tail=BY_KIND),
        Traffic(daily(10, 1500, 11, 12, 13), in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}),
        {"shards": {"key": {"shards": 3}}},
        days=1,
    ),
    "tables still have one shard, and the configuration has four": Case(
        stream(f"{BY_TIME}\nshards = 4", tail=BY_KIND),
        Traffic(
            daily(10, 1500, 12),
            shards=1,
            in_index={"by_kind": 0.01},
            index_reads={"by_kind": 1},
            uses=(reading(queries=200, read=10, returned=10, units=0.5, requests=1),),
        ),
        {},
    ),
    "one day of throttles says nothing about read units or late events": Case(
        stream(
            head='period = "day"\nlate = "7d"\nretention = 7',
            capacity="{ age = 0, write = 100, read = 50 }, { age = 1, write = 1, read = 1 }",
        ),
        Traffic(daily(90, 180, 18, 19, 20)),
        {"units": {"capacity": {"ladder": [{"age": 0, "write": 200, "read": 50}, {"age": 1, "write": 1, "read": 1}]}}},
        days=1,
    ),
    "throttles of an import are no evidence": Case(
        stream(tail=BY_KIND),
        Traffic(daily(10, 1500, 12), imported=True, in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}),
        {},
    ),
    "throttles in one hour of two weeks are no evidence": Case(
        stream(tail=BY_KIND),
        Traffic(
            lambda at: 1500 if (at.day, at.hour) == (3, 12) else 10,
            in_index={"by_kind": 0.01},
            index_reads={"by_kind": 1},
        ),
        {},
    ),
    "one series has half of the events, and its key is known": Case(
        stream(BY_SERIES, tail=BY_KIND),
        Traffic(daily(10, 2600, 12), hot=0.5, in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}),
        {"shards": {"key": {"shards": 3}}},
    ),
    "a series is too heavy, and nobody knows which": Case(
        stream(BY_SERIES, tail=BY_KIND),
        Traffic(
            daily(10, 2600, 12), hot=0.5, shares_known=False, in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}
        ),
        {"shards": {"key": {"shards": 2}}},
    ),
    "shards by series cannot spread one heavy series": Case(
        stream(f'{BY_TIME}\nshards = 4\nshard_by = "series"', tail=BY_KIND),
        Traffic(daily(10, 1800, 12), hot=0.6, in_index={"by_kind": 0.01}, index_reads={"by_kind": 1}),
        {"shard_by": {"key": {"shard_by": "id"}}},
    ),
    "sixteen shards for a hundred events per second, queried four times per second": Case(
        stream(f"{BY_TIME}\nshards = 16", tail=BY_KIND),
        Traffic(
            daily(10, 100, 12),
            in_index={"by_kind": 0.01},
            index_reads={"by_kind": 1},
            reads=daily(0, 768, 12),
            uses=(reading(queries=4, read=100, returned=100, units=8, requests=16),),
        ),
        {"shards": {"key": {"shards": 1}}},
    ),
    "eight shards that hardly anybody queries cost nothing": Case(
        stream(f"{BY_TIME}\nshards = 8", tail=BY_KIND),
        Traffic(
            daily(10, 100, 12),
            in_index={"by_kind": 0.01},
            index_reads={"by_kind": 1},
            uses=(reading(queries=0.0001, read=100, returned=100, units=4, requests=8),),
        ),
        {},
    ),
    "four shards for 1,900 events per second are right": Case(
        stream(f"{BY_TIME}\nshards = 4", tail=BY_KIND),
        Traffic(
            daily(10, 1900, 12),
            in_index={"by_kind": 0.01},
            index_reads={"by_kind": 1},
            uses=(reading(queries=2, read=100, returned=100, units=4, requests=4),),
        ),
        {},
    ),
    "a week's late events keep eight tables at full capacity": Case(
        stream(
            head='period = "day"\nlate = "7d"\nretention = 7',
            capacity="{ age = 0, write = 430, read = 5 }, { age = 1, write = 1, read = 1 }",
        ),
        Traffic(steady(300), late=0.001, reads=3.5),
        {
            "late": {
                "capacity": {
                    "ladder": [
                        {"age": 0, "write": 430, "read": 5},
                        {"age": "late", "write": 1, "read": 5},
                        {"age": 1, "write": 1, "read": 1},
                    ]
                }
            }
        },
    ),
    "late events are throttled by the step for them": Case(
        stream(head='period = "day"\nlate = "7d"\nretention = 7', capacity=sized(430)),
        Traffic(steady(300), late=0.05, reads=3.5),
        # 15 of 300 events per second are late, which needs 15 / 0.7 = 22 units. But one advice raises units only to the
        # double, or by ten if that is more: from 1 to 11.
        {
            "late": {
                "capacity": {
                    "ladder": [
                        {"age": 0, "write": 430, "read": 5},
                        {"age": "late", "write": 11, "read": 5},
                        {"age": 1, "write": 1, "read": 1},
                    ]
                }
            }
        },
    ),
    "hundreds of small events per request cost a unit each": Case(
        stream(), Traffic(daily(10, 100, 12), size=200, batch=100), {"packs": {"pack": {"span": "1m"}}}
    ),
    "small events that come singly gain nothing by packs": Case(
        stream(), Traffic(daily(10, 100, 12), size=200, batch=1), {}
    ),
    "a stream with an index can have no packs": Case(
        stream(tail=BY_KIND), Traffic(daily(10, 100, 12), size=200, batch=100, index_reads={"by_kind": 1}), {}
    ),
    "events are in packs already": Case(
        stream(tail='[streams.s.pack]\nspan = "1m"'), Traffic(steady(100), size=200, batch=100, units=0.05), {}
    ),
    "packs are configured, and the tables have none yet": Case(
        stream(capacity=sized(1000), tail='[streams.s.pack]\nspan = "1m"'),
        Traffic(steady(100), size=200, batch=100, packed=False),
        {},
    ),
    "an index that nobody reads": Case(
        stream(tail=BY_KIND), Traffic(daily(5, 50, 12)), {"unused_index": {"index": []}}
    ),
    "an index that a query per minute reads": Case(
        stream(tail=BY_KIND), Traffic(daily(5, 50, 12), index_reads={"by_kind": 0.01}), {}
    ),
    "an index that nobody reads for three days may be needed on the fourth": Case(
        stream(tail=BY_KIND), Traffic(daily(5, 50, 12)), {}, days=3
    ),
    "queries read 50,000 events each to return 20": Case(
        stream(),
        Traffic(
            daily(5, 20, 12),
            reads=daily(0, 18_000, 12),
            uses=(reading("customer:eq", queries=0.25, read=50_000, returned=20, units=3000),),
        ),
        {"new_index": {"index": [{"name": "by_customer", "partition_by": "customer"}]}},
    ),
    "the same five times per day costs less than an index": Case(
        stream(),
        Traffic(
            daily(5, 20, 12), uses=(reading("customer:eq", queries=5 / 86_400, read=50_000, returned=20, units=3000),)
        ),
        {},
    ),
    "a condition that most events meet gains nothing by an index": Case(
        stream(),
        Traffic(daily(5, 20, 12), uses=(reading("kind:eq", queries=25, read=1000, returned=800, units=60),)),
        {},
    ),
    "a comparison is no partition key": Case(
        stream(),
        Traffic(daily(5, 20, 12), uses=(reading("size:ge", queries=0.25, read=50_000, returned=20, units=3000),)),
        {},
    ),
    "queries of a value were refused for want of an index": Case(
        stream(BY_SERIES),
        Traffic(steady(5), uses=(Use("events", ("customer:eq",), 400, refused=True),)),
        {"new_index": {"index": [{"name": "by_customer", "partition_by": "customer"}]}},
    ),
    "one value of an index is too hot": Case(
        stream(BY_SERIES, tail=BY_KIND),
        Traffic(daily(10, 1800, 12), index_hot={"by_kind": 0.8}, index_reads={"by_kind": 1}),
        {"index_shards": {"index": [{"name": "by_kind", "partition_by": "kind", "shards": 2}]}},
    ),
    "queries over weeks meet a bucket per hour": Case(
        stream('partition_by = "time"\nbucket = "1h"'),
        Traffic(
            steady(1),
            reads=daily(0, 1008, 12),
            uses=(reading(queries=0.5, read=100, returned=100, units=84, requests=168),),
        ),
        {"bucket": {"key": {"bucket": "24h"}}},
    ),
    "short buckets that hold much are read side by side": Case(
        stream('partition_by = "time"\nbucket = "1h"'),
        Traffic(
            daily(5, 20, 12),
            reads=daily(0, 43_200, 12),
            uses=(reading(queries=0.5, read=60_000, returned=60_000, units=3600, requests=168),),
        ),
        {},
    ),
    "720 tables by the hour, each with the least units": Case(
        stream(
            'partition_by = "time"\nbucket = "1h"',
            head='period = "hour"\nlate = "15m"\nretention = 720',
            capacity=sized(715),
        ),
        Traffic(steady(500), reads=3.5),
        {"period": {"period": "day", "retention": 30}},
    ),
    "a maximum for on-demand tables throttles them each noon": Case(
        stream(tail="[streams.s.capacity]\nmax = { write = 500, read = 1000 }"),
        Traffic(daily(10, 800, 12)),
        {"maximum": {"capacity": {"max": {"write": 1000, "read": 1000}}}},
    ),
    "a maximum that is a little too low gets what was wanted and a reserve, and not twice as much": Case(
        stream(tail="[streams.s.capacity]\nmax = { write = 800, read = 1000 }"),
        Traffic(daily(10, 850, 12)),
        {"maximum": {"capacity": {"max": {"write": 1215, "read": 1000}}}},
    ),
    "small events in batches on provisioned tables: packs and then fewer units": Case(
        stream(capacity=sized(143)),
        Traffic(steady(100), size=200, batch=100, reads=3.5),
        {"packs": {"pack": {"span": "1m"}}},
    ),
    "a large steady stream moves its old tables to the other class as before": Case(
        stream(tail='[streams.s.capacity]\nladder = [{ age = 0 }, { age = 2, class = "infrequent-access" }]'),
        Traffic(steady(300)),
        {
            "mode": {
                "capacity": {
                    "mode": "provisioned",
                    "ladder": [
                        {"age": 0, "write": 429, "read": 1},
                        {"age": "late", "write": 1, "read": 1},
                        {"age": 1, "mode": "on-demand"},
                        {"age": 2, "mode": "on-demand", "class": "infrequent-access"},
                    ],
                }
            }
        },
    ),
}
