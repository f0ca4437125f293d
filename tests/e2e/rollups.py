"""An hour of the quakes that the deployed refresher has sealed, for the tests that move the clock."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from local import Deployed, Emulator
from local.http import Api, invoke_refresher
from tests.e2e.clock import NOW
from tests.e2e.conftest import eventually, run_lifecycle
from tests.worlds.aggregates import tally

HOUR = timedelta(hours=1)
STATS = "count,sum,min,max"


@dataclass
class Hour:
    """A bucket of the rollup, and its events."""

    start: datetime
    events: list[dict[str, Any]]

    def aggregate(self, api: Api, **more: str) -> Any:
        """The statistics of each series in the hour, and whether events or a rollup answered."""
        start, end = self.start.isoformat(), (self.start + HOUR).isoformat()
        asked = {"start": start, "to": end, "step": "1h", "by": "series", "field": "mag", "stat": STATS, **more}
        answer = api.query("quakes", "aggregate", **asked)
        assert answer.status == 200, answer.body
        rows = {row["group"]["series"]: [row[stat] for stat in STATS.split(",")] for row in answer.body["aggregates"]}
        return rows, answer.body["sources"]

    def expected(self) -> dict[str, list[Any]]:
        """The same from what was sent. Magnitudes are whole, so that their sums are."""
        rows = tally(self.events, HOUR, ["series"], "mag")
        return {group[0]: [row[stat] for stat in STATS.split(",")] for (_, group), row in rows.items()}


def move_to(emulator: Emulator, deployed: Deployed, instant: datetime) -> None:
    """Set the stage's clock, and make the tables of that time."""
    emulator.move_clock(instant - datetime.now(UTC))
    run_lifecycle(deployed)


def run_refresher(deployed: Deployed) -> None:
    """Refresh, beside the runs of the schedule."""
    eventually(lambda: invoke_refresher(deployed), lambda report: "skipped" not in report)


def find_start(deployed: Deployed) -> datetime:
    """Where the rollup begins: the schedule's first run has decided it."""

    def look() -> Any:
        return invoke_refresher(deployed, status="quakes")["rollups"][0]["start"]

    return datetime.fromisoformat(eventually(look, lambda start: start is not None))


def send(api: Api, events: Iterable[dict[str, Any]]) -> None:
    answer = api.send("quakes", json.dumps([*events]).encode())
    assert (answer.status, answer.body["queued"]) == (200, 0), answer.body


def reading(time: datetime, number: int, series: str, status: str = "automatic") -> dict[str, Any]:
    """An event whose magnitude is its number."""
    data = {"mag": number, "status": status}
    return {"series": series, "id": f"hour-{number}", "time": f"{time:%Y-%m-%dT%H:%M:%S}Z", "data": data}


def seal_hour(emulator: Emulator, deployed: Deployed, api: Api) -> Hour:
    """Send the events of the rollup's first whole hour of this stage, move the clock, and have the hour sealed."""
    start = max(find_start(deployed), NOW.replace(minute=0, second=0, microsecond=0) + HOUR)
    events = [reading(start + timedelta(minutes=n), n, ("ci", "us")[n % 2]) for n in range(30)]
    hour = Hour(start, events)
    move_to(emulator, deployed, start + timedelta(minutes=30))
    send(api, events)
    move_to(emulator, deployed, start + timedelta(minutes=66))

    def look() -> list[object]:
        # A worker that the schedule has woken may have the stream: a run leaves it to that worker.
        run_refresher(deployed)
        return [source.get("rollup") for source in hour.aggregate(api)[1]]

    eventually(look, lambda rollups: rollups == ["quakes-hours"])
    return hour
