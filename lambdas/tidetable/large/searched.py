"""Which fields of a stream may be searched: those that are in an event's item."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from tidetable.problems import refuse_parameter


class SearchedStream(Protocol):
    """The members of a stream's policy that its conditions depend on."""

    @property
    def name(self) -> str: ...

    @property
    def cold(self) -> Collection[str]: ...


def refuse_unsearched(stream: SearchedStream, paths: Iterable[str]) -> None:
    """Raise ProblemError if a path leads into a cold field."""
    for path in paths:
        if path.partition(".")[0] in stream.cold:
            raise refuse_parameter(f"{path} is a cold field of {stream.name}: it is shown, and not searched")
