"""One side of ``bench.catalog``: a stage of one source tree on the strict service, which counts the units of each table.

The arguments are the tree, what is measured, and the length of its history in hours. The script prints JSON: for
``latest`` its requests and units, for ``pages`` the catalog's units of the first page and of the last, of a page of an
aggregate over the history, whose archives have expired, and of the daily sweep.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

TREE = Path(sys.argv[1])
sys.path[:0] = [str(TREE), str(TREE / "lambdas")]

from strict.metering import Charge, Meter
from tests.fakes.stage import CATALOG, Stage
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.periods import Kind, find_containing
from tidetable.query import find_latest, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

LENGTH = int(sys.argv[3])
SERIES, PAGES = 100, 100
START = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Tables are made ten hours ahead. A run over two thousand tables takes long on the strict service.
LIFECYCLE_EVERY = 8
STREAM = f"""
[lifecycle]
table_quota = 5000
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "1h"
premake = 10
retention = {LENGTH if sys.argv[2] != "pages" else 2_160}
"""
BY_SERIES = 'key = { partition_by = "series" }\n'
ROLLUP = """
[[streams.s.rollup]]
name = "hours"
every = "1h"
fields = ["mag"]
stats = ["count"]
retention = "200d"
"""
PACKS = """
key = { partition_by = "time", bucket = "1h", shards = 4, shard_by = "series" }
pack = { span = "1m" }
"""
# What is measured, and the configuration of its stream. Pages are measured in the first one, too.
CONFIGS = {"latest": BY_SERIES + ROLLUP, "latest_alone": BY_SERIES, "latest_packs": PACKS + ROLLUP}
counted: dict[str, float] = defaultdict(float)


def count_reads(take: Any) -> Any:
    """Count each read, and its units, by the table's name."""

    def take_charges(self: Any, table: Any, charges: Iterable[Charge]) -> None:
        some = list(charges)
        for charge in some:
            if charge.side == "Read":
                counted["requests"] += 1
                # A partition reads 3,000 units per second: the time goes on, so that no read is throttled.
                self._account.clock.sleep(charge.units / 1_000)
                counted["units"] += charge.units
                counted[table.name] += charge.units
        take(self, table, some)

    return take_charges


def live_for_hours(stage: Stage, hours: int) -> None:
    """Run the functions for some hours. In each, three series have an event."""
    for hour in range(hours):
        if hour % LIFECYCLE_EVERY == 0:
            stage.run_lifecycle()
        now = to_text(stage.clock.now())
        events = [{"series": f"busy-{n}", "time": now, "id": f"{hour}", "data": {"mag": n}} for n in range(3)]
        assert stage.send("s", json.dumps(events).encode()).status == 200
        stage.clock.sleep(600)
        stage.refresh()
        # What a run does not finish is due again at once.
        stage.refresh()
        stage.clock.sleep(3_000)


def add_years(stage: Stage, hours: int) -> None:
    """Add older hours to the catalog, all of them archived, until it has all hours of the history."""
    newest = stage.catalog.entries("s", stage.clock.now(), stage.clock.now())[-1]
    first = stage.catalog.entries("s")[0].period.start
    for number in range(1, LENGTH - hours):
        period = find_containing(first - number * HOUR, Kind.HOUR)
        facts = ArchiveFacts(f"s/period={period.label}/1/manifest.json", 1_000, 50_000, period.end, period.end)
        table = f"tidetable-lapse.s.{period.label}"
        stage.catalog.add(Entry("s", period, table, newest.layout, State.ARCHIVED, period.start, archive=facts))
        if number % 500 == 0:
            stage.clock.sleep(1)


def measure_latest(stage: Stage) -> dict[str, float]:
    """Measure one request for the latest events of silent series."""
    counted.clear()
    names = [f"silent-{number}" for number in range(SERIES)]
    found = find_latest(stage.config.streams["s"], {"series": names}, stage.reader(), stage.clock.now(), lambda: 1e9)
    assert not found.events
    searched = found.document()["searched_back_to"]
    return {"requests": counted["requests"], "units": counted["units"], "searched": searched}


def measure_pages(stage: Stage) -> list[float]:
    """Measure the catalog's units of the pages of a query over ten years, the newest events first."""
    stream, units = stage.config.streams["s"], []
    given = {"from": ["2016-02-01T00:00:00Z"], "series": ["busy-1"], "limit": ["1"]}
    for _ in range(PAGES):
        counted.clear()
        query = parse_query(stream, given, stage.clock.now(), stage.seal)
        page = run_query(query, stream, stage.reader(), stage.clock.now(), lambda: 1e9)
        assert len(page.list_texts()) == 1
        assert page.next is not None
        units.append(float(counted[CATALOG]))
        given = {"cursor": [page.next], "limit": ["1"]}
        stage.clock.sleep(5)
    return units


def measure_whole(stage: Stage) -> dict[str, float]:
    """Measure the catalog's units of the first page of an aggregate over ten years, and of the daily sweep."""
    stream, now = stage.config.streams["s"], stage.clock.now()
    given = {"from": ["2016-02-01T00:00:00Z"], "step": ["1d"], "series": ["busy-1"]}
    counted.clear()
    find_aggregate(parse_aggregation(stream, given, now, stage.seal), stream, stage.reader(), now, lambda: 1e9)
    aggregate = counted[CATALOG]
    stage.clock.sleep(5)
    counted.clear()
    assert stage.sweep().finished
    return {"aggregate": aggregate, "sweep": counted[CATALOG]}


def main() -> None:
    """Measure one tree."""
    what = sys.argv[2]
    stream = STREAM.replace('late = "1h"', 'late = "1d"') if what == "latest_alone" else STREAM
    stage = Stage(START, stream + CONFIGS.get(what, CONFIGS["latest"]))
    hours = LENGTH if what in CONFIGS else PAGES
    live_for_hours(stage, hours + 10)
    stage.clock.sleep(1_500)
    if what == "latest_alone":
        # In the last minutes of an hour, two tables may have events.
        stage.clock.sleep(60 * (58 - stage.clock.now().minute))
        stage.run_lifecycle()
    if what in CONFIGS:
        # The refresher of a stage runs every minute, so it has covered the hour that ended almost an hour ago. The events
        # of the present hour, and those that are ahead in the next hour, are in two tables.
        stage.refresh()
    Meter.take_charges = count_reads(Meter.take_charges)  # type: ignore[method-assign]
    if what in CONFIGS:
        print(json.dumps(measure_latest(stage)))
        return
    add_years(stage, hours)
    pages = measure_pages(stage)
    print(json.dumps({"first": pages[0], "last": pages[-1], **measure_whole(stage)}))


if __name__ == "__main__":
    main()
