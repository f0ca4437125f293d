"""The time that the functions of the write path keep for their last steps."""

import json
from datetime import timedelta
from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.fakes import FakeClock
from tests.ingest.streams import NOW
from tests.worlds.functions import SENT, environment, queue_message, record
from tests.worlds.intake import LABEL, World, event

__all__ = ["environment"]


class Timed(Context):
    """Lambda's time, by a world's clock."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.now() + timedelta(seconds=seconds)

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - self._clock.now()).total_seconds() * 1000)


@pytest.mark.parametrize(("name", "seconds", "least", "most"), [("ingest", 12.0, 1.0, 2.0), ("drain", 5.5, 0.35, 0.5)])
def test_a_function_gives_a_throttled_table_up_with_time_left(
    name: str, seconds: float, least: float, most: float
) -> None:
    """The ingest function then queues with 10 seconds left, and the drain answers with 5: the rest is for writing."""
    from handlers import drain, ingest

    stage = World()
    stage.store.throttles = {f"tidetable-t.quakes.{LABEL}"}
    context: Any = Timed(stage.clock, seconds)
    with wiring.serve_pipeline(stage.pipeline()):
        if name == "ingest":
            ingest.handler({"pathParameters": {"stream": "quakes"}, "body": json.dumps([event(1)])}, context)
        else:
            drain.handler({"Records": [record(SENT + 1, queue_message(stage, "1"))]}, context)
    # The next pause would end too late.
    assert least <= (stage.clock.now() - NOW).total_seconds() <= most
