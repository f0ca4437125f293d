"""What the functions do around their use cases."""

import gc
from typing import Any

import pytest

from tests.api.gateway import Context


def record(sent: int, body: str) -> dict[str, Any]:
    return {"messageId": body, "body": body, "attributes": {"SentTimestamp": str(sent)}, "eventSource": "aws:sqs"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the functions' modules look at when they are imported, and the settings as the gateway's tests leave them: unread."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")


def test_the_drain_takes_the_oldest_message_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers import drain

    taken: list[str] = []

    def take(body: str, *_: Any) -> int:
        taken.append(body)
        return 1

    monkeypatch.setattr("wiring.drain", lambda: None)
    monkeypatch.setattr(drain, "drain_message", take)
    event = {"Records": [record(30, "young"), record(9, "oldest"), record(11, "older")]}
    assert drain.handler(event, Context()) == {"batchItemFailures": []}  # type: ignore[arg-type]
    assert taken == ["oldest", "older", "young"]


def test_the_collector_stands_still_in_an_invocation_and_goes_on_after_it_whatever_happens() -> None:
    from handlers import _observe

    seen: list[bool] = []

    def handler(event: Any, context: Any) -> None:
        seen.append(gc.isenabled())
        if event is not None:
            raise RuntimeError(event)

    entry = _observe.uncollected(handler)
    entry(None, Context())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="broken"):
        entry("broken", Context())  # type: ignore[arg-type]
    assert seen == [False, False]
    assert gc.isenabled()
