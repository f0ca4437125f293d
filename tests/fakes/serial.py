"""An executor that does everything at once in the caller's thread, so that a simulation repeats itself exactly."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from importlib import import_module
from typing import Any

import pytest


class Serial:
    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def shutdown(self, **_: Any) -> None:
        pass

    def submit(self, act: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(act(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, act: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        return iter([act(*given) for given in zip(*arguments, strict=True)])


def everywhere(patch: pytest.MonkeyPatch) -> None:
    """Let every part of the pipeline that works side by side work serially."""
    for module in (
        "tidetable.lifecycle.reconcile",
        "tidetable.lifecycle.observe",
        "tidetable.lifecycle.removal",
        "tidetable.archive.export",
        "tidetable.query.read",
        "tidetable.query.run",
        "tidetable.query.rankings.run",
    ):
        patch.setattr(import_module(module), "ThreadPoolExecutor", Serial)
