"""The handlers of the ingest function and the drain: their answers, and what they publish."""

import gc
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.ingest.streams import NOW
from tests.worlds.functions import SENT, environment, queue_message, record
from tests.worlds.intake import LABEL, World, event
from tidetable.ingest.drain import Drained
from tidetable.ingest.outcome import Outcome
from tidetable.ingest.rejection import Rejection
from tidetable.ingest.saving import Received
from tidetable.window import Window

__all__ = ["environment"]
WINDOW = Window(NOW - timedelta(days=2), NOW + timedelta(minutes=5))
NOTHING = {"EventsAccepted": 0, "EventsQueued": 0, "WriteUnits": 0, "ThrottledWrites": 0}


class Published:
    """The metrics and log lines of a handler. ``units`` has each metric's unit."""

    def __init__(self) -> None:
        self.metrics: list[tuple[str, float]] = []
        self.units: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def add_metric(self, name: str, unit: Any, value: float) -> None:
        self.metrics.append((name, value))
        self.units[name] = unit.value

    def add_metadata(self, key: str, value: Any) -> None:
        self.metadata[key] = value

    def write_line(self, text: str, **facts: Any) -> None:
        self.lines.append((text, facts))


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Published:
    from handlers import _observe, drain, ingest

    found = Published()
    monkeypatch.setattr(_observe.metrics, "add_metric", found.add_metric)
    monkeypatch.setattr(_observe.metrics, "add_metadata", found.add_metadata)
    for module in (ingest, drain):
        for level in ("info", "warning", "exception"):
            monkeypatch.setattr(module.logger, level, found.write_line)
    return found


def post(stage: World, content: Any, /, **more: Any) -> tuple[int, Any, dict[str, str]]:
    """Send a request to the ingest function: the answer's status, body and headers."""
    from handlers import ingest

    text = content if isinstance(content, str) else json.dumps(content)
    sent = {"pathParameters": {"stream": "quakes"}, "headers": None, "body": text} | more
    context: Any = Context()
    with wiring.serve_pipeline(stage.pipeline()):
        answer = ingest.handler(sent, context)
    return answer["statusCode"], json.loads(answer["body"]), answer["headers"]


def test_an_answer_says_what_was_stored_and_what_it_cost(published: Published) -> None:
    body = json.dumps([event(1), event(2, days=9), event(3, minutes=10)])
    status, document, headers = post(World(), body, requestContext={"requestId": "r1"})
    first, refused, second = document.pop("refs")
    assert (status, refused, len({first, second})) == (200, None, 2)
    assert document == {
        "accepted": 2,
        "queued": 0,
        "rejected": 1,
        "window": {
            "oldest": "2026-02-27T00:05:00.000000Z",
            "newest": "2026-03-01T00:10:00.000000Z",
            "backfills": [],
        },
        "errors": [
            {
                "index": 1,
                "id": "2",
                "code": "too_old",
                "detail": "2026-02-20T00:05:00.000000Z is before 2026-02-27T00:05:00.000000Z: this stream takes events up to"
                " 2d late; to import history, open its time with `tidetable backfill quakes FROM TO`",
            }
        ],
    }
    assert headers == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Tidetable-Write-Units": "2",
        "Tidetable-Rejected": "1",
        "X-Content-Type-Options": "nosniff",
        "Tidetable-Request-Id": "r1",
    }
    assert dict(published.metrics) == NOTHING | {
        "EventsAccepted": 2,
        "WriteUnits": 2,
        "EventsRejected_too_old": 1,
        "NewestEventLag": 0,
    }
    assert published.metadata == {"stream": "quakes", "bytes": len(body)}
    assert published.lines == []


@pytest.mark.parametrize(("throttled", "code"), [(set(), 200), ({"tidetable-t.quakes.2026-03-01"}, 202)])
def test_an_answer_without_rejections_has_an_empty_list_of_errors(throttled: set[str], code: int) -> None:
    stage = World()
    stage.store.throttles = throttled
    status, document, _ = post(stage, [event(1)])
    assert (status, document["rejected"], document["errors"]) == (code, 0, [])


def test_an_answer_has_every_member(published: Published) -> None:
    status, document, headers = post(World(), [event(1)])
    assert (status, sorted(document)) == (200, ["accepted", "errors", "queued", "refs", "rejected", "window"])
    assert sorted(document["window"]) == ["newest", "oldest"]
    assert "Tidetable-Rejected" not in headers
    assert dict(published.metrics)["EventsAccepted"] == 1


def test_each_count_of_an_outcome_is_a_metric(published: Published) -> None:
    from handlers import ingest

    rejections = [Rejection(0, None, code, "") for code in ("invalid", "too_new", "invalid")]
    outcome = Outcome(
        [], WINDOW, 1, 2, rejections, 2.5, 3, 4, Counter({"A": 5, "B": 6}), NOW - timedelta(hours=1), None, 7, 8, 9
    )
    with wiring.serve_pipeline(World().pipeline()):
        ingest.publish_metrics(outcome, "quakes", 10)
    assert published.metrics == [
        ("EventsAccepted", 1),
        ("EventsQueued", 2),
        ("WriteUnits", 2.5),
        ("ThrottledWrites", 3),
        ("PacksWritten", 7),
        ("RollupMarksFailed", 8),
        ("ThrottledLateWrites", 4),
        ("FullCollectionWrites", 9),
        ("Throttled_A", 5),
        ("Throttled_B", 6),
        ("EventsRejected_invalid", 2),
        ("EventsRejected_too_new", 1),
        ("NewestEventLag", 3600),
    ]
    assert {name for name, unit in published.units.items() if unit != "Count"} == {"NewestEventLag"}
    assert published.units["NewestEventLag"] == "Seconds"
    assert published.lines == [("throttled", {"reasons": {"A": 5, "B": 6}, "writes": 7, "queued": 2})]


def test_an_event_ahead_of_the_clock_has_no_lag(published: Published) -> None:
    post(World(), [event(1, minutes=-3)])
    assert dict(published.metrics)["NewestEventLag"] == 0


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"body": "["}, 400, "unparseable"),
        ({"body": None}, 400, "unparseable"),
        ({"body": "a", "isBase64Encoded": True}, 400, "unparseable"),
        ({"headers": {"Content-Type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"pathParameters": {"stream": "none"}}, 404, "unknown_stream"),
        ({"requestContext": {"authorizer": {"key_id": "k", "streams": "quakes", "can": "read"}}}, 403, "forbidden"),
        ({"requestContext": {"authorizer": {"key_id": "k", "streams": "other", "can": "write"}}}, 403, "forbidden"),
    ],
)
def test_a_refused_request_is_counted_and_stores_nothing(
    published: Published, more: dict[str, Any], status: int, code: str
) -> None:
    stage = World()
    found, document, headers = post(stage, [event(1)], **more)
    assert (found, document["code"], headers["Content-Type"]) == (status, code, "application/problem+json")
    assert published.metrics == [("RequestsRefused", 1)]
    assert published.lines == [("request refused", {"code": code, "status": status})]
    assert stage.stored() == 0


def test_a_key_of_some_series_writes_no_other(published: Published) -> None:
    caller = {"key_id": "k", "streams": "*", "can": "write", "series_prefix": "b"}
    stage = World()
    _, document, _ = post(stage, [event(1), event(2) | {"series": "b"}], requestContext={"authorizer": caller})
    assert [error["code"] for error in document["errors"]] == ["forbidden_series"]
    assert (stage.count(LABEL), dict(published.metrics)["EventsRejected_forbidden_series"]) == (1, 1)


def test_a_request_is_read_in_every_form_of_the_gateway() -> None:
    stage = World()
    lines = "\n".join(json.dumps(event(number)) for number in (1, 2))
    encoded = b64encode(lines.encode()).decode()
    sent = {"headers": {"CONTENT-TYPE": "application/x-ndjson"}, "isBase64Encoded": True, "body": encoded}
    assert post(stage, "", pathParameters={"stream": "%71uakes"}, **sent)[0] == 200
    assert stage.count(LABEL) == 2


@pytest.mark.parametrize(("prefer", "status"), [("respond-async, Handling = Strict", 400), ("handling=lenient", 200)])
def test_a_preference_decides_about_a_request_with_a_refused_event(prefer: str, status: int) -> None:
    assert post(World(), [event(1), event(2, days=9)], headers={"Prefer": prefer})[0] == status


def test_a_failure_is_counted_and_nothing_is_acknowledged(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = World()
    monkeypatch.setattr(stage.store, "write", lambda _: 1 / 0)
    status, document, headers = post(stage, [event(1)])
    assert (status, headers["Retry-After"]) == (503, "5")
    assert published.metrics == [("IngestFailures", 1)]
    assert published.lines == [("ingest failed", {})]
    assert "accepted" not in document


def drain_records(stage: World, *records: dict[str, Any]) -> list[str]:
    """The ids of the messages that SQS must deliver again."""
    from handlers import drain

    context: Any = Context()
    with wiring.serve_pipeline(stage.pipeline()):
        answer = drain.handler({"Records": list(records)}, context)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_the_drain_reports_each_message(published: Published) -> None:
    """One is written, one is buried, and one waits for its table. SQS sent them 90, 30 and 10 seconds ago."""
    stage = World()
    stage.letters.takes = True
    bodies = [queue_message(stage, "1", "2"), "no message", queue_message(stage, "3", at=NOW - timedelta(days=9))]
    sent = [int((NOW.timestamp() - ago) * 1000) for ago in (30, 90, 10)]
    records = [
        {**record(at, body), "messageId": f"m{n}"} for n, (at, body) in enumerate(zip(sent, bodies, strict=True))
    ]
    assert drain_records(stage, *records) == ["m2"]
    assert published.metrics == [
        ("OldestMessage", 90),
        ("MessagesNotDrained", 1),
        ("EventsDrained", 2),
        ("MessagesNotDrained", 1),
    ]
    assert published.units == {"OldestMessage": "Seconds", "MessagesNotDrained": "Count", "EventsDrained": "Count"}
    assert [(text, line["message_id"]) for text, line in published.lines] == [
        ("message not drained", "m1"),
        ("message not drained", "m2"),
    ]
    assert "is recorded for 2026-02-20" in published.lines[1][1]["reason"]


def test_a_batch_of_which_nothing_is_written_is_no_failure(published: Published) -> None:
    """Its messages come again. The sender's clock may be ahead of this one."""
    stage = World()
    waiting = {**record(int(NOW.timestamp() * 1000) + 5_000, queue_message(stage, "1", at=NOW - timedelta(days=9)))}
    assert drain_records(stage, waiting | {"messageId": "m"}) == ["m"]
    assert published.metrics[0] == ("OldestMessage", 0)


@pytest.mark.parametrize(("count", "received"), [(None, 1), ("1", 1), ("2", 2)])
def test_the_drain_writes_the_oldest_first_and_knows_a_repeated_message(
    monkeypatch: pytest.MonkeyPatch, count: str | None, received: int
) -> None:
    from handlers import drain

    taken: list[tuple[str, int]] = []

    def take(messages: Sequence[Received], *_: Any) -> list[Drained]:
        taken.extend((message.body, message.received) for message in messages)
        return [Drained(1)] * len(messages)

    monkeypatch.setattr(drain, "take_messages", take)
    records = [record(at, body) for at, body in ((SENT + 1_000, "b"), (SENT + 999, "a"))]
    records[0]["attributes"] |= {} if count is None else {"ApproximateReceiveCount": count}
    assert drain_records(World(), *records) == []
    assert taken == [("a", 1), ("b", received)]


def test_metrics_are_written_at_the_end_of_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    """CloudWatch reads them in the log, each call's in a line of its own."""
    stage = World()
    body = queue_message(stage, "2", "3", "4")
    post(stage, [event(1)])
    drain_records(stage, {**record(int(NOW.timestamp() * 1000), body), "messageId": "m"})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    published = [line for line in lines if "_aws" in line]
    assert [line.get("EventsAccepted") for line in published] == [[1.0], None]
    assert [line.get("EventsDrained") for line in published] == [None, [3.0]]


def test_no_garbage_is_collected_while_a_request_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, enabled = World(), list[bool]()
    write = stage.store.write

    def watched(puts: Any) -> Any:
        enabled.append(gc.isenabled())
        return write(puts)

    monkeypatch.setattr(stage.store, "write", watched)
    assert post(stage, [event(1)])[0] == 200
    assert (enabled, gc.isenabled()) == ([False], True)
