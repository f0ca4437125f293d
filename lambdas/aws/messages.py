"""Messages of SQS queues: groups that fit into a request, and the reason of a dead letter as an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Part = TypeVar("_Part")

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
    parts: Iterable[_Part], measure: Callable[[_Part], int], most_bytes: int, most_parts: float
) -> Iterator[list[_Part]]:
    """Group parts in their order: each group has at most so many bytes and parts, or is one part that is too large."""
    group: list[_Part] = []
    size = 0
    for part in parts:
        size += measure(part)
        if group and (len(group) == most_parts or size > most_bytes):
            yield group
            group, size = [], measure(part)
        group.append(part)
    if group:
        yield group
