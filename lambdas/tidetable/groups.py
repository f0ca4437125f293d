"""Group values whose sizes are limited together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Value = TypeVar("_Value")


def group_by_size(
    values: Iterable[_Value], measure: Callable[[_Value], int], most_bytes: int, most: int | None = None
) -> Iterator[list[_Value]]:
    """Group the values, in order, so that a group takes at most ``most_bytes``, and has at most ``most`` values.

    A value that is larger than ``most_bytes`` has a group of its own.
    """
    group: list[_Value] = []
    total = 0
    for value in values:
        size = measure(value)
        if group and (len(group) == most or total + size > most_bytes):
            yield group
            group, total = [], 0
        group.append(value)
        total += size
    if group:
        yield group
