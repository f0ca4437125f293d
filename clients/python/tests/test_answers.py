"""What an answer means."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from doubles import NOON, WINDOW
from tidetable_client.answers import Later, Refused, Rejected, Stored, TooLarge, judge_write, read_retry_after

GOOD = {"accepted": 2, "queued": 0, "rejected": 0, "refs": ["a", "b"], "window": WINDOW}


def judge(status: int, document: Any, **headers: str) -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    named = httpx.Headers({name.replace("_", "-"): text for name, text in headers.items()})
    return judge_write(status, named, body, 2, NOON)


def test_stored_and_queued_are_acknowledged() -> None:
    assert judge(200, GOOD, tidetable_write_units="3.5") == Stored(2, 0, [], WINDOW, 3.5)
    assert judge(202, GOOD | {"accepted": 0, "queued": 2}) == Stored(0, 2, [], WINDOW)


def test_refused_events_have_their_index_code_and_window() -> None:
    errors = [{"index": 1, "id": None, "code": "too_old", "detail": "before the window"}]
    verdict = judge(200, GOOD | {"accepted": 1, "rejected": 1, "errors": errors})
    assert verdict == Stored(1, 0, [Refused(1, "too_old", "before the window")], WINDOW)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>log in</html>",
        b'{"accepted": 2, "queued"',
        [],
        {"ok": True},
        GOOD | {"accepted": 1},
        GOOD | {"accepted": "2"},
        GOOD | {"accepted": 2.0},
        GOOD | {"queued": None},
        GOOD | {"queued": "0"},
        GOOD | {"rejected": None},
        GOOD | {"accepted": 1, "rejected": 1, "errors": []},
        GOOD | {"accepted": 1, "rejected": 1, "errors": [{"index": 7, "code": "x"}]},
    ],
)
def test_a_200_that_is_not_the_answer_to_this_request_acknowledges_nothing(document: Any) -> None:
    assert isinstance(judge(200, document), Later)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_these_are_tried_again_after_retry_after(status: int) -> None:
    verdict = judge(status, {"code": "x", "detail": "busy"}, retry_after="7")
    assert isinstance(verdict, Later)
    assert (verdict.after, verdict.status, verdict.reason) == (7.0, status, f"{status} busy")
    assert verdict.wide == (status not in (500, 529))


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 415])
def test_these_are_not_tried_again(status: int) -> None:
    assert judge(status, {"code": "c", "detail": "d"}) == Rejected(status, "c", "d", [])
    assert judge(status, b"plain") == Rejected(status, f"http_{status}", "plain", [])


def test_too_large_is_for_two_halves() -> None:
    assert judge(413, {"code": "too_large", "detail": "4 MB"}) == TooLarge("4 MB")


def test_of_a_request_that_is_refused_whole_the_events_that_are_not_listed_are_sent_again() -> None:
    first = {"index": 0, "code": "too_old", "detail": "d"}
    assert judge(422, {"code": "all_refused", "detail": "all", "errors": [first]}).again
    assert not judge(422, {"code": "all_refused", "detail": "all", "errors": [first, first | {"index": 1}]}).again
    assert not judge(422, {"code": "all_refused", "detail": "all", "errors": []}).again


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("-5", 0.0), ("", 0.0), (None, 0.0), ("soon", 0.0), ("Sun, 15 Mar 2026 12:00:30 GMT", 30.0)],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float) -> None:
    assert read_retry_after(text, NOON) == seconds
    assert read_retry_after("Sun, 15 Mar 2026 12:00:30 GMT", NOON + timedelta(hours=1)) == 0.0


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"detail": "no such stream", "title": "Not Found"}, "no such stream"),
        ({"title": "Not Found", "message": "none"}, "Not Found"),
        # Some answers of API Gateway itself have only a message.
        ({"message": "Forbidden"}, "Forbidden"),
        ({"other": 1}, '{"other": 1}'),
    ],
)
def test_a_refusal_says_the_reason_that_its_document_has(document: dict[str, Any], said: str) -> None:
    assert judge(403, document).detail == said
