"""What the service refuses of expressions by their text; the same few come again and again, so each is read once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from strict.refusals import invalid
from strict.rules import Rule

EXPRESSION_BYTES = 4096
OPERANDS = 100
_PLACEHOLDER = re.compile(r"[#:]\w+")
_IN = re.compile(r"\bIN\s*\(([^)]*)\)", re.IGNORECASE)
# Names at the beginning of a path: neither members of a map, nor functions, nor placeholders of values.
_FIRST_NAME = re.compile(r"(?<![.\w#:])#?[A-Za-z_]\w*(?!\s*\(|\w)")
_MEMBERS = {"#": "ExpressionAttributeNames", ":": "ExpressionAttributeValues"}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression's placeholders, its bytes, and the operands of its longest IN."""

    placeholders: frozenset[str]
    bytes: int
    operands: int

    @staticmethod
    @lru_cache(4096)
    def of(text: str) -> Expression:
        """An expression as it is written."""
        operands = max((found.count(",") + 1 for found in _IN.findall(text)), default=0)
        return Expression(frozenset(_PLACEHOLDER.findall(text)), len(text.encode()), operands)

    def check(self, enforces: Callable[[Rule], bool]) -> None:
        """Refusal, if it is too long."""
        if self.bytes > EXPRESSION_BYTES and enforces(Rule.EXPRESSION_BYTES):
            raise invalid(
                "Invalid expression: Expression size has exceeded the maximum allowed size; "
                f"expression size: {self.bytes}"
            )
        if self.operands > OPERANDS and enforces(Rule.OPERANDS):
            raise invalid(
                "Invalid expression: The IN operator is provided with too many operands; "
                f"number of operands: {self.operands}"
            )


def check_placeholders(request: Mapping[str, Any], expressions: Iterable[Expression]) -> None:
    """Refusal of names and values that no expression mentions, or that are mentioned and not defined."""
    used = frozenset().union(*(one.placeholders for one in expressions))
    for sign, member in _MEMBERS.items():
        defined = request.get(member)
        if defined is not None and not defined:
            raise invalid(f"{member} must not be empty")
        known = defined.keys() if defined is not None else frozenset[str]()
        unused = known - used
        if unused:
            raise invalid(f"Value provided in {member} unused in expressions: keys: {sorted(unused)}")
        missing = {one for one in used if one[0] == sign} - known
        if missing:
            raise invalid(f"Invalid expression: An expression uses what {member} does not define: {sorted(missing)}")


def check_filter(request: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refusal of a filter of a Query on an attribute of the key that it reads by."""
    text = request.get("FilterExpression")
    if text is None:
        return
    names = request.get("ExpressionAttributeNames", {})
    filtered = {names.get(one, one) for one in _FIRST_NAME.findall(text)} & set(keys)
    if filtered:
        raise invalid(
            f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {min(filtered)}"
        )


def check_projection(request: Mapping[str, Any]) -> None:
    """Refusal of a projection in which a path is another's, or a part of it."""
    names = request.get("ExpressionAttributeNames", {})
    texts = (path.strip().replace("[", ".[").split(".") for path in request["ProjectionExpression"].split(","))
    paths = [tuple(names.get(part, part) for part in parts) for parts in texts]
    for one, other in combinations(sorted(paths), 2):
        if other[: len(one)] == one:
            raise invalid(
                "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of "
                f"these paths; path one: {list(one)}, path two: {list(other)}"
            )
