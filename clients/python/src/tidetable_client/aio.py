"""The client for asyncio. It uses the same outbox as ``Client``, but tasks send the requests."""

from __future__ import annotations

import asyncio
import os
import random as lots
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from tidetable_client import leaving
from tidetable_client.aio_reading import AsyncReader
from tidetable_client.answers import Verdict
from tidetable_client.clocks import Clock
from tidetable_client.connection import TIMEOUT, Connection, judge_error, judge_response
from tidetable_client.errors import Failure, NotFlushed, WriteFailed
from tidetable_client.outbox import Outbox, Settled
from tidetable_client.policy import Policy, refuse_full
from tidetable_client.stamps import Stamper
from tidetable_client.writing import OnRefused, OnSettled


class AsyncClient(AsyncReader):
    """``Client`` for asyncio: the same parameters and promises, but ``write``, ``flush`` and ``close`` are awaited."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        bearer: bool = False,
        sigv4: bool = False,
        region: str | None = None,
        policy: Policy | None = None,
        on_refused: OnRefused | None = None,
        on_settled: OnSettled | None = None,
        unique_ids: bool = False,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        random: Callable[[], float] = lots.random,
    ) -> None:
        self._connection = Connection.of(url, key, bearer=bearer, sigv4=sigv4, region=region)
        self._policy, self._clock, self._random = policy or Policy(), clock or Clock(), random
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            headers=dict(self._connection.headers), auth=self._connection.auth, timeout=timeout, transport=transport
        )
        self._on_refused, self._on_settled = on_refused, on_settled
        self._stamper = Stamper(unique_ids=unique_ids, read_process=os.getpid)
        self._outbox = Outbox(self._policy, random)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(self._policy.exit_timeout)
        except WriteFailed as failed:
            error.add_note(f"tidetable_client: {failed}")
            leaving.logger.error("leaving the block after an error: %s", failed)

    # Writing

    async def write(self, stream: str, events: Mapping[str, Any] | Iterable[Any] | AsyncIterable[Any]) -> int:
        """Take one event, or an iterable of events; return the number of events. See ``Client.write``."""
        count = 0
        if isinstance(events, AsyncIterable):
            async for event in events:
                await self._put_event(stream, event, count)
                count += 1
        else:
            for event in [events] if isinstance(events, Mapping) else events:
                await self._put_event(stream, event, count)
                count += 1
        return count

    async def _put_event(self, stream: str, event: Any, taken: int) -> None:
        line = self._stamper.encode(event, self._clock.read_date())
        if self._closed:
            raise ValueError("the client is closed")
        if not self._outbox.has_room(line):
            await self._make_room(line, taken)
        if self._outbox.add(stream, line, self._clock.read()):
            leaving.remember(self)
            if len(self._tasks) < self._policy.in_flight:
                self._tasks.append(asyncio.create_task(self._send_batches()))
            self._changed.set()

    async def _make_room(self, line: bytes, taken: int) -> None:
        began = self._clock.read()
        while not self._outbox.has_room(line):
            if self._outbox.failures and self._outbox.is_idle:
                raise WriteFailed(self._outbox.collect_failures(), taken)
            left = None
            if self._policy.block_for is not None:
                left = began + self._policy.block_for - self._clock.read()
            if self._policy.when_full == "raise" or (left is not None and left <= 0):
                raise refuse_full(self._policy, taken)
            self._outbox.close_batches(self._clock.read())
            await self._wait_for_change(left)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every event is acknowledged.

        WriteFailed has all events that the API did not acknowledge; NotFlushed if ``timeout`` seconds are over.
        """
        began = self._clock.read()
        self._outbox.close_batches(began)
        self._changed.set()
        while not self._outbox.is_idle:
            left = None if timeout is None else began + timeout - self._clock.read()
            if left is not None and left <= 0:
                raise NotFlushed(self._outbox.pending)
            await self._wait_for_change(left)
        failures = self._outbox.collect_failures()
        if failures:
            raise WriteFailed(failures)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, and end.

        WriteFailed has, as ``unsent``, the events that the API did not take within ``timeout`` seconds.
        """
        try:
            await self.flush(timeout)
        except NotFlushed:
            self._abandon_events(
                f"the client was closed, and the API did not take it within {timeout:g} s; it may be stored"
            )
            failures = self._outbox.collect_failures()  # empty if on_refused took them
            if failures:
                raise WriteFailed(failures) from None
        except BaseException as error:
            if not isinstance(error, WriteFailed):  # for example because the task was cancelled
                self._abandon_events(f"the client was closed by {type(error).__name__}; it may be stored")
                leaving.report_loss(self._outbox.collect_failures())
            raise
        finally:
            self._closed = True
            leaving.forget(self)
            for task in self._tasks:
                task.cancel()
            await self._http.aclose()

    def leave(self) -> Sequence[Failure]:
        """Send, at the end of the process, the events that no event loop will send any more; return the lost events."""
        with httpx.Client(
            headers=dict(self._connection.headers), auth=self._connection.auth, timeout=self._timeout
        ) as http:
            self._outbox.release_flying()
            self._outbox.close_batches(self._clock.read())
            end = self._clock.read() + self._policy.exit_timeout
            while not self._outbox.is_idle and (now := self._clock.read()) < end:
                batch, wait = self._outbox.take(now), self._outbox.find_wait(now)
                if batch is None:
                    self._clock.sleep(min(wait or 0.0, end - now))
                    continue
                try:
                    response = http.request(**self._connection.describe_batch(batch))
                    verdict = judge_response(response, batch, self._clock.read_date())
                except Exception as error:
                    verdict = judge_error(error)
                self._report_settled(self._outbox.settle(batch, verdict, self._clock.read()))
        self._abandon_events("the process ended; it may be stored")
        return self._outbox.collect_failures()

    @property
    def pending(self) -> int:
        """Events that are neither acknowledged nor reported."""
        return self._outbox.pending

    async def _wait_for_change(self, seconds: float | None) -> None:
        """Wait until the state changes. Then each waiting task checks its own condition, and may wait again."""
        self._changed.clear()
        await self._clock.wait_for(self._changed, seconds)

    async def _send_batches(self) -> None:
        """Send requests for ever: a task runs this."""
        while True:
            batch = self._outbox.take(self._clock.read())
            if batch is None:
                await self._wait_for_change(self._outbox.find_wait(self._clock.read()))
                continue
            verdict: Verdict
            try:
                response = await self._http.request(**self._connection.describe_batch(batch))
                verdict = judge_response(response, batch, self._clock.read_date())
            except Exception as error:
                verdict = judge_error(error)
            self._report_settled(self._outbox.settle(batch, verdict, self._clock.read()))
            self._changed.set()

    def _report_settled(self, settled: Iterable[Settled]) -> None:
        for event in settled:
            kept = list(event.failures)
            try:
                if self._on_settled is not None:
                    self._on_settled(event)
                while self._on_refused is not None and kept:
                    self._on_refused(kept[0])
                    kept.pop(0)
            except Exception:
                leaving.logger.exception("a callback failed; flush will raise the failures that it did not take")
            self._outbox.keep(kept)

    def _abandon_events(self, reason: str) -> None:
        self._report_settled(self._outbox.abandon(reason))
