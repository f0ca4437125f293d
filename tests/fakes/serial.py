"""A pool that does everything at once in the caller's thread, so that a simulation repeats itself exactly."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any


class Serial(Executor):
    """Of any width."""

    def __init__(self, width: int) -> None:
        self.width = width

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is under way."""

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
    """Whose work never comes to an end: whoever waits for it waits until the time is up, which is at once."""

    def submit(self, act: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        return Unanswered()


class Unanswered(Future[Any]):
    """What never comes."""

    def result(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "whoever waits without an end waits for ever"
        raise TimeoutError
