"""Groups of events: the values to group by, and the names of fields, each of a bounded length.

An event may have texts and names of up to 400 KB. Longer texts and names are shortened in the same way wherever events
are grouped or listed. So an answer does not depend on whether a bucket was sealed, and cells always fit into items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

# For each name of ``by``: the kind of its value (text, number, truth, nothing), and the value.
Group = tuple[tuple[str, Any], ...]
# The most characters of a text to group by, and the characters that a longer text keeps. A condition compares with at
# most 1,024 bytes (where.py), so it holds for a shortened text exactly if it holds for the whole text.
MAX_TEXT, _KEPT_TEXT = 2_100, 2_048
# The most bytes of a field's name, and the bytes that a longer name keeps. AWS: an item has at most 400 KB; a bucket
# keeps 1,000 names, with up to 45 bytes of kinds for each.
MAX_NAME, _KEPT_NAME = 255, 200
_DIGITS = 32


def make_group_value(value: Any) -> tuple[str, Any]:
    """Return the kind of a value, and the value to group by. Lists and objects are not values to group by."""
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int | Decimal):
        return "number", value
    if isinstance(value, str):
        return "text", value if len(value) <= MAX_TEXT else f"{value[:_KEPT_TEXT]}{_make_end(value)}"
    return "nothing", None


def find_groups(named: Sequence[Sequence[Any]], count: int) -> tuple[Sequence[Any], Mapping[Any, Group]]:
    """Return a key for each of ``count`` events, and the group of each key. ``named`` are the columns to group by."""
    if len(named) == 1 and set(map(type, named[0])) == {str}:
        return named[0], {text: (make_group_value(text),) for text in set(named[0])}
    # 1 and True are equal: the kind of a value tells them apart.
    keys = list(zip(*[map(make_group_value, column) for column in named], strict=True)) if named else [()] * count
    # Equal numbers may be written in several ways: the first event's is shown.
    return keys, {key: key for key in reversed(keys)}


def find_ends(keys: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Yield each key, with the numbers of the first and the last event that has it."""
    last = {key: number for number, key in enumerate(keys)}
    first = {key: len(keys) - 1 - number for number, key in enumerate(reversed(keys))}
    return ((key, number, last[key]) for key, number in first.items())


def measure_group(group: Group) -> int:
    """Count the characters of a group's texts."""
    return sum([len(value) for _, value in group if type(value) is str])


def shorten_name(name: str) -> str:
    """Return the name of a field, or the beginning of a long name and its hash."""
    # A character has at most four bytes, so most names need not be encoded.
    if 4 * len(name) <= MAX_NAME or len(encoded := name.encode()) <= MAX_NAME:
        return name
    return f"{encoded[:_KEPT_NAME].decode(errors='ignore')}{_make_end(name)}"


def _make_end(text: str) -> str:
    """Make the end of a shortened text: an ellipsis and a hash, which keeps different texts apart."""
    return f"…{sha256(text.encode()).hexdigest()[:_DIGITS]}"
