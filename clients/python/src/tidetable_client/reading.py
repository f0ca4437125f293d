"""The reading half of the client: each route gives a query, and a query follows its cursors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from tidetable_client.clocks import Clock
from tidetable_client.connection import Connection
from tidetable_client.errors import ApiError
from tidetable_client.frames import ArrowPages, Columns, make_arrow, make_columns, make_pandas, make_polars
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


class Reader(ABC):
    """The routes that read. ``Client`` sets the attributes."""

    _connection: Connection
    _policy: Policy
    _clock: Clock
    _random: Callable[[], float]

    @property
    @abstractmethod
    def _http(self) -> httpx.Client:
        """The HTTP client of the present process."""

    def events(self, stream: str, **parameters: Any) -> Query:
        """Read the events of a range: ``client.events("quakes", start="-1d", where={"mag:ge": 4.5})``.

        The parameters are the API's (docs/use/api.md), but ``start`` and ``end`` stand for ``from`` and ``to``.
        ``limit`` is the limit of all rows; by default there is no limit. ``page_size`` is the limit of a page.
        ``decimals=True`` reads numbers as Decimal.
        """
        return self._query(stream, ("events",), "events", parameters)

    def top(self, stream: str, **parameters: Any) -> Query:
        """Read the first events of a ranking.

        Parameters: ``index``, ``value``, ``order``, and ``limit``, by default 10.
        """
        return self._query(stream, ("top",), "top", {"limit": 10, **parameters})

    def aggregate(self, stream: str, **parameters: Any) -> Query:
        """Read statistics.

        Parameters: ``start``, ``step="1h"``, ``stat=["count", "p95"]``, ``field="mag"``, ``by=["series"]``.
        ``tz="Europe/Berlin"`` makes days, weeks and months (``step="1mo"``) those of the zone.
        """
        return self._query(stream, ("aggregate",), "aggregates", parameters)

    def series(self, stream: str, **parameters: Any) -> Query:
        """Read the series of a stream, with the times of their first and last event."""
        return self._query(stream, ("series",), "series", parameters)

    def fields(self, stream: str, **parameters: Any) -> Query:
        """Read the fields of a stream's data, with their types."""
        return self._query(stream, ("fields",), "fields", parameters)

    def values(self, stream: str, field: str, **parameters: Any) -> Query:
        """Read the values of a field."""
        return self._query(stream, ("fields", field, "values"), "values", parameters)

    def periods(self, stream: str, **parameters: Any) -> Query:
        """Read the periods of a stream: tables and archives."""
        return self._query(stream, ("periods",), "periods", parameters)

    def latest(
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
                document = self.get(address, named, decimals=decimals)
                latest |= {row["series"]: row["event"] for row in document["latest"]}
                batch, before = find_stopped(document)
        return latest

    def event(self, stream: str, ref: str, *, decimals: bool = False, **parameters: Any) -> dict[str, Any]:
        """Read one event by its ref; ApiError with ``unknown_event`` if there is no such event."""
        address = self._connection.find_address(stream, "events", ref)
        event: dict[str, Any] = self.get(address, parameters, decimals=decimals)
        return event

    def streams(self) -> list[dict[str, Any]]:
        """Read every stream with its policy and its window."""
        streams: list[dict[str, Any]] = self.get(f"{self._connection.url}/v1/streams", {})["streams"]
        return streams

    def tail(
        self, stream: str, *, overlap: float = 60.0, interval: float = 2.0, **parameters: Any
    ) -> Iterator[dict[str, Any]]:
        """Follow a stream for ever: yield each event once, in order of time within a reading.

        A reading is one query. The next reading begins ``interval`` seconds later. The range of a reading begins
        ``overlap`` seconds before the start of the previous reading. So an event that arrives up to ``overlap`` seconds
        after its time is not missed. Events that arrive later are not seen.
        """
        tail = Tail(overlap)
        while True:
            now = self._clock.read()
            query = self.events(stream, start=tail.find_start(now), order="asc", **parameters)
            yield from tail.pass_reading(now, query)
            self._clock.sleep(interval)

    def get(self, address: str, parameters: Mapping[str, Any], *, decimals: bool = False) -> Any:
        """Send a GET request and return the document of its answer. While the API asks for it, the request is repeated.

        ApiError if the API refuses the request, Unreachable if it does not answer in time.
        """
        response = self._read(address, name_parameters(parameters))
        return read_answer(response.status_code, response.content, decimals=decimals)

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
    """A query that is read page by page as a program iterates: ``for event in client.events("quakes", start="-1d")``.

    The query can go on later from its ``cursor``: ``client.events("quakes", cursor=...)``. The cursor moves when all
    rows of a page were taken. So after an interruption no row is missed, and less than a page is read again. ``gaps`` are
    the parts of the range that could not be read, ``read_units`` the read units that the pages cost.
    """

    def __init__(self, read: Callable[..., httpx.Response], walk: Walk, *, decimals: bool) -> None:
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

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for page in self.pages():
            yield from page.rows

    def explain(self) -> dict[str, Any]:
        """Describe what the query would read, with the estimated cost; no event is read."""
        parameters = [*self._walk.find_parameters(), ("explain", "true")]
        response = self._read(self._walk.address, parameters, {})
        plan: dict[str, Any] = read_answer(response.status_code, response.content, decimals=self._decimals)
        return plan

    def pages(self) -> Iterator[Page]:
        """Yield the pages, from the cursor on."""
        return self._fetch_pages({}, {})

    def _fetch_pages(self, extra: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Page]:
        while not self._walk.is_done:
            parameters = self._walk.find_parameters() + list(extra.items())
            response = self._read(self._walk.address, parameters, headers)
            page = self._walk.read(response.status_code, response.headers, response.content, decimals=self._decimals)
            self.gaps.extend(page.gaps)
            self.read_units += page.read_units
            yield page
            self._walk.pass_page(page)

    def _fetch_columns(self) -> Iterator[Columns]:
        for page in self._fetch_pages(BY_COLUMNS, {}):
            yield require_columns(page)

    def _fetch_arrow(self, every_field: bool) -> ArrowPages | None:
        """Fetch the rest of the query as Arrow; None if the stage does not know the format: then the cursor has not
        moved.
        """
        if every_field or self._walk.is_limited:
            return None  # a limit needs the number of rows, and an Arrow page is not decoded to count them
        streams, counts = [], Counter[str]()
        try:
            for page in self._fetch_pages({"format": "arrow"}, {"Accept": ARROW}):
                if not page.body or page.document:
                    return None
                streams.append(page.body)
                counts += page.untyped
        except ApiError as error:
            if streams or error.code != "bad_parameter" or "format" not in error.detail:
                raise
            return None
        return ArrowPages(streams, counts) if streams else None

    def to_arrow(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as an object with ``__arrow_c_stream__``, which every Arrow library accepts.

        If the stage answers Arrow, the fields that the stream's archive declares are columns, and the other fields are
        JSON in ``data``. With ``every_field``, with a limit, or if the stage does not answer Arrow, each field is a
        column: the answers are JSON by columns, whose numbers are converted one by one.
        """
        with begin_frame(self._walk, self.gaps):
            pages = self._fetch_arrow(every_field)
            return make_arrow(self._fetch_columns()) if pages is None else pages.fill()

    def to_pandas(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as a pandas DataFrame; see ``to_arrow``."""
        with begin_frame(self._walk, self.gaps):
            return make_pandas(self._fetch_arrow(every_field) or self._fetch_columns())

    def to_polars(self, *, every_field: bool = False) -> Any:
        """Return the rest of the query as a polars DataFrame; see ``to_arrow``."""
        with begin_frame(self._walk, self.gaps):
            return make_polars(self._fetch_arrow(every_field) or self._fetch_columns())

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rest of the query as columns: lists of values by field. This needs no other library."""
        with begin_frame(self._walk, self.gaps):
            return make_columns(self._fetch_columns())
