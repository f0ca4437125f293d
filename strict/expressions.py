"""The DynamoDB expressions that the pipeline uses: conditions, key conditions and updates of items in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from strict.refusals import refuse_invalid
from strict.units import Wire

_TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),+-]|[#:]?[A-Za-z_][\w.#]*|:\w+)")
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

Item = Mapping[str, Wire]
_Operand = Callable[[Item], Wire | None]
Condition = Callable[[Item], bool]


def make_sortable(value: Wire) -> Any:
    """Convert a scalar attribute value to a Python value that sorts as in DynamoDB."""
    ((kind, inner),) = value.items()
    return Decimal(inner) if kind == "N" else inner


class Parser:
    """Parses the expressions of one request."""

    def __init__(self, text: str, request: Mapping[str, Any]) -> None:
        self._tokens = _TOKEN.findall(text)
        if "".join(self._tokens) != re.sub(r"\s+", "", text):
            raise NotImplementedError(f"expression: {text}")
        self._names: Mapping[str, str] = request.get("ExpressionAttributeNames", {})
        self._values: Mapping[str, Wire] = request.get("ExpressionAttributeValues", {})

    def parse_condition(self) -> Condition:
        """Parse a whole condition or filter expression."""
        parsed = self._parse_or()
        if self._tokens:
            raise NotImplementedError(f"expression continues with {self._tokens}")
        return parsed

    def apply_update(self, item: Item) -> dict[str, Wire]:
        """Apply an update expression to an item. It may have SET of values and sums, REMOVE, and ADD of numbers and sets
        of texts.
        """
        new = dict(item)
        while self._tokens:
            clause = self._take_token().upper()
            while True:
                token = self._take_token()
                if "." in token:
                    raise NotImplementedError(f"a change within {token}")
                name = self._resolve_name(token)
                if clause == "SET":
                    self._expect_token("=")
                    value = self._parse_sum()(item)
                    if value is None:
                        raise refuse_invalid(
                            "The provided expression refers to an attribute that does not exist in the item"
                        )
                    new[name] = value
                elif clause == "REMOVE":
                    new.pop(name, None)
                elif clause == "ADD":
                    new[name] = _add(item.get(name), self._parse_operand()(item) or {})
                else:
                    raise NotImplementedError(clause)
                if self._peek_token() != ",":
                    break
                self._take_token()
        return new

    def _parse_or(self) -> Condition:
        left = self._parse_and()
        while self._peek_token().upper() == "OR":
            self._take_token()
            left = _join_either(left, self._parse_and())
        return left

    def _parse_and(self) -> Condition:
        left = self._parse_not()
        while self._peek_token().upper() == "AND":
            self._take_token()
            left = _join_both(left, self._parse_not())
        return left

    def _parse_not(self) -> Condition:
        if self._peek_token().upper() == "NOT":
            self._take_token()
            inner = self._parse_not()
            return lambda item: not inner(item)
        if self._peek_token() == "(":
            self._take_token()
            inner = self._parse_or()
            self._expect_token(")")
            return inner
        return self._parse_comparison()

    def _parse_comparison(self) -> Condition:
        function = self._peek_token()
        if function in ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with"):
            return self._parse_function(self._take_token())
        left = self._parse_operand()
        operator = self._take_token().upper()
        if operator == "BETWEEN":
            low = self._parse_operand()
            assert self._take_token().upper() == "AND"
            return _join_both(_make_comparison(">=", left, low), _make_comparison("<=", left, self._parse_operand()))
        if operator == "IN":
            self._expect_token("(")
            condition = _make_comparison("=", left, self._parse_operand())
            while self._take_token() == ",":
                condition = _join_either(condition, _make_comparison("=", left, self._parse_operand()))
            return condition
        return _make_comparison(operator, left, self._parse_operand())

    def _parse_function(self, name: str) -> Condition:
        self._expect_token("(")
        first = self._parse_operand()
        if name == "begins_with":
            self._expect_token(",")
            prefix = self._parse_operand()
            self._expect_token(")")
            return lambda item: _read_text(first(item)).startswith(_read_text(prefix(item)) or "\0")
        if name == "attribute_type":
            self._expect_token(",")
            kind = self._parse_operand()
            self._expect_token(")")
            return lambda item: _read_text(kind(item)) in (first(item) or {})
        self._expect_token(")")
        exists = name == "attribute_exists"
        return lambda item: (first(item) is not None) is exists

    def _parse_sum(self) -> _Operand:
        left = self._parse_operand()
        if self._peek_token() not in ("+", "-"):
            return left
        sign = 1 if self._take_token() == "+" else -1
        right = self._parse_operand()
        return lambda item: {"N": str(Decimal(_read_number(left(item))) + sign * Decimal(_read_number(right(item))))}

    def _parse_operand(self) -> _Operand:
        token = self._take_token()
        if token == "if_not_exists":
            self._expect_token("(")
            path = self._parse_operand()
            self._expect_token(",")
            default = self._parse_operand()
            self._expect_token(")")
            return lambda item: path(item) or default(item)
        if token.startswith(":"):
            value = self._values[token]
            return lambda _: value
        if self._peek_token() == "(":
            raise NotImplementedError(f"the function {token}")
        first, *rest = (self._resolve_name(name) for name in token.split("."))

        def find_value(item: Item) -> Wire | None:
            value: Any = item.get(first)
            for name in rest:
                value = (value or {}).get("M", {}).get(name)
            return value  # type: ignore[no-any-return]

        return find_value

    def _resolve_name(self, token: str) -> str:
        return self._names[token] if token.startswith("#") else token

    def _peek_token(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take_token(self) -> str:
        return str(self._tokens.pop(0))

    def _expect_token(self, token: str) -> None:
        actual = self._take_token()
        assert actual == token, f"{token} expected, {actual} read"


def _make_comparison(operator: str, left: _Operand, right: _Operand) -> Condition:
    compare = _ORDERED[operator]

    def holds(item: Item) -> bool:
        left_value, right_value = left(item), right(item)
        if left_value is None or right_value is None or left_value.keys() != right_value.keys():
            return operator == "<>" and left_value is not None
        return compare(make_sortable(left_value), make_sortable(right_value))

    return holds


def _join_both(left: Condition, right: Condition) -> Condition:
    return lambda item: left(item) and right(item)


def _join_either(left: Condition, right: Condition) -> Condition:
    return lambda item: left(item) or right(item)


def _read_text(value: Wire | None) -> str:
    return str((value or {}).get("S", ""))


def _read_number(value: Wire | None) -> str:
    if value is None:
        raise refuse_invalid("The provided expression refers to an attribute that does not exist in the item")
    if "N" not in value:
        raise refuse_invalid("An operand in the update expression has an incorrect data type")
    return str(value["N"])


def _add(old: Wire | None, new: Wire) -> Wire:
    """Add a number to a number, or the members of a set of texts to a set."""
    if "SS" not in new:
        return {"N": str(Decimal(_read_number(old or {"N": "0"})) + Decimal(_read_number(new)))}
    if not new["SS"]:
        raise refuse_invalid("One or more parameter values were invalid: An string set  may not be empty")
    if old is not None and "SS" not in old:
        raise refuse_invalid("An operand in the update expression has an incorrect data type")
    return {"SS": sorted({*(old or {"SS": ()})["SS"], *new["SS"]})}


def meets_condition(request: Mapping[str, Any], old: Item | None) -> bool:
    """True if an item (None: no item) meets the condition of a request, or if the request has no condition."""
    text = request.get("ConditionExpression")
    return text is None or Parser(text, request).parse_condition()(old or {})


def update_item(request: Mapping[str, Any], old: Item | None) -> dict[str, Wire]:
    """Return the new item after an update of the item ``old`` (None: there was no item)."""
    return Parser(request["UpdateExpression"], request).apply_update(old or request["Key"])
