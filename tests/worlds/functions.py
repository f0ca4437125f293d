"""The functions' handlers in this process: their environment and requests, and the lifecycle's handler on a stage."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.ingest.streams import NOW
from tests.worlds.configs import CONFIG as EXAMPLE
from tests.worlds.intake import World
from tests.worlds.killed import CONFIG, NOON
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message

JANUARY = {"stream": "s", "from": "2026-02-10", "to": "2026-02-13"}


# A time of the tests, in milliseconds since 1970.
SENT = int(NOW.timestamp() * 1000)


def record(sent: int, body: str) -> dict[str, Any]:
    return {"messageId": body, "body": body, "attributes": {"SentTimestamp": str(sent)}, "eventSource": "aws:sqs"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the environment that the functions' modules read when they are imported, and the example configuration."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setattr(settings, "CONFIG_FILE", EXAMPLE)
    settings.read_config.cache_clear()
    yield
    settings.read_config.cache_clear()


def queue_message(world: World, *ids: str, at: datetime = NOW) -> str:
    return encode_message("quakes", [Event("a", at, id, {"n": 1}) for id in ids], 1)


class Function:
    """The lifecycle's handler on a stage in memory, and the latest metrics of its last run."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        from handlers import lifecycle

        self.stage = stage
        self.measured: dict[str, float] = {}
        self._handler = lifecycle.handler
        monkeypatch.setattr("handlers._observe.metrics.add_metric", self._measure)

    def _measure(self, name: str, unit: Any, value: float) -> None:
        self.measured[name] = value

    def __call__(self, **payload: Any) -> Any:
        self.measured.clear()
        context: Any = Context()
        with wiring.serve_pipeline(self.stage.pipeline):
            return self._handler(payload, context)

    def backfills(self) -> list[str]:
        return [backfill.document()["from"][:10] for backfill in self.stage.catalog.backfills("s")]


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    settings.read_settings.cache_clear()
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    yield Function(stage, monkeypatch)
    settings.read_settings.cache_clear()
