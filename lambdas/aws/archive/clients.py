"""Calls to the archive's functions. They are functions of their own because they load pyarrow, which is large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aws.errors import list_aws_errors
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, WholeRange

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


# A caller waits up to 30 seconds. The query function keeps the other 5 seconds for the answer.
_READ_SECONDS = 25


class _Function:
    """A function of the archive."""

    def __init__(self, client: Callable[[int], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def _call(self, payload: dict[str, Any], seconds: int) -> Any:
        """Call the function and wait for its answer; ArchiveBusy if it is at work, ArchiveFailed if it fails."""
        try:
            answer = self._client(seconds).invoke(FunctionName=self._function, Payload=json.dumps(payload).encode())
            body = json.loads(answer["Payload"].read() or b"null")
        except list_aws_errors() as error:
            from botocore.exceptions import ReadTimeoutError

            if isinstance(error, ReadTimeoutError):
                raise ArchiveBusy(f"the archive function {self._function} is still at work") from error
            raise ArchiveFailed(f"the archive function {self._function} did not answer: {error}") from error
        if "FunctionError" in answer:
            facts = body if isinstance(body, dict) else {}
            message = facts.get("errorMessage", "no message")
            if facts.get("errorType") == ArchiveBusy.__name__:
                raise ArchiveBusy(message)
            raise ArchiveFailed(f"the archive function {self._function} failed: {message}")
        return body


class LambdaArchiver(_Function):
    """Archives by calling the archiver function and waiting for it."""

    def archive(self, stream: str, label: str, *, within: float, retain: bool = False) -> None:
        """Call the function and wait up to ``within`` seconds.

        A slower function goes on, and a later run finds its result.
        """
        task = {"stream": stream, "period": label} | ({"retain": True} if retain else {})
        answer = self._call(task, max(1, int(within)))
        if answer["state"] == "busy":
            raise ArchiveBusy(answer["reason"])
        if answer["state"] == State.ARCHIVING:
            raise ArchiveBusy(f"{answer['events']} events are archived and verified; a later run goes on")


class LambdaArchiveReader(_Function):
    """Reads archived periods by calling the archive reader function."""

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """Call the function for one page."""
        # Imported here, because few queries read an archive, and an import above would slow down every cold start.
        from tidetable.archive.wire import decode_page, encode_request

        return decode_page(self._call(encode_request(keys, limit, ascending=ascending), _READ_SECONDS))

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        """Call the function for the columns of one page."""
        from tidetable.archive.wire import decode_columns, encode_whole_request  # as above

        return decode_columns(self._call(encode_whole_request(keys), _READ_SECONDS))
