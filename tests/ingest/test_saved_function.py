"""The drain's function and messages that are too old for the queue: its schedule, its metrics and its log."""

from datetime import timedelta
from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.ingest.streams import NOW
from tests.worlds.functions import SENT, environment, queue_message, record
from tests.worlds.intake import LABEL, World

__all__ = ["environment"]


def drain_event(stage: World, event: dict[str, Any]) -> Any:
    from handlers import drain

    context: Any = Context()
    with wiring.serve_pipeline(stage.pipeline()):
        return drain.handler(event, context)


def deliver_old_message(stage: World, *ids: str) -> None:
    """Deliver a message that has waited for ten days; the function takes it."""
    sent = int((NOW - timedelta(days=10)).timestamp() * 1000)
    old = {**record(sent, queue_message(stage, *ids)), "messageId": "m"}
    assert drain_event(stage, {"Records": [old]}) == {"batchItemFailures": []}


def test_an_old_message_is_saved_and_written_by_the_schedule_with_its_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics: list[tuple[str, float]] = []
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: metrics.append((name, value)))
    stage = World()
    deliver_old_message(stage, "1", "2", "3")
    assert ("EventsSaved", 3) in metrics
    assert [key.split("/")[2:] for key in stage.values.blobs] == [[str(SENT - 864_000_000), "events=3", "m"]]
    metrics.clear()
    assert drain_event(stage, {"source": "schedule"}) is None
    assert metrics == [("OldestMessage", 864_000.0), ("EventsDrained", 3), ("SavedMessages", 1)]
    metrics.clear()
    drain_event(stage, {"source": "schedule"})
    assert (metrics, stage.stored(), stage.values.blobs) == ([], 3, {})


def test_the_schedule_logs_why_a_saved_message_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    stage = World()
    deliver_old_message(stage, "1")
    stage.store.throttles = {f"tidetable-t.quakes.{LABEL}"}
    monkeypatch.setattr("handlers.drain.logger.warning", lambda _, reason: reasons.append(reason))
    drain_event(stage, {"source": "schedule"})
    assert reasons == ["1 of 1 items of quakes are still to be written"]
    assert len(stage.values.blobs) == 1
