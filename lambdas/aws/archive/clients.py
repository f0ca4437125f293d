"""Calls to the archive's functions. They are functions of their own because they load pyarrow, which is large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from tidetable.catalog import State
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.events import Event
from tidetable.exact import decode_json, encode_json
from tidetable.ports import ArchivePage, ArchiveRange, Version
from tidetable.times import from_text, to_text

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaArchiver:
    """Archives by calling the archiver function and waiting for it."""

    def __init__(self, client: Callable[[int], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def archive(self, stream: str, label: str, *, within: float) -> None:
        """Call the function.

        If it runs longer than this caller, it goes on by itself, and a later run finds its result.
        """
        answer = _invoke(self._client(max(1, int(within))), self._function, {"stream": stream, "period": label})
        if answer["state"] == State.ARCHIVING:
            raise ArchiveBusy(f"{answer['events']} events are archived and verified; a later run goes on")


class LambdaArchiveReader:
    """Reads archived periods by calling the archive reader function."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """Call the function for one page."""
        payload = {"keys": msgspec.to_builtins(keys), "limit": limit, "ascending": ascending}
        return decode_page(_invoke(self._client, self._function, payload))


def encode_page(page: ArchivePage) -> dict[str, Any]:
    """A page as the reader function answers it; data is JSON text, so that numbers keep their digits."""
    rows = [[event.series, to_text(event.time), event.id, encode_json(event.data).decode()] for event in page.events]
    return {"events": rows, "more": page.more, "versions": page.versions, "reached": page.reached, "cut": page.cut}


def decode_range(payload: Any) -> ArchiveRange:
    """The range of a request."""
    return msgspec.convert(payload, ArchiveRange)


def decode_page(answer: Any) -> ArchivePage:
    """The page of an answer."""
    rows = answer["events"]
    events = [Event(series, from_text(time), id, decode_json(data)) for series, time, id, data in rows]
    stored = answer.get("versions")
    versions = None if stored is None else [Version(*members) for members in stored]
    return ArchivePage(events, answer["more"], versions, answer.get("reached"), answer.get("cut", False))


def _invoke(client: LambdaClient, function: str, payload: dict[str, Any]) -> Any:
    try:
        answer = client.invoke(FunctionName=function, Payload=json.dumps(payload).encode())
        body = json.loads(answer["Payload"].read() or b"null")
    except ReadTimeoutError as error:
        raise ArchiveBusy(f"the archive function {function} is still at work") from error
    except (ClientError, BotoCoreError) as error:
        raise ArchiveFailed(f"the archive function {function} did not answer: {error}") from error
    if "FunctionError" in answer:
        facts = body if isinstance(body, dict) else {}
        message = facts.get("errorMessage", "no message")
        if facts.get("errorType") == ArchiveBusy.__name__:
            raise ArchiveBusy(message)
        raise ArchiveFailed(f"the archive function {function} failed: {message}")
    return body
