"""Calls to the archive's functions: how long they are waited for, and what their refusals mean to the caller."""

import json
from io import BytesIO
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from aws.archive.clients import LambdaArchiver, LambdaArchiveReader
from tidetable.archive.wire import encode_page
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.ports import ArchivePage, ArchiveRange


class Lambda:
    """A client of Lambda: it answers a body, or raises an error."""

    def __init__(self, body: Any = None, error: Exception | None = None, **more: Any) -> None:
        self.calls: list[Any] = []
        self.seconds: list[int] = []
        self._body, self._error, self._more = body, error, more

    def __call__(self, seconds: int) -> Any:
        self.seconds.append(seconds)
        return self

    def invoke(self, **call: Any) -> Any:
        self.calls.append((call.pop("FunctionName"), json.loads(call.pop("Payload")), call))
        if self._error is not None:
            raise self._error
        return {"Payload": BytesIO(json.dumps(self._body).encode())} | self._more


class Broken:
    """The body of an answer whose connection ends before the body has come."""

    def read(self) -> bytes:
        raise ReadTimeoutError(endpoint_url="lambda")


@pytest.mark.parametrize(("within", "seconds"), [(600.9, 600), (1.5, 1), (0.2, 1), (-3.0, 1)])
def test_an_archive_is_waited_for_as_long_as_the_caller_has_and_a_second_at_the_least(
    within: float, seconds: int
) -> None:
    client = Lambda({"state": "archived", "events": 7})
    LambdaArchiver(client, "archiver").archive("s", "2026-03-01", within=within)
    assert client.calls == [("archiver", {"stream": "s", "period": "2026-03-01"}, {})]
    assert client.seconds == [seconds]
    LambdaArchiver(client, "archiver").archive("s", "2026-03-01", within=9, retain=True)
    assert client.calls[1] == ("archiver", {"stream": "s", "period": "2026-03-01", "retain": True}, {})


def test_an_archive_that_is_not_complete_is_for_a_later_run() -> None:
    with pytest.raises(ArchiveBusy, match=r"^7 events are archived and verified; a later run goes on$"):
        LambdaArchiver(Lambda({"state": "archiving", "events": 7}), "f").archive("s", "p", within=60)


def test_a_busy_period_is_for_a_later_run() -> None:
    with pytest.raises(ArchiveBusy, match=r"^another run is at work$"):
        LambdaArchiver(Lambda({"state": "busy", "reason": "another run is at work"}), "f").archive("s", "p", within=60)


TIMEOUT = ReadTimeoutError(endpoint_url="lambda")
LOST = EndpointConnectionError(endpoint_url="lambda")
REFUSED = ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "slow down"}}, "Invoke")


@pytest.mark.parametrize(
    ("client", "error", "message"),
    [
        (Lambda(error=TIMEOUT), ArchiveBusy, "the archive function f is still at work"),
        (Lambda(error=LOST), ArchiveFailed, "the archive function f did not answer: Could not connect"),
        (Lambda(error=REFUSED), ArchiveFailed, "the archive function f did not answer: .*slow down"),
        (
            Lambda({"errorType": "ArchiveBusy", "errorMessage": "later"}, FunctionError="Unhandled"),
            ArchiveBusy,
            "^later$",
        ),
        (
            Lambda({"errorType": "ArchiveMismatch", "errorMessage": "no"}, FunctionError="Unhandled"),
            ArchiveFailed,
            "the archive function f failed: no$",
        ),
        (Lambda(None, FunctionError="Unhandled"), ArchiveFailed, "the archive function f failed: no message"),
        (Lambda(Payload=BytesIO(), FunctionError="Unhandled"), ArchiveFailed, "f failed: no message"),
        (Lambda(Payload=Broken()), ArchiveBusy, "the archive function f is still at work"),
    ],
    ids=["time-out", "no connection", "refusal", "busy", "failed", "no document", "no body", "time-out of the body"],
)
def test_a_call_that_fails_is_told_by_its_kind(client: Lambda, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        LambdaArchiver(client, "f").archive("s", "p", within=60)
    assert type(caught.value) is error


def test_a_page_is_read_within_the_time_that_leaves_the_query_function_some_for_its_answer() -> None:
    """API Gateway gives up after 30 seconds."""
    page = ArchivePage([], more=True, reached="place")
    client = Lambda(encode_page(page))
    read = LambdaArchiveReader(client, "reader").read(ArchiveRange("m", "low", "high"), limit=3, ascending=False)
    assert read == page
    ((function, payload, _),) = client.calls
    assert (function, payload["limit"], payload["ascending"], payload["keys"]["low"]) == ("reader", 3, False, "low")
    assert client.seconds == [25]
