"""The checks of an expression's text. Programs send the same few expressions, so a parsed expression is cached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from strict.refusals import refuse_invalid
from strict.rules import Rule

EXPRESSION_BYTES = 4096
OPERANDS = 100
_PLACEHOLDER = re.compile(r"[#:]\w+")
_IN = re.compile(r"\bIN\s*\(([^)]*)\)", re.IGNORECASE)
# The name at the beginning of a path. It is not a member of a map, a function or the placeholder of a value.
_FIRST_NAME = re.compile(r"(?<![.\w#:])#?[A-Za-z_]\w*(?!\s*\(|\w)")
_WORDS = frozenset({"and", "or", "not", "between", "in"})
_MEMBERS = {"#": "ExpressionAttributeNames", ":": "ExpressionAttributeValues"}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression's placeholders, its length in bytes, and the number of operands of its longest IN."""

    placeholders: frozenset[str]
    bytes: int
    operands: int

    @staticmethod
    @lru_cache(4096)
    def of(text: str) -> Expression:
        """Parse the text of an expression."""
        operands = max((operands.count(",") + 1 for operands in _IN.findall(text)), default=0)
        return Expression(frozenset(_PLACEHOLDER.findall(text)), len(text.encode()), operands)

    def check(self, enforces: Callable[[Rule], bool]) -> None:
        """Raise a Refusal if the expression is too long, or if an IN has too many operands."""
        if self.bytes > EXPRESSION_BYTES and enforces(Rule.EXPRESSION_BYTES):
            raise refuse_invalid(
                "Invalid expression: Expression size has exceeded the maximum allowed size; "
                f"expression size: {self.bytes}"
            )
        if self.operands > OPERANDS and enforces(Rule.OPERANDS):
            raise refuse_invalid(
                "Invalid expression: The IN operator is provided with too many operands; "
                f"number of operands: {self.operands}"
            )


def check_placeholders(request: Mapping[str, Any], expressions: Iterable[Expression]) -> None:
    """Refuse a name or a value that no expression uses.

    Refuse an expression with a name or a value that the request does not define.
    """
    used = frozenset().union(*(expression.placeholders for expression in expressions))
    for sign, member in _MEMBERS.items():
        defined = request.get(member)
        if defined is not None and not defined:
            raise refuse_invalid(f"{member} must not be empty")
        known = defined.keys() if defined is not None else frozenset[str]()
        unused = known - used
        if unused:
            raise refuse_invalid(f"Value provided in {member} unused in expressions: keys: {sorted(unused)}")
        missing = {placeholder for placeholder in used if placeholder[0] == sign} - known
        if missing:
            raise refuse_invalid(
                f"Invalid expression: An expression uses what {member} does not define: {sorted(missing)}"
            )


def find_attributes(text: str, names: Mapping[str, str]) -> Iterator[str]:
    """Find the top-level attributes that an expression mentions; ``names`` are the request's ExpressionAttributeNames."""
    return (names.get(name, name) for name in _FIRST_NAME.findall(text) if name.lower() not in _WORDS)


def check_filter(request: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Refuse a filter on an attribute of ``keys``, the key of the table or index that a Query reads."""
    text = request.get("FilterExpression")
    if text is None:
        return
    names = request.get("ExpressionAttributeNames", {})
    filtered = set(find_attributes(text, names)) & set(keys)
    if filtered:
        raise refuse_invalid(
            f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {min(filtered)}"
        )


def check_projection(request: Mapping[str, Any]) -> None:
    """Refuse a projection if one of its paths is equal to another path, or is the beginning of another path."""
    names = request.get("ExpressionAttributeNames", {})
    texts = (path.strip().replace("[", ".[").split(".") for path in request["ProjectionExpression"].split(","))
    paths = [tuple(names.get(name, name) for name in path) for path in texts]
    for shorter, longer in combinations(sorted(paths), 2):
        if longer[: len(shorter)] == shorter:
            raise refuse_invalid(
                "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of "
                f"these paths; path one: {list(shorter)}, path two: {list(longer)}"
            )
