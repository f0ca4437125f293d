"""The reading half of the client for asyncio."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx

from tidetable_client.clocks import Clock
from tidetable_client.connection import Connection
from tidetable_client.errors import ApiError
from tidetable_client.frames import ArrowPages, Columns, make_arrow, make_pandas, make_polars
from tidetable_client.pages import (
    ARROW,
    BY_COLUMNS,
    Page,
    Tries,
    Walk,
    begin_frame,
    begin_walk,
    find_stopped,
    find_url,
    name_parameters,
    pair_series,
    read_answer,
    require_columns,
)
from tidetable_client.policy import Policy
from tidetable_client.tailing import Tail


class AsyncReader:
    """The routes that read. ``AsyncClient`` sets the attributes."""

    _connection: Connection
    _policy: Policy
    _clock: Clock
    _random: Callable[[], float]
    _http: httpx.AsyncClient

    def events(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read the events of a range. See ``Client.events``."""
        return self._query(stream, ("events",), "events", parameters)

    def top(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read the first events of a ranking."""
        return self._query(stream, ("top",), "top", {"limit": 10, **parameters})

    def aggregate(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read statistics per step and group."""
        return self._query(stream, ("aggregate",), "aggregates", parameters)

    def series(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read the series of a stream."""
        return self._query(stream, ("series",), "series", parameters)

    def fields(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read the fields of a stream's data."""
        return self._query(stream, ("fields",), "fields", parameters)

    def values(self, stream: str, field: str, **parameters: Any) -> AsyncQuery:
        """Read the values of a field."""
        return self._query(stream, ("fields", field, "values"), "values", parameters)

    def periods(self, stream: str, **parameters: Any) -> AsyncQuery:
        """Read the periods of a stream."""
        return self._query(stream, ("periods",), "periods", parameters)

    async def latest(
        self, stream: str, series: str | Sequence[str], *, decimals: bool = False, **parameters: Any
    ) -> dict[str, dict[str, Any] | None]:
        """Read the latest event of each series; None for a series without events in the tables."""
        names = [series] if isinstance(series, str) else list(series)
        latest: dict[str, dict[str, Any] | None] = {}
        address = self._connection.find_address(stream, "latest")
        for batch in pair_series(names):
            before: dict[str, str] = {}
            while batch:
                named = {"series": batch, **parameters, **before}
                document = await self.get(address, named, decimals=decimals)
                latest |= {row["series"]: row["event"] for row in document["latest"]}
                batch, before = find_stopped(document)
        return latest

    async def event(self, stream: str, ref: str, *, decimals: bool = False, **parameters: Any) -> dict[str, Any]:
        """Read one event by its ref."""
        address = self._connection.find_address(stream, "events", ref)
        event: dict[str, Any] = await self.get(address, parameters, decimals=decimals)
        return event

    async def streams(self) -> list[dict[str, Any]]:
        """Read every stream with its policy and its window."""
        streams: list[dict[str, Any]] = (await self.get(f"{self._connection.url}/v1/streams", {}))["streams"]
        return streams

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

    async def get(self, address: str, parameters: Mapping[str, Any], *, decimals: bool = False) -> Any:
        """Send a GET request and return the document of its answer. While the API asks for it, the request is repeated.

        ApiError if the API refuses the request, Unreachable if it does not answer in time.
        """
        response = await self._read(address, name_parameters(parameters))
        return read_answer(response.status_code, response.content, decimals=decimals)

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
        """The cursor of the first page that was not taken completely; None at the beginning and at the end."""
        return self._walk.cursor

    @property
    def is_done(self) -> bool:
        """True if every row was taken."""
        return self._walk.is_done

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async for page in self.pages():
            for row in page.rows:
                yield row

    async def explain(self) -> dict[str, Any]:
        """Describe what the query would read, with the estimated cost; no event is read."""
        parameters = [*self._walk.find_parameters(), ("explain", "true")]
        response = await self._read(self._walk.address, parameters, {})
        plan: dict[str, Any] = read_answer(response.status_code, response.content, decimals=self._decimals)
        return plan

    def pages(self) -> AsyncIterator[Page]:
        """Yield the pages, from the cursor on."""
        return self._fetch_pages({}, {})

    async def _fetch_pages(self, extra: Mapping[str, str], headers: Mapping[str, str]) -> AsyncIterator[Page]:
        while not self._walk.is_done:
            parameters = self._walk.find_parameters() + list(extra.items())
            response = await self._read(self._walk.address, parameters, headers)
            page = self._walk.read(response.status_code, response.headers, response.content, decimals=self._decimals)
            self.gaps.extend(page.gaps)
            self.read_units += page.read_units
            yield page
            self._walk.pass_page(page)

    async def _fetch_columns(self) -> list[Columns]:
        return [require_columns(page) async for page in self._fetch_pages(BY_COLUMNS, {})]

    async def _fetch_arrow(self, every_field: bool) -> ArrowPages | None:
        if every_field or self._walk.is_limited:
            return None  # a limit needs the number of rows, and an Arrow page is not decoded to count them
        streams, counts = [], Counter[str]()
        try:
            async for page in self._fetch_pages({"format": "arrow"}, {"Accept": ARROW}):
                if not page.body or page.document:
                    return None
                streams.append(page.body)
                counts += page.untyped
        except ApiError as error:
            if streams or error.code != "bad_parameter" or "format" not in error.detail:
                raise
            return None
        return ArrowPages(streams, counts) if streams else None

    async def to_arrow(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as an object with ``__arrow_c_stream__``, which every Arrow library accepts.

        If the stage answers Arrow, the fields that the stream's archive declares are columns, and the other fields are
        JSON in ``data``. With ``every_field``, with a limit, or if the stage does not answer Arrow, each field is a
        column: the answers are JSON by columns, whose numbers are converted one by one.
        """
        with begin_frame(self._walk, self.gaps):
            pages = await self._fetch_arrow(every_field)
            return make_arrow(await self._fetch_columns()) if pages is None else pages.fill()

    async def to_pandas(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as a pandas DataFrame; see ``to_arrow``."""
        with begin_frame(self._walk, self.gaps):
            return make_pandas(await self._fetch_arrow(every_field) or await self._fetch_columns())

    async def to_polars(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as a polars DataFrame; see ``to_arrow``."""
        with begin_frame(self._walk, self.gaps):
            return make_polars(await self._fetch_arrow(every_field) or await self._fetch_columns())
