"""A stream with one late event per 10 seconds into random minutes of a day, on the strict service: what stays raw, what an
aggregate over the day costs, and what sealing reads.

Three streams run at the same time: plain without late events, plain with them, and packs with them. Each has a day of
100 events per minute of 20 series, and then an hour with late events. The code is that of the functions, and every
number is a count.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from tests.fakes.stage import Stage
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.rollup_model.cover import find_present, find_unusable_buckets
from tidetable.times import to_text

START = datetime(2026, 3, 2, tzinfo=UTC)
STREAM = """
[streams.{name}]
period = "day"
late = "2d"
retention = 9
key = {{ partition_by = "time", bucket = "1h", shards = 2 }}
{more}
[[streams.{name}.rollup]]
name = "minutes"
every = "1m"
by = ["series"]
fields = ["mag"]
stats = ["count", "sum", "min", "max"]
retention = "9d"
"""
PACK = 'pack = { span = "1m" }'
STREAMS = {"even": "", "late": "", "packed": PACK}
RATE, SERIES, PER_MINUTE, MINUTES = 100, 20, 6, 60


class Counted:
    """Counts the events that are read from the tables of each stream."""

    def __init__(self, stage: Stage) -> None:
        self.events = dict.fromkeys(STREAMS, 0)
        self._fields, self._many = stage.store.query_fields, stage.store.query_many
        stage.store.query_fields = self.read_fields  # type: ignore[method-assign]
        stage.store.query_many = self.read_many  # type: ignore[method-assign]

    def read_fields(self, reads: Sequence[Any], fields: Sequence[str], **options: Any) -> Any:
        """Read pages of plain events, and count the events."""
        return self._count(reads, self._fields(reads, fields, **options))

    def read_many(self, reads: Sequence[Any], **options: Any) -> Any:
        """Read pages of items, and count the events, also those in packs."""
        return self._count(reads, self._many(reads, **options))

    def _count(self, reads: Sequence[Any], pages: Sequence[Any]) -> Sequence[Any]:
        for read, page in zip(reads, pages, strict=True):
            stream = read.keys.table.split(".")[1]
            if stream in self.events and page is not None:
                packs = [int(item["n"]) for item in getattr(page, "items", ()) if "pack" in item]
                self.events[stream] += sum(packs) + page.read - len(packs)
        return pages


def send_minute(stage: Stage, chance: random.Random, *, late: bool) -> None:
    """Send the events of the minute that has just passed and, with ``late``, late events between them."""
    now = stage.clock.now()
    for stream in STREAMS:
        events = [
            make_event(chance, now - timedelta(seconds=60 * number / RATE), f"{now:%d%H%M}-{number}")
            for number in range(RATE)
        ]
        stage.send(stream, json.dumps(events).encode())
    for number in range(PER_MINUTE if late else 0):
        at = now - timedelta(seconds=chance.uniform(180, 86_400))
        for stream in ("late", "packed"):
            body = json.dumps([make_event(chance, at, f"late-{now:%d%H%M}-{number}")]).encode()
            assert stage.send(stream, body).status == 200
        stage.clock.sleep(60 / PER_MINUTE)
    if not late:
        stage.clock.sleep(60)


def make_event(chance: random.Random, at: datetime, id: str) -> dict[str, Any]:
    """Make an event of about 130 bytes."""
    series = f"device-{chance.randrange(SERIES):04}"
    return {"series": series, "time": to_text(at), "id": id, "data": {"mag": round(chance.gauss(20, 2), 2), "on": True}}


def measure_units(stage: Stage, stream: str) -> float:
    """Return the read units of an aggregate over the last day, without the minutes that cannot be sealed yet."""
    now = stage.clock.now()
    end = now.replace(second=0, microsecond=0) - timedelta(minutes=6)
    given = {"from": end - timedelta(days=1), "to": end}
    asked = {name: [to_text(at)] for name, at in given.items()} | {
        "step": ["1h"],
        "stat": ["avg,max"],
        "field": ["mag"],
    }
    policy, pipeline = stage.config.streams[stream], stage.pipeline
    query = parse_aggregation(policy, asked, now, pipeline.seal)
    return find_aggregate(query, policy, pipeline.reader, now, lambda: 1_000.0).cost.units


def count_raw(stage: Stage, stream: str) -> int:
    """Count the sealed minutes that are answered from the events."""
    (definition,) = stage.pipeline.definitions[stream]
    state = stage.rollups.read_state(stream)
    version = find_present(definition, state)
    assert version is not None
    return sum((end - start) // timedelta(minutes=1) for start, end in find_unusable_buckets(version, state))


def main() -> None:
    """Count everything, and write the bars' figures to bench/results.json."""
    chance = random.Random(11)  # noqa: S311 - made-up data
    stage = Stage(START, "".join(STREAM.format(name=name, more=more) for name, more in STREAMS.items()))
    stage.run_lifecycle()
    stage.refresh()
    stage.clock.sleep(900)
    for minute in range(24 * 60):
        send_minute(stage, chance, late=False)
        if minute % 60 == 0:
            stage.run_lifecycle()
        if minute % 10 == 0:
            stage.refresh()
    counted = Counted(stage)
    raw = {stream: list[int]() for stream in STREAMS}
    units = {stream: list[float]() for stream in STREAMS}
    added = 0
    for minute in range(MINUTES):
        send_minute(stage, chance, late=True)
        if minute % 30 == 7:
            stage.run_lifecycle()
        # Just before a run, so that most buckets are raw.
        for stream in STREAMS if minute % 10 == 9 else ():
            raw[stream].append(count_raw(stage, stream))
            read = counted.events.copy()
            units[stream].append(measure_units(stage, stream))
            counted.events = read
        report = stage.refresh()
        assert report is not None
        assert (report.failed, report.blocked) == ([], [])
        added += report.added
    sent = {"even": RATE, "late": RATE + PER_MINUTE, "packed": RATE + PER_MINUTE}
    share = {stream: sum(counts) / len(counts) / 1_440 for stream, counts in raw.items()}
    cost = {stream: sum(counts) / sum(units["even"]) for stream, counts in units.items()}
    reads = {stream: events / (sent[stream] * MINUTES) for stream, events in counted.events.items()}
    print(f"{added} late events were added to cells, of {PER_MINUTE * MINUTES}")
    for stream in STREAMS:
        print(
            f"{stream}: raw {share[stream]:.2%} of the day's minutes, units of an aggregate over those without late events"
            f" {cost[stream]:.2f}, events read by sealing per event {reads[stream]:.2f}"
        )
    note_ratios(
        late_buckets_raw_share=share["late"],
        packed_late_buckets_raw_share=share["packed"],
        digits=4,
    )
    note_ratios(
        late_aggregate_units_over_none=cost["late"],
        packed_late_aggregate_units_over_none=cost["packed"],
        late_sealing_reads_per_event=reads["late"],
        packed_late_sealing_reads_per_event=reads["packed"],
    )


if __name__ == "__main__":
    main()
