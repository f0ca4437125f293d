"""Messages of SQS queues: groups that fit into a request, and the reason of a dead letter as an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Element = TypeVar("_Element")

REASON = "reason"
# AWS: the attributes count as part of a message, and a reason may hold text of a client.
_MAX_REASON = 500


def make_reason(text: str) -> str:
    """Return a reason that SQS accepts: cut, and with spaces in place of characters that are not printable.

    AWS: an attribute takes the same characters as a message body, and a body takes no control characters but tab and
    line ends. Source: Amazon SQS API Reference, "SendMessage".
    """
    return "".join(character if character.isprintable() else " " for character in text[:_MAX_REASON])


def group_by_size(
    elements: Iterable[_Element], measure: Callable[[_Element], int], most_bytes: int, most: float
) -> Iterator[list[_Element]]:
    """Group elements in their order, at most so many bytes and elements together. A larger element is a group alone."""
    group: list[_Element] = []
    size = 0
    for element in elements:
        size += measure(element)
        if group and (len(group) == most or size > most_bytes):
            yield group
            group, size = [], measure(element)
        group.append(element)
    if group:
        yield group
