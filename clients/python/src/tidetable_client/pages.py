"""Read pages for both clients: make the next request and decode an answer. This needs no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tidetable_client.answers import describe_problem, is_later, judge_later, read_document
from tidetable_client.clocks import Clock
from tidetable_client.connection import Connection, flatten
from tidetable_client.errors import ApiError, Unreachable
from tidetable_client.policy import Policy
from tidetable_client.untyped import read_counts

ARROW = "application/vnd.apache.arrow.stream"
# A request with a cursor may have these parameters. All other parameters of the query are in the cursor.
_FREE = ("format", "flat", "escape", "refs")
# Each page reads some events of each shard that the previous page also read. So few large pages cost less than many
# small pages.
PAGE_SIZE = 1000
_NAMES = {
    "start": "from", "end": "to", "series_prefix": "series:prefix", "id_prefix": "id:prefix",
}  # fmt: skip

_JOINED = ("fields", "stat", "by", "state")


def name_parameters(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Convert parameters of Python to parameters of the API.

    ``start`` and ``end`` become ``from`` and ``to``, ``series_prefix`` and ``id_prefix`` become ``series:prefix`` and
    ``id:prefix``, ``where={"mag:ge": 4.5}`` becomes ``where.mag:ge=4.5``. Lists of fields, statistics and groups are
    joined by commas.
    """
    named: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "where":
            for condition, expected in (value or {}).items():
                many = condition.endswith(":in") and not isinstance(expected, str)
                joined = ",".join(text for _, text in flatten({condition: list(expected)})) if many else expected
                named[f"where.{condition}"] = joined
        elif name in _JOINED and isinstance(value, list | tuple):
            named[name] = ",".join(value)
        else:
            named[_NAMES.get(name, name)] = value
    return flatten(named)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its ``rows``, the cursor of the ``next`` page (None at the end), and the other members of the answer.

    ``gaps`` are parts of the range that could not be read. A key with a series prefix learns neither ``sources`` nor
    ``read_units``: they are empty and 0. ``body`` is the body of the answer, unchanged. ``untyped``
    counts, per column of an answer in Arrow, the values that the column cannot hold exactly. An answer by columns has
    ``columns`` of the same length, by the paths of their fields, and no ``rows``.
    """

    rows: list[dict[str, Any]]
    next: str | None
    gaps: Sequence[Mapping[str, Any]] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    read_units: float = 0.0
    body: bytes = field(default=b"", repr=False)
    untyped: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, list[Any]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of rows. The rows of an answer in Arrow are not counted."""
        return len(next(iter(self.columns.values()), self.rows))


class Walk:
    """The requests that read a query from a cursor to its end.

    The walk can go on from ``cursor``. It moves to the next page only when all rows of a page were taken. So a program
    that stores the cursor, and goes on from it after a crash, sees some rows again and misses none.
    """

    def __init__(
        self,
        address: str,
        rows: str,
        parameters: list[tuple[str, str]],
        *,
        cursor: str | None = None,
        page_size: int = PAGE_SIZE,
        limit: int | None = None,
    ) -> None:
        self.address, self._rows, self._parameters = address, rows, parameters
        self._page_size, self._left = page_size, limit
        self.cursor = cursor
        self.is_done = limit is not None and limit < 1

    @property
    def is_limited(self) -> bool:
        """True if the walk has a limit of rows, so that rows must be counted."""
        return self._left is not None

    @property
    def position(self) -> tuple[str | None, int | None, bool]:
        """The position of the walk: its cursor, the number of rows that are left, and True if it is done."""
        return self.cursor, self._left, self.is_done

    @position.setter
    def position(self, position: tuple[str | None, int | None, bool]) -> None:
        self.cursor, self._left, self.is_done = position

    def find_parameters(self) -> list[tuple[str, str]]:
        """Find the parameters of the next request."""
        size = self._page_size if self._left is None else min(self._page_size, self._left)
        limit = ("limit", str(size))
        if self.cursor is None:
            return [*self._parameters, limit]
        free = [(name, value) for name, value in self._parameters if name in _FREE]
        return [*free, limit, ("cursor", self.cursor)]

    def read(self, status: int, headers: Mapping[str, str], body: bytes, *, decimals: bool) -> Page:
        """Decode the page of an answer; ApiError if the answer does not hold a page."""
        if status != 200:
            raise read_refusal(status, body)
        units = float(headers.get("Tidetable-Read-Units", "0") or 0)
        if headers.get("Content-Type", "").startswith(ARROW):
            count = headers.get("Tidetable-Gaps", "0")
            gaps = () if count == "0" else ({"from": None, "to": None, "reason": f"{count} gaps, which JSON names"},)
            cursor = headers.get("Tidetable-Next")
            return Page([], cursor, gaps, read_units=units, body=body, untyped=read_counts(headers))
        document = decode(body, decimals=decimals)
        rows, columns = self._find_rows(document)
        if rows is None:
            raise ApiError(status, "foreign", f"the answer is not the API's: {body[:100]!r}")
        cursor, gaps, sources = document.get("next"), document.get("gaps") or (), document.get("sources") or ()
        return Page(rows, cursor, gaps, sources, document, units, body, columns=columns)

    def _find_rows(self, document: Any) -> tuple[list[dict[str, Any]] | None, dict[str, list[Any]]]:
        """Find the rows of an answer, or its columns; None if the answer has neither."""
        if not isinstance(document, dict):
            return None, {}
        columns = document.get("columns")
        if isinstance(columns, dict) and all(isinstance(values, list) for values in columns.values()):
            return ([], columns) if len({*map(len, columns.values())}) < 2 else (None, {})
        rows = document.get(self._rows)
        return rows if isinstance(rows, list) else None, {}

    def pass_page(self, page: Page) -> None:
        """Move to the end of a page when all of its rows were taken."""
        self.cursor = page.next
        self.is_done = page.next is None
        if self._left is not None:
            self._left -= page.count
            self.is_done = self.is_done or self._left < 1


# The compact form of a page, for frames.
BY_COLUMNS = {"format": "columns"}


def require_columns(page: Page) -> Mapping[str, list[Any]]:
    """Return the columns of a page; ApiError if the stage answered rows."""
    if page.rows:
        raise ApiError(200, "foreign", f"the answer is not by columns: {page.body[:100]!r}")
    return page.columns


@contextmanager
def begin_frame(walk: Walk, gaps: list[Mapping[str, Any]]) -> Iterator[None]:
    """Read all rows of a frame or no rows: after an error, the walk and the gaps are the same as before the block."""
    position, count = walk.position, len(gaps)
    try:
        yield
    except BaseException:
        walk.position = position
        del gaps[count:]
        raise


class Tries:
    """The attempts of one request that reads.

    A method returns the seconds until the next attempt, or raises the error.
    """

    def __init__(self, policy: Policy, clock: Clock, random: Callable[[], float]) -> None:
        self._policy, self._clock, self._random = policy, clock, random
        self._began = clock.read()
        self._count = 0

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """Return the seconds before the next attempt; None if the answer is final; ApiError if no time is left for an
        attempt.
        """
        if not is_later(status):
            return None
        later = judge_later(status, headers, read_document(body), body, self._clock.read_date())
        return self._wait(later.after, lambda: read_refusal(status, body))

    def judge_silence(self, error: Exception) -> float:
        """Return the seconds before a request without an answer is repeated; Unreachable if no time is left for an
        attempt.
        """
        reason = f"no answer within {self._policy.retry_for:g} s: {type(error).__name__}: {error}"
        return self._wait(0.0, lambda: Unreachable(reason))

    def _wait(self, after: float, end: Callable[[], Exception]) -> float:
        self._count += 1
        ceiling = min(self._policy.backoff * 2.0 ** min(self._count, 30), self._policy.longest_backoff)
        wait = after + self._random() * ceiling
        if self._clock.read() + wait > self._began + self._policy.retry_for:
            raise end()
        return wait


def read_refusal(status: int, body: bytes) -> ApiError:
    """Make the error for an answer that is not 200."""
    document = read_document(body)
    return ApiError(status, str(document.get("code") or f"http_{status}"), describe_problem(document, body), document)


def read_answer(status: int, body: bytes, *, decimals: bool) -> Any:
    """Decode the document of an answer; ApiError if the API refused the request."""
    if status != 200:
        raise read_refusal(status, body)
    return decode(body, decimals=decimals)


def decode(body: bytes, *, decimals: bool) -> Any:
    """Decode JSON. With ``decimals``, numbers with a fraction become Decimal, and keep all of their digits."""
    try:
        return (_EXACT if decimals else _PLAIN).decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(200, "foreign", f"the answer is not JSON: {error}") from error


_EXACT = msgspec.json.Decoder(float_hook=Decimal)
_PLAIN = msgspec.json.Decoder()


def find_url(address: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Make the address with its query string.

    A space becomes %20: with a plus, a signature (SigV4) would not be valid.
    """
    return f"{address}?{urlencode(parameters, quote_via=quote)}" if parameters else address


def begin_walk(
    connection: Connection, stream: str, route: Sequence[str], rows: str, parameters: Mapping[str, Any]
) -> Walk:
    """Begin a walk over the pages of a stream's route; ``rows`` is the field of the answer that has the rows.

    The walk itself uses ``cursor``, ``limit`` (of the rows of all pages) and ``page_size``. The other parameters go to
    the API.
    """
    named = dict(parameters)
    own = {name: named.pop(name) for name in ("cursor", "limit", "page_size") if named.get(name) is not None}
    return Walk(connection.find_address(stream, *route), rows, name_parameters(named), **own)


def find_stopped(document: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the series whose older tables an answer of ``latest`` did not search, and the parameter that goes on."""
    names = [row["series"] for row in document["latest"] if row.get("stopped")]
    return names, {"before": document["searched_back_to"]} if names else {}


def pair_series(names: Sequence[str], size: int = 100, most_bytes: int = 6000) -> Iterator[list[str]]:
    """Divide names of series into lists that are short enough for one request.

    AWS: API Gateway takes 10,240 bytes of request line and headers. A signature and its token need some 2,000 of them.
    """
    batch: list[str] = []
    batch_bytes = 0
    for name in names:
        length = len(urlencode({"series": name}, quote_via=quote)) + 1
        if batch and (len(batch) == size or batch_bytes + length > most_bytes):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(name)
        batch_bytes += length
    if batch:
        yield batch
