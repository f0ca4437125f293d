"""The reading of pages: which request comes next, and what an answer holds. Pure, for both clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

ARROW = "application/vnd.apache.arrow.stream"
# Beside a cursor these are free for every page; all else is in the cursor.
_FREE = ("format", "flat", "escape")
# Every page reads some events of every shard again: few large pages cost less than many small ones.
PAGE_SIZE = 1000
_NAMES = {
    "start": "from", "end": "to", "series_prefix": "series:prefix", "id_prefix": "id:prefix",
}  # fmt: skip

_JOINED = ("fields", "stat", "by", "state")


def name_parameters(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The API's parameters for those of Python.

    ``start`` and ``end`` stand for ``from`` and ``to``, ``series_prefix`` and ``id_prefix`` for those with a colon,
    ``where={"mag:ge": 4.5}`` for ``where.mag:ge=4.5``. Lists of fields, statistics and groups are joined by commas.
    """
    named: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "where":
            for condition, expected in (value or {}).items():
                many = condition.endswith(":in") and not isinstance(expected, str)
                named[f"where.{condition}"] = ",".join(map(str, expected)) if many else expected
        elif name in _JOINED and isinstance(value, list | tuple):
            named[name] = ",".join(value)
        else:
            named[_NAMES.get(name, name)] = value
    return flatten(named)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its ``rows``, the cursor of the ``next`` page (None at the end), and what else the answer says.

    ``gaps`` are parts of the range that could not be read. ``body`` is the page as it came.
    """

    rows: list[dict[str, Any]]
    next: str | None
    gaps: Sequence[Mapping[str, Any]] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    document: Mapping[str, Any] = field(default_factory=dict)
    read_units: float = 0.0
    body: bytes = field(default=b"", repr=False)


class Walk:
    """The requests that read a query from a cursor to its end.

    ``cursor`` is the place from which the walk can go on: it moves behind a page only when all of the page's rows were
    taken. So a program that stores it and goes on after a crash sees some rows again, and misses none.
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
        """Whether rows must be counted."""
        return self._left is not None

    def find_parameters(self) -> list[tuple[str, str]]:
        """The parameters of the next request."""
        size = self._page_size if self._left is None else min(self._page_size, self._left)
        limit = ("limit", str(size))
        if self.cursor is None:
            return [*self._parameters, limit]
        free = [(name, value) for name, value in self._parameters if name in _FREE]
        return [*free, limit, ("cursor", self.cursor)]

    def read(self, status: int, headers: Mapping[str, str], body: bytes, *, decimals: bool) -> Page:
        """The page of an answer; ApiError if there is none."""
        if status != 200:
            raise read_refusal(status, body)
        units = float(headers.get("Tidetable-Read-Units", "0") or 0)
        if headers.get("Content-Type", "").startswith(ARROW):
            count = headers.get("Tidetable-Gaps", "0")
            gaps = () if count == "0" else ({"from": None, "to": None, "reason": f"{count} gaps, which JSON names"},)
            return Page([], headers.get("Tidetable-Next"), gaps, read_units=units, body=body)
        document = decode(body, decimals=decimals)
        if not isinstance(document, dict) or not isinstance(document.get(self._rows), list):
            raise ApiError(status, "foreign", f"the answer is not the API's: {body[:100]!r}")
        cursor, gaps, sources = document.get("next"), document.get("gaps") or (), document.get("sources") or ()
        return Page(document[self._rows], cursor, gaps, sources, document, units, body)

    def pass_page(self, page: Page) -> None:
        """All rows of the page were taken."""
        self.cursor = page.next
        self.is_done = page.next is None
        if self._left is not None:
            self._left -= len(page.rows)
            self.is_done = self.is_done or self._left < 1


class Tries:
    """The tries of one request that reads: the seconds to wait before the next, or the error that ends them."""

    def __init__(self, policy: Policy, clock: Clock, random: Callable[[], float]) -> None:
        self._policy, self._clock, self._random = policy, clock, random
        self._began = clock.read()
        self._count = 0

    def judge(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """None if the answer is final."""
        if not is_later(status):
            return None
        later = judge_later(status, headers, read_document(body), body, self._clock.read_date())
        return self._wait(later.after, lambda: read_refusal(status, body))

    def judge_silence(self, error: Exception) -> float:
        """Wait and try again: a request that reads changes nothing."""
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
    """The error for an answer that is not 200."""
    document = read_document(body)
    return ApiError(status, str(document.get("code") or f"http_{status}"), describe_problem(document, body), document)


def decode(body: bytes, *, decimals: bool) -> Any:
    """JSON; with ``decimals`` each number with a fraction keeps all of its digits."""
    try:
        return (_EXACT if decimals else _PLAIN).decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(200, "foreign", f"the answer is not JSON: {error}") from error


_EXACT = msgspec.json.Decoder(float_hook=Decimal)
_PLAIN = msgspec.json.Decoder()


def find_url(address: str, parameters: Sequence[tuple[str, str]]) -> str:
    """The address with its query string. A space is %20: a signature (SigV4) is not valid for a plus."""
    return f"{address}?{urlencode(parameters, quote_via=quote)}" if parameters else address


def begin_walk(
    connection: Connection, stream: str, route: Sequence[str], rows: str, parameters: Mapping[str, Any]
) -> Walk:
    """A walk over the pages of a stream's route; ``rows`` is the field of the answer that has its rows.

    The walk takes ``cursor``, ``limit`` (of all rows) and ``page_size`` for itself; the other parameters are the query's.
    """
    named = dict(parameters)
    own = {name: named.pop(name) for name in ("cursor", "limit", "page_size") if named.get(name) is not None}
    return Walk(connection.find_address(stream, *route), rows, name_parameters(named), **own)


def pair_series(names: Sequence[str], size: int = 100) -> Iterator[list[str]]:
    """Names in lists that one request may have."""
    for start in range(0, len(names), size):
        yield list(names[start : start + size])
