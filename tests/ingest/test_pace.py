"""The pace of saved messages on a slow provisioned table: it takes what the live traffic leaves."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.saved import CONFIG, NOON, list_saved, queue_events, stage_of
from tidetable.events import Event
from tidetable.ingest.saved import drain_saved
from tidetable.ports import Put

UNITS, MINUTES = 5, 6
PROVISIONED = (
    CONFIG + f'[streams.s.capacity]\nmode = "provisioned"\nladder = [{{ age = 0, write = {UNITS}, read = 100 }}]\n'
)


class LiveTraffic:
    """Writes of the API, so many per second, while the drain sleeps. ``refused`` counts those that were throttled."""

    def __init__(self, stage: Stage, rate: float) -> None:
        self._stage, self._rate, self._sleep = stage, rate, stage.clock.sleep
        (entry,) = stage.catalog.entries("s", NOON, NOON, consistent=True)
        self._entry, self._due, self.sent, self.refused = entry, 0.0, 0, 0
        stage.clock.sleep = self._write_and_sleep  # type: ignore[method-assign]

    def write(self) -> bool:
        """Write one event; False if the table throttled it."""
        event = Event("live", NOON, str(self.sent), {})
        self.sent += 1
        written = self._stage.store.write([Put(self._entry.table, self._entry.layout.make_item(event, at=9))])
        return not written.unwritten

    def _write_and_sleep(self, seconds: float) -> None:
        self._sleep(seconds)
        self._due += seconds * self._rate
        while self._due >= 1:
            self._due -= 1
            self.refused += not self.write()


@pytest.mark.parametrize("rate", [0.0, 2.0])
def test_a_backlog_takes_four_fifths_of_the_units_that_the_live_traffic_leaves(rate: float) -> None:
    stage = stage_of(PROVISIONED)
    # It notes the table's units.
    stage.run_lifecycle()
    ports = stage.pipeline.drain
    for number in range(10):
        queue_events(stage, *[f"{number}-{n}" for n in range(200)])
    stage.clock.sleep(2 * 3_600)
    stage.drain()
    assert len(list_saved(stage)) == 10
    live = LiveTraffic(stage, rate)
    # The units that the table saved in the last five minutes are used up. A partition takes 1,000 of them per second.
    for _ in range(2):
        while live.write():
            pass
        stage.clock.sleep(1)
    live.sent, written, begun = 0, count_puts(stage), stage.clock.now()
    for _ in range(MINUTES):
        end = stage.clock.now() + timedelta(minutes=1)
        # The scheduled run ends some seconds before the next one.
        drain_saved(ports, lambda end=end: (end - stage.clock.now()).total_seconds() - 5)  # type: ignore[misc]
        stage.clock.sleep(max((end - stage.clock.now()).total_seconds(), 0))
    free = (stage.clock.now() - begun).total_seconds() * (UNITS - rate)
    assert written["PutItem"] >= 0.8 * free
    # Few requests of the API are throttled by the search for the free units.
    assert live.refused <= 0.1 * live.sent


def count_puts(stage: Stage) -> Counter[str]:
    """Count the requests that the service takes, by their operation: the drain sends a PutItem per event."""
    call, taken = stage.dynamo.call, Counter[str]()

    def count(operation: str, payload: Any) -> Any:
        answer = call(operation, payload)
        taken[operation] += 1
        return answer

    stage.dynamo.call = count  # type: ignore[method-assign]
    return taken
