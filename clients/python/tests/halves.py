"""The two halves of the client, for threads and for asyncio, behind one interface, so that one test tries both.

``BlockingClient`` is ``Client`` made of ``AsyncClient``: each call runs the loop until the call is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

from tidetable_client import AsyncClient, AsyncQuery, Client

HALVES = ("threads", "asyncio")
# Makes a client for a server and a clock, with further options.
Connect = Callable[..., Any]


def make_client(half: str, **options: Any) -> Any:
    """Make a client of a half. It sends within its calls."""
    given: dict[str, Any] = {"random": lambda: 0.5} | options
    if half == "asyncio":
        return BlockingClient(**given)
    return Client("http://tides.test/", "key", background=False, **given)


def measure_buffer(client: Any) -> int:
    """Measure the bytes of a client's buffer."""
    outbox = client._client._outbox if isinstance(client, BlockingClient) else client._writer._outbox
    weight: int = outbox.weight
    return weight


class BlockingClient:
    """An ``AsyncClient`` whose methods wait for their results."""

    def __init__(self, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._make(options))

    async def _make(self, options: dict[str, Any]) -> AsyncClient:
        return AsyncClient("http://tides.test/", "key", **options)

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._runner.run(self._client.__aexit__(*raised))

    @property
    def pending(self) -> int:
        return self._client.pending

    def end(self) -> None:
        """End the loop, with its tasks."""
        self._runner.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            if isinstance(answer, AsyncQuery):
                return BlockingQuery(answer, self._runner)
            if hasattr(answer, "__anext__"):
                return iterate(answer, self._runner)
            return self._runner.run(answer)

        return call


class BlockingQuery:
    """An ``AsyncQuery`` whose methods wait for their results."""

    def __init__(self, query: AsyncQuery, runner: asyncio.Runner) -> None:
        self._query, self._runner = query, runner

    def __iter__(self) -> Iterator[Any]:
        return iterate(self._query.__aiter__(), self._runner)

    def pages(self) -> Iterator[Any]:
        return iterate(self._query.pages(), self._runner)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._query, name)
        if not name.startswith("to_"):
            return member
        return lambda **options: self._runner.run(member(**options))


def iterate(rows: AsyncIterator[Any], runner: asyncio.Runner) -> Iterator[Any]:
    """Yield what an asynchronous iterator yields."""

    async def advance() -> Any:
        return await anext(rows, None)

    while (row := runner.run(advance())) is not None:
        yield row
