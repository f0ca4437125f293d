"""A pool that runs every task at once in the caller's thread, so that a simulation is reproducible."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any


class Serial(Executor):
    """A pool of any width, which does not use the width."""

    def __init__(self, width: int) -> None:
        self.width = width

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing, as no task is running."""

    def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(act(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        return iter([fn(*arguments) for arguments in zip(*iterables, strict=True)])


class Silent(Serial):
    """A pool whose tasks never end. A wait with a time-out fails at once, as if the time were over."""

    def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        return Unanswered()


class Unanswered(Future[Any]):
    """A result that never comes."""

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "a wait without a time-out would never end"
        raise TimeoutError
