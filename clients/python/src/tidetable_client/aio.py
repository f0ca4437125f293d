"""The client for asyncio: the same outbox, driven by tasks."""

from __future__ import annotations

import asyncio
import random as lots
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from tidetable_client import leaving
from tidetable_client.answers import Verdict
from tidetable_client.clocks import Clock
from tidetable_client.connection import TIMEOUT, Connection, judge_error, judge_response
from tidetable_client.errors import ApiError, BufferFull, Failure, NotFlushed, WriteFailed
from tidetable_client.frames import ArrowPages, make_arrow, make_pandas, make_polars
from tidetable_client.outbox import Outbox, Settled
from tidetable_client.pages import (
    ARROW,
    Page,
    Tries,
    Walk,
    begin_walk,
    find_url,
    name_parameters,
    pair_series,
    refusal_of,
)
from tidetable_client.policy import Policy
from tidetable_client.stamps import Stamper
from tidetable_client.tailing import Tail
from tidetable_client.writing import OnRefused, OnSettled


class AsyncClient:
    """``Client`` for asyncio: the same parameters, the same promises; ``write``, ``flush`` and ``close`` are awaited."""

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
        self._stamper = Stamper(unique_ids=unique_ids)
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
        """Take one event, or an iterable of events; the number of events. See ``Client.write``."""
        taken = 0
        if isinstance(events, AsyncIterable):
            async for event in events:
                await self._put(stream, event, taken)
                taken += 1
        else:
            for event in [events] if isinstance(events, Mapping) else events:
                await self._put(stream, event, taken)
                taken += 1
        return taken

    async def _put(self, stream: str, event: Any, taken: int) -> None:
        line = self._stamper.encode(event, self._clock.read_date())
        if self._closed:
            raise ValueError("the client is closed")
        if not self._outbox.has_room(line):
            await self._make_room(line, taken)
        if self._outbox.add(stream, line, self._clock.read()):
            leaving.remember(self)
            if len(self._tasks) < self._policy.in_flight:
                self._tasks.append(asyncio.create_task(self._work()))
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
                size = f"{self._policy.buffer_bytes:,} bytes"
                raise BufferFull(taken, f"the buffer of {size} is full: {taken:,} events of this call are taken")
            self._outbox.close_batches(self._clock.read())
            await self._wait(left)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every event is acknowledged. WriteFailed has all that are not; NotFlushed if the time is over."""
        began = self._clock.read()
        self._outbox.close_batches(began)
        self._changed.set()
        while not self._outbox.is_idle:
            left = None if timeout is None else began + timeout - self._clock.read()
            if left is not None and left <= 0:
                raise NotFlushed(self._outbox.pending)
            await self._wait(left)
        failures = self._outbox.collect_failures()
        if failures:
            raise WriteFailed(failures)

    async def close(self, timeout: float | None = None) -> None:
        """Flush, and end. What the API does not take within ``timeout`` seconds is in WriteFailed, as ``unsent``."""
        try:
            await self.flush(timeout)
        except NotFlushed:
            self._abandon(f"the client was closed, and the API did not take it within {timeout:g} s; it may be stored")
            failures = self._outbox.collect_failures()  # none if on_refused took them
            if failures:
                raise WriteFailed(failures) from None
        except BaseException as error:
            if not isinstance(error, WriteFailed):  # such as a cancelled task
                self._abandon(f"the client was closed by {type(error).__name__}; it may be stored")
                leaving.report_loss(self._outbox.collect_failures())
            raise
        finally:
            self._closed = True
            leaving.forget(self)
            for task in self._tasks:
                task.cancel()
            await self._http.aclose()

    def leave(self) -> Sequence[Failure]:
        """Send at the end of the process what no loop sends any more; the events that are lost."""
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
                self._report(self._outbox.settle(batch, verdict, self._clock.read()))
        self._abandon("the process ended; it may be stored")
        return self._outbox.collect_failures()

    @property
    def pending(self) -> int:
        """Events that are neither acknowledged nor reported."""
        return self._outbox.pending

    async def _wait(self, seconds: float | None) -> None:
        """Wait until anything changes. Each waiter looks again, and waits anew."""
        self._changed.clear()
        await self._clock.wait_for(self._changed, seconds)

    async def _work(self) -> None:
        """The life of a task that sends."""
        while True:
            batch = self._outbox.take(self._clock.read())
            if batch is None:
                await self._wait(self._outbox.find_wait(self._clock.read()))
                continue
            verdict: Verdict
            try:
                response = await self._http.request(**self._connection.describe_batch(batch))
                verdict = judge_response(response, batch, self._clock.read_date())
            except Exception as error:
                verdict = judge_error(error)
            self._report(self._outbox.settle(batch, verdict, self._clock.read()))
            self._changed.set()

    def _report(self, settled: Iterable[Settled]) -> None:
        for one in settled:
            kept = list(one.failures)
            try:
                if self._on_settled is not None:
                    self._on_settled(one)
                while self._on_refused is not None and kept:
                    self._on_refused(kept[0])
                    kept.pop(0)
            except Exception:
                leaving.logger.exception("a callback failed; flush will raise the failures that it did not take")
            self._outbox.keep(kept)

    def _abandon(self, reason: str) -> None:
        self._report(self._outbox.abandon(reason))

    # Reading

    def events(self, stream: str, **parameters: Any) -> AsyncQuery:
        """The events of a range. See ``Client.events``."""
        return self._query(stream, ("events",), "events", parameters)

    def top(self, stream: str, **parameters: Any) -> AsyncQuery:
        """The first events of a ranking."""
        return self._query(stream, ("top",), "top", {"limit": 10, **parameters})

    def aggregate(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Statistics per step and group."""
        return self._query(stream, ("aggregate",), "aggregates", parameters)

    def series(self, stream: str, **parameters: Any) -> AsyncQuery:
        """The series of a stream."""
        return self._query(stream, ("series",), "series", parameters)

    def fields(self, stream: str, **parameters: Any) -> AsyncQuery:
        """The fields of a stream's data."""
        return self._query(stream, ("fields",), "fields", parameters)

    def values(self, stream: str, field: str, **parameters: Any) -> AsyncQuery:
        """The values of a field."""
        return self._query(stream, ("fields", field, "values"), "values", parameters)

    def periods(self, stream: str, **parameters: Any) -> AsyncQuery:
        """The periods of a stream."""
        return self._query(stream, ("periods",), "periods", parameters)

    async def latest(
        self, stream: str, series: str | Sequence[str], **parameters: Any
    ) -> dict[str, dict[str, Any] | None]:
        """The latest event of each series; None where the tables have none."""
        names = [series] if isinstance(series, str) else list(series)
        found: dict[str, dict[str, Any] | None] = {}
        for some in pair_series(names):
            document = await self.get(self._connection.find_address(stream, "latest"), {"series": some, **parameters})
            found |= {row["series"]: row["event"] for row in document["latest"]}
        return found

    async def event(self, stream: str, ref: str, **parameters: Any) -> dict[str, Any]:
        """One event by its ref."""
        found: dict[str, Any] = await self.get(self._connection.find_address(stream, "events", ref), parameters)
        return found

    async def streams(self) -> list[dict[str, Any]]:
        """Every stream with its policy and its window."""
        found: list[dict[str, Any]] = (await self.get(f"{self._connection.url}/v1/streams", {}))["streams"]
        return found

    async def tail(
        self, stream: str, *, overlap: float = 60.0, interval: float = 2.0, **parameters: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Follow a stream for ever. See ``Client.tail``."""
        tail = Tail(overlap)
        while True:
            now = self._clock.read()
            query = self.events(stream, start=tail.find_start(now), order="asc", **parameters)
            for event in tail.pass_reading(now, [event async for event in query]):
                yield event
            await self._clock.sleep_async(interval)

    async def get(self, address: str, parameters: Mapping[str, Any]) -> Any:
        """The document of a GET request, repeated while the API says so. ApiError, Unreachable."""
        response = await self._read(address, name_parameters(parameters))
        if response.status_code != 200:
            raise refusal_of(response.status_code, response.content)
        return response.json()

    def _query(self, stream: str, route: Sequence[str], rows: str, parameters: Mapping[str, Any]) -> AsyncQuery:
        named = dict(parameters)
        decimals = named.pop("decimals", False)
        return AsyncQuery(self._read, begin_walk(self._connection, stream, route, rows, named), decimals=decimals)

    async def _read(
        self, address: str, parameters: list[tuple[str, str]], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        tries = Tries(self._policy, self._clock, self._random)
        while True:
            try:
                response = await self._http.get(find_url(address, parameters), headers=headers)
            except (httpx.TransportError, httpx.DecodingError) as error:
                wait: float | None = tries.judge_silence(error)
            else:
                wait = tries.judge(response.status_code, response.headers, response.content)
                if wait is None:
                    return response
            await self._clock.sleep_async(wait or 0.0)


class AsyncQuery:
    """``Query`` for asyncio: ``async for event in client.events("quakes", start="-1d")``."""

    def __init__(self, read: Callable[..., Any], walk: Walk, *, decimals: bool) -> None:
        self._read, self._walk, self._decimals = read, walk, decimals
        self.gaps: list[Mapping[str, Any]] = []
        self.read_units = 0.0

    @property
    def cursor(self) -> str | None:
        """The cursor from which the rows that were not taken can be read; None at the beginning and at the end."""
        return self._walk.cursor

    @property
    def is_done(self) -> bool:
        """Whether every row was taken."""
        return self._walk.is_done

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async for page in self.pages():
            for row in page.rows:
                yield row

    def pages(self) -> AsyncIterator[Page]:
        """The pages, from the cursor on."""
        return self._pages({}, {})

    async def _pages(self, extra: Mapping[str, str], headers: Mapping[str, str]) -> AsyncIterator[Page]:
        while not self._walk.is_done:
            parameters = self._walk.find_parameters() + list(extra.items())
            response = await self._read(self._walk.address, parameters, headers)
            page = self._walk.read(response.status_code, response.headers, response.content, decimals=self._decimals)
            self.gaps.extend(page.gaps)
            self.read_units += page.read_units
            yield page
            self._walk.pass_page(page)

    async def _rows(self) -> list[dict[str, Any]]:
        return [row async for page in self._pages({"flat": "true"}, {}) for row in page.rows]

    async def _arrow(self) -> ArrowPages | None:
        if self._walk.is_limited:
            return None  # the rows of a page of Arrow would have to be counted
        streams = []
        try:
            async for page in self._pages({"format": "arrow"}, {"Accept": ARROW}):
                if not page.body or page.rows:
                    return None
                streams.append(page.body)
        except ApiError as error:
            if streams or error.code != "bad_parameter" or "format" not in error.detail:
                raise
            return None
        return ArrowPages(streams) if streams else None

    async def to_arrow(self) -> Any:
        """The rest of the query as an object with ``__arrow_c_stream__``, which every Arrow library takes."""
        return await self._arrow() or make_arrow(await self._rows())

    async def to_pandas(self) -> Any:
        """The rest of the query as a pandas DataFrame."""
        return make_pandas(await self._arrow() or await self._rows())

    async def to_polars(self) -> Any:
        """The rest of the query as a polars DataFrame."""
        return make_polars(await self._arrow() or await self._rows())
