"""The client: it writes in the background, and reads pages."""

from __future__ import annotations

import os
import random as lots
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from tidetable_client import leaving
from tidetable_client.answers import Verdict
from tidetable_client.clocks import Clock
from tidetable_client.connection import TIMEOUT, Connection, judge_response
from tidetable_client.errors import WriteFailed
from tidetable_client.outbox import Batch
from tidetable_client.policy import Policy
from tidetable_client.reading import Reader
from tidetable_client.stamps import Stamper
from tidetable_client.writing import OnRefused, OnSettled, Writer


class Client(Reader):
    """A connection to a stage. Safe for threads; a child process gets an empty buffer and its own connections.

    url, key
        The output ApiUrl, and an API key. ``bearer`` sends it as ``Authorization: Bearer`` and not as ``x-api-key``.
    sigv4, region
        Signs requests with the AWS credentials of the environment (extra ``sigv4``), for ``auth = "iam"``.
    policy
        How events are collected, sent and repeated: see ``Policy``.
    background
        With False the client starts no thread, and sends requests within ``write`` and ``flush``. For AWS Lambda.
    on_refused
        Called with each ``Failure``. Without it, ``flush`` and leaving the ``with`` block raise WriteFailed. It runs
        in the thread that sends, so it must not wait for the client.
    on_settled
        Called with the indexes of events that are settled: acknowledged, or among the failures.
    unique_ids
        Stamps every event that has no id. By default only events without a time get an id; see ``Stamper``.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        bearer: bool = False,
        sigv4: bool = False,
        region: str | None = None,
        policy: Policy | None = None,
        background: bool = True,
        on_refused: OnRefused | None = None,
        on_settled: OnSettled | None = None,
        unique_ids: bool = False,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] = lots.random,
    ) -> None:
        self._connection = Connection.of(url, key, bearer=bearer, sigv4=sigv4, region=region)
        self._policy, self._clock, self._random = policy or Policy(), clock or Clock(), random
        self._timeout, self._transport = timeout, transport
        self._open()
        self._writer = Writer(
            self._policy,
            Stamper(unique_ids=unique_ids, read_process=os.getpid),
            self._send,
            clock=self._clock,
            random=random,
            background=background,
            on_refused=on_refused,
            on_settled=on_settled,
        )

    def _open(self) -> None:
        self._opened = httpx.Client(
            headers=dict(self._connection.headers),
            auth=self._connection.auth,
            timeout=self._timeout,
            transport=self._transport,
        )
        # This is set last. When another thread of a child process reads the child's number here, ``_opened`` must
        # already be the child's own client, not the parent's.
        self._process = os.getpid()

    @property
    def _http(self) -> httpx.Client:
        """The HTTP client of this process: two processes must not share a connection."""
        if self._process != os.getpid():
            self._open()
        return self._opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The caller of the block must see the block's error. The lost events are added to that error as a note.
        try:
            self.close(self._policy.exit_timeout)
        except WriteFailed as failed:
            error.add_note(f"tidetable_client: {failed}")
            leaving.logger.error("leaving the block after an error: %s", failed)

    # Writing

    def write(self, stream: str, events: Mapping[str, Any] | Iterable[Any]) -> int:
        """Take one event, or an iterable of events; return the number of events.

        An event has ``series``, ``data``, and optionally ``time`` (datetime with offset, RFC 3339, or epoch milliseconds) and
        ``id``. It is in the buffer when ``write`` returns, and acknowledged when ``flush`` returns.

        EventInvalid for an event that cannot be sent; the events before it are in the buffer. BufferFull, with
        ``taken``, as the policy's ``when_full`` says. WriteFailed if the buffer is full of failures that ``flush`` has
        not raised.
        """
        return self._writer.write(stream, [events] if isinstance(events, Mapping) else events)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every event is acknowledged.

        WriteFailed has all events that the API did not acknowledge; NotFlushed if ``timeout`` seconds are over.
        """
        self._writer.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end.

        WriteFailed has, as ``unsent``, the events that the API did not take within ``timeout`` seconds.
        """
        try:
            self._writer.close(timeout)
        finally:
            self._http.close()

    @property
    def pending(self) -> int:
        """Events that are neither acknowledged nor reported."""
        return self._writer.pending

    def _send(self, batch: Batch) -> Verdict:
        response = self._http.request(**self._connection.describe_batch(batch))
        return judge_response(response, batch, self._clock.read_date())
