"""The client: writes in the background, and reads pages."""

from __future__ import annotations

import os
import random as lots
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from tidetable_client import leaving
from tidetable_client.answers import Verdict
from tidetable_client.clocks import Clock
from tidetable_client.connection import TIMEOUT, Connection, judge_response
from tidetable_client.errors import ApiError, WriteFailed
from tidetable_client.frames import ArrowPages, make_arrow, make_columns, make_pandas, make_polars
from tidetable_client.outbox import Batch
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
from tidetable_client.writing import OnRefused, OnSettled, Writer


class Client:
    """A connection to a stage. Safe for threads; a process that forks gets an empty buffer in the child.

    url, key
        The output ApiUrl, and an API key. ``bearer`` sends it as ``Authorization: Bearer`` and not as ``x-api-key``.
    sigv4, region
        Signs requests with the AWS credentials of the environment (extra ``sigv4``), for ``auth = "iam"``.
    policy
        How events are collected, sent and repeated: see ``Policy``.
    background
        With False no thread is started: requests are sent within ``write`` and ``flush``. For AWS Lambda.
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
            Stamper(unique_ids=unique_ids),
            self._send,
            clock=self._clock,
            random=random,
            background=background,
            on_refused=on_refused,
            on_settled=on_settled,
        )

    def _open(self) -> None:
        self._process = os.getpid()
        self._http = httpx.Client(
            headers=dict(self._connection.headers),
            auth=self._connection.auth,
            timeout=self._timeout,
            transport=self._transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # The error of the block is what its caller must see; the lost events are added to it.
        try:
            self.close(self._policy.exit_timeout)
        except WriteFailed as failed:
            error.add_note(f"tidetable_client: {failed}")
            leaving.logger.error("leaving the block after an error: %s", failed)

    # Writing

    def write(self, stream: str, events: Mapping[str, Any] | Iterable[Any]) -> int:
        """Take one event, or an iterable of events; the number of events.

        An event has ``series``, ``data``, and optionally ``time`` (datetime with offset, RFC 3339, or epoch milliseconds) and
        ``id``. It is in the buffer when this returns, and acknowledged when ``flush`` returns.

        EventInvalid for an event that cannot be sent; the events before it are taken. BufferFull as the policy
        says, with ``taken``. WriteFailed if the buffer is full of failures that ``flush`` has not raised.
        """
        return self._writer.write(stream, [events] if isinstance(events, Mapping) else events)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every event is acknowledged. WriteFailed has all that are not; NotFlushed if the time is over."""
        self._writer.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end. What the API does not take within ``timeout`` seconds is in WriteFailed, as ``unsent``."""
        try:
            self._writer.close(timeout)
        finally:
            self._http.close()

    @property
    def pending(self) -> int:
        """Events that are neither acknowledged nor reported."""
        return self._writer.pending

    def _send(self, batch: Batch) -> Verdict:
        if self._process != os.getpid():  # two processes must not share a connection
            self._open()
        response = self._http.request(**self._connection.describe_batch(batch))
        return judge_response(response, batch, self._clock.read_date())

    # Reading

    def events(self, stream: str, **parameters: Any) -> Query:
        """The events of a range. ``client.events("quakes", start="-1d", where={"mag:ge": 4.5})``.

        Parameters are those of the API (docs/use/api.md). ``start`` and ``end`` stand for ``from`` and ``to``; ``limit``
        is that of all rows, by default none, and ``page_size`` that of a page; ``decimals=True`` reads numbers as Decimal.
        """
        return self._query(stream, ("events",), "events", parameters)

    def top(self, stream: str, **parameters: Any) -> Query:
        """The first events of a ranking: ``index``, ``value``, ``order``, and ``limit``, by default 10."""
        return self._query(stream, ("top",), "top", {"limit": 10, **parameters})

    def aggregate(self, stream: str, **parameters: Any) -> Query:
        """Statistics: ``start``, ``step="1h"``, ``stat=["count", "p95"]``, ``field="mag"``, ``by=["series"]``."""
        return self._query(stream, ("aggregate",), "aggregates", parameters)

    def series(self, stream: str, **parameters: Any) -> Query:
        """The series of a stream, with the times of their first and last event."""
        return self._query(stream, ("series",), "series", parameters)

    def fields(self, stream: str, **parameters: Any) -> Query:
        """The fields of a stream's data, with their types."""
        return self._query(stream, ("fields",), "fields", parameters)

    def values(self, stream: str, field: str, **parameters: Any) -> Query:
        """The values of a field."""
        return self._query(stream, ("fields", field, "values"), "values", parameters)

    def periods(self, stream: str, **parameters: Any) -> Query:
        """The periods of a stream: tables and archives."""
        return self._query(stream, ("periods",), "periods", parameters)

    def latest(self, stream: str, series: str | Sequence[str], **parameters: Any) -> dict[str, dict[str, Any] | None]:
        """The latest event of each series; None where the tables have none."""
        names = [series] if isinstance(series, str) else list(series)
        found: dict[str, dict[str, Any] | None] = {}
        for some in pair_series(names):
            document = self.get(self._connection.find_address(stream, "latest"), {"series": some, **parameters})
            found |= {row["series"]: row["event"] for row in document["latest"]}
        return found

    def event(self, stream: str, ref: str, **parameters: Any) -> dict[str, Any]:
        """One event by its ref; ApiError with ``unknown_event`` if it is not there."""
        found: dict[str, Any] = self.get(self._connection.find_address(stream, "events", ref), parameters)
        return found

    def streams(self) -> list[dict[str, Any]]:
        """Every stream with its policy and its window."""
        found: list[dict[str, Any]] = self.get(f"{self._connection.url}/v1/streams", {})["streams"]
        return found

    def tail(
        self, stream: str, *, overlap: float = 60.0, interval: float = 2.0, **parameters: Any
    ) -> Iterator[dict[str, Any]]:
        """Follow a stream for ever: each event once, in order of time within a reading.

        Each reading begins ``overlap`` seconds before the one before it began, so an event that arrives up to so much
        later than its time is not missed. Events that arrive even later are not seen.
        """
        tail = Tail(overlap)
        while True:
            now = self._clock.read()
            query = self.events(stream, start=tail.find_start(now), order="asc", **parameters)
            yield from tail.pass_reading(now, query)
            self._clock.sleep(interval)

    def get(self, address: str, parameters: Mapping[str, Any]) -> Any:
        """The document of a GET request, repeated while the API says so. ApiError, Unreachable."""
        response = self._read(address, name_parameters(parameters))
        if response.status_code != 200:
            raise refusal_of(response.status_code, response.content)
        return response.json()

    def _query(self, stream: str, route: Sequence[str], rows: str, parameters: Mapping[str, Any]) -> Query:
        named = dict(parameters)
        decimals = named.pop("decimals", False)
        return Query(self._read, begin_walk(self._connection, stream, route, rows, named), decimals=decimals)

    def _read(
        self, address: str, parameters: list[tuple[str, str]], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        tries = Tries(self._policy, self._clock, self._random)
        while True:
            try:
                response = self._http.get(find_url(address, parameters), headers=headers)
            except (httpx.TransportError, httpx.DecodingError) as error:
                wait: float | None = tries.judge_silence(error)
            else:
                wait = tries.judge(response.status_code, response.headers, response.content)
                if wait is None:
                    return response
            self._clock.sleep(wait or 0.0)


class Query:
    """A query that is read as it is iterated: ``for event in client.events("quakes", start="-1d")``.

    ``cursor`` is where it can go on later: ``client.events("quakes", cursor=...)``. It moves when all rows of a page
    were taken, so nothing is missed after an interruption, and less than a page is read again. ``gaps`` are the parts of
    the range that no page could read, ``read_units`` what the pages cost.
    """

    def __init__(self, read: Callable[..., httpx.Response], walk: Walk, *, decimals: bool) -> None:
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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for page in self.pages():
            yield from page.rows

    def pages(self) -> Iterator[Page]:
        """The pages, from the cursor on."""
        return self._pages({}, {})

    def _pages(self, extra: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Page]:
        while not self._walk.is_done:
            parameters = self._walk.find_parameters() + list(extra.items())
            response = self._read(self._walk.address, parameters, headers)
            page = self._walk.read(response.status_code, response.headers, response.content, decimals=self._decimals)
            self.gaps.extend(page.gaps)
            self.read_units += page.read_units
            yield page
            self._walk.pass_page(page)

    def _rows(self) -> Iterator[dict[str, Any]]:
        for page in self._pages({"flat": "true"}, {}):
            yield from page.rows

    def _arrow(self) -> ArrowPages | None:
        """The rest of the query as Arrow; None, with nothing read, if the stage does not know the format."""
        if self._walk.is_limited:
            return None  # the rows of a page of Arrow would have to be counted
        streams = []
        try:
            for page in self._pages({"format": "arrow"}, {"Accept": ARROW}):
                if not page.body or page.rows:
                    return None
                streams.append(page.body)
        except ApiError as error:
            if streams or error.code != "bad_parameter" or "format" not in error.detail:
                raise
            return None
        return ArrowPages(streams) if streams else None

    def to_arrow(self) -> Any:
        """The rest of the query as an object with ``__arrow_c_stream__``, which every Arrow library takes."""
        return self._arrow() or make_arrow(self._rows())

    def to_pandas(self) -> Any:
        """The rest of the query as a pandas DataFrame."""
        return make_pandas(self._arrow() or self._rows())

    def to_polars(self) -> Any:
        """The rest of the query as a polars DataFrame."""
        return make_polars(self._arrow() or self._rows())

    def to_columns(self) -> dict[str, list[Any]]:
        """The rest of the query as columns of flat rows, without any library."""
        return make_columns(self._rows())
