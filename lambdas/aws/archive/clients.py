"""Calls to the archive's functions. They are functions of their own because they load pyarrow, which is large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aws.errors import aws_errors
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.ports import ArchivePage, ArchiveRange

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


# Of a caller's 30 seconds the query function keeps the rest for the answer.
_READ_SECONDS = 25


class LambdaArchiver:
    """Archives by calling the archiver function and waiting for it."""

    def __init__(self, client: Callable[[int], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def archive(self, stream: str, label: str, *, within: float) -> None:
        """Call the function. If it runs longer than this caller, it goes on by itself, and a later run finds its result."""
        answer = _invoke(self._client(max(1, int(within))), self._function, {"stream": stream, "period": label})
        if answer["state"] == State.ARCHIVING:
            raise ArchiveBusy(f"{answer['events']} events are archived and verified; a later run goes on")


class LambdaArchiveReader:
    """Reads archived periods by calling the archive reader function."""

    def __init__(self, client: Callable[[int], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """Call the function for one page."""
        # Few queries reach an archive, and the package's import is a part of every cold start.
        from tidetable.archive.wire import decode_page, encode_request

        payload = encode_request(keys, limit, ascending=ascending)
        return decode_page(_invoke(self._client(_READ_SECONDS), self._function, payload))


def _invoke(client: LambdaClient, function: str, payload: dict[str, Any]) -> Any:
    try:
        answer = client.invoke(FunctionName=function, Payload=json.dumps(payload).encode())
        body = json.loads(answer["Payload"].read() or b"null")
    except aws_errors() as error:
        from botocore.exceptions import ReadTimeoutError

        if isinstance(error, ReadTimeoutError):
            raise ArchiveBusy(f"the archive function {function} is still at work") from error
        raise ArchiveFailed(f"the archive function {function} did not answer: {error}") from error
    if "FunctionError" in answer:
        facts = body if isinstance(body, dict) else {}
        message = facts.get("errorMessage", "no message")
        if facts.get("errorType") == ArchiveBusy.__name__:
            raise ArchiveBusy(message)
        raise ArchiveFailed(f"the archive function {function} failed: {message}")
    return body
