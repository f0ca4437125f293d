"""One side of ``bench.many``: what one source tree reads of the catalog for many streams and many keys.

The argument is the tree. The script prints JSON. Requests and times are drawn from a seed, and a clock is moved by hand.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/lambdas"]

from older_trees import import_first  # type: ignore[import-not-found]

from tests.credentials.records import record
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.periods import Kind, find_containing
from tidetable.times import to_text

periods = import_first("tidetable.ingest.recent_periods", "tidetable.ingest.known")
ring_module = import_first("tidetable.credentials.ring")
START = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
SECONDS = 3_600
STREAM = parse('[streams.s]\nperiod = "hour"\nlate = "1d"\nretention = 48\nkey = { partition_by = "series" }').streams[
    "s"
]


class OpenHours:
    """A catalog in which every hour is open. It counts the Queries: the adapter sends two for a range."""

    def __init__(self) -> None:
        self.queries = 0

    def entries(self, stream: str, start: datetime, end: datetime) -> list[Entry]:
        self.queries += 2
        first, last = find_containing(start, Kind.HOUR), find_containing(end, Kind.HOUR)
        hours = [first] if first == last else [first, last]
        return [Entry(stream, hour, f"{stream}.{hour.label}", STREAM.layout, State.OPEN, START) for hour in hours]


class Process:
    """The memory of a process of ingest."""

    def __init__(self) -> None:
        newer = hasattr(periods, "RecentPeriods")
        self._known = periods.RecentPeriods() if newer else periods.KnownPeriods()
        self._newer = newer

    def find(self, catalog: OpenHours, stream: str, oldest: datetime, now: datetime) -> None:
        """Find the period of events from ``oldest`` to now."""
        if not self._newer:
            self._known.find_covering(catalog, stream, oldest, now, now)
            return
        from tidetable.ingest.context import RequestContext, StreamRules
        from tidetable.window import Window

        policy: Any = STREAM.__class__(
            **{name: getattr(STREAM, name) for name in STREAM.__struct_fields__} | {"name": stream}
        )
        context = RequestContext(policy, StreamRules(STREAM.layout, 0, judges_all=False), Window.of(STREAM, now), now)
        times = to_text(oldest), to_text(now)
        self._known.find_covering(catalog, context, times, *times)


def count_queries(streams: int, processes: int, rate: float) -> float:
    """Count the catalog's Queries per request in an hour, from empty processes on, over the change of an hour."""
    random, catalog = Random(7), OpenHours()  # noqa: S311
    fleet = [Process() for _ in range(processes)]
    requests = int(rate * SECONDS)
    for number in range(requests):
        now = START + timedelta(seconds=number / rate)
        oldest = now - timedelta(seconds=10 * random.random())
        random.choice(fleet).find(catalog, f"s{random.randrange(streams)}", oldest, now)
    return catalog.queries / requests


def make_ring(reads: Counter[str]) -> Any:
    """A process of the authorizer; ``reads`` counts what it reads, by partition."""
    kept = record("tt_0123456789_abcdefghijklmnopqrstuvwxyz012345")
    try:
        from aws.dynamodb.credential_items import list_record_keys
    except ImportError:
        return ring_module.KeyRing(lambda _: reads.update(keys=1) or kept)

    def read(id: str) -> Any:
        reads[list_record_keys(id)[0]["pk"]] += 1
        return kept

    def count_changes() -> dict[str, int]:
        reads["keys#changes"] += 1
        return {}

    return ring_module.CredentialRing(read, count_changes)


def count_misses(keys: int, rate: float) -> float:
    """Count the reads per request of one process with this rate, in an hour from its beginning on."""
    random, reads = Random(7), Counter[str]()  # noqa: S311
    ring, requests = make_ring(reads), int(rate * SECONDS)
    for number in range(requests):
        ring.find(f"{random.randrange(keys):010}", START + timedelta(seconds=number / rate))
    return reads.total() / requests


def find_peak(keys: int, processes: int, rate: int, seconds: int) -> int:
    """Find the most reads of a partition in a second, if all processes begin at the same time."""
    random, reads, peak = Random(7), Counter[str](), 0  # noqa: S311
    rings = [make_ring(reads) for _ in range(processes)]
    for second in range(seconds):
        for number in range(rate):
            now = START + timedelta(seconds=second + number / rate)
            random.choice(rings).find(f"{random.randrange(keys):010}", now)
        peak = max(peak, *reads.values())
        reads.clear()
    return peak


def run_stage(streams: int) -> dict[str, float]:
    """Deploy a stage on the strict service: runs until all tables stand, and calls per stream of an idle run."""
    from tests.fakes.stage import Stage

    policy = 'period = "day"\nlate = "1d"\nretention = 5\npremake = 1\nkey = {{ partition_by = "series" }}\n'
    text = "".join(f"[streams.n{number}]\n{policy}".format() for number in range(streams))
    stage, runs, is_busy = Stage(START, text), 0, True
    while is_busy:
        report = stage.run_lifecycle()
        runs, is_busy = runs + 1, bool(report.count("done") or report.count("deferred"))
        stage.clock.sleep(300)
    before = stage.client.calls
    for _ in range(12):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    # The last run found nothing to do.
    return {"idle_calls": (stage.client.calls - before) / 12 / streams, "runs": runs - 1}


def main() -> None:
    """Count for 500 streams and for 10,000 keys, with 100 processes."""
    counts = {
        **run_stage(100),
        "queries": count_queries(500, 100, 1_000),
        # A process has a hundredth of the requests.
        "misses": count_misses(10_000, 100),
        "peak": find_peak(10_000, 100, 10_000, 5),
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
