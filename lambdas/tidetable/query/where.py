"""``where.FIELD`` and ``where.FIELD:OPERATOR``: conditions as a query string has them."""

from __future__ import annotations

from collections.abc import Mapping

from tidetable.conditions import OPERATORS, Condition, Operator
from tidetable.config import Stream
from tidetable.problems import refuse

WHERE = "where."
MAX_CONDITIONS = 10
# Each value may be compared as text, as a number and as truth; AWS: IN takes 100 operands.
MAX_VALUES = 30
MAX_VALUE_BYTES = 1024


def is_condition(name: str) -> bool:
    """Whether a parameter is a condition."""
    return name.startswith(WHERE) and all(name.removeprefix(WHERE).split("."))


def parse_conditions(stream: Stream, given: Mapping[str, str]) -> tuple[Condition, ...]:
    """The conditions of a query, in the order of their fields; ProblemError says what to change."""
    found = sorted(_condition(name, value) for name, value in given.items() if is_condition(name))
    if len(found) > MAX_CONDITIONS:
        raise refuse(400, "bad_parameter", f"at most {MAX_CONDITIONS} conditions; there are {len(found)}")
    for one in found:
        if one.top in stream.cold:
            detail = f"{one.field} is a cold field of {stream.name}: it is shown, and not searched"
            raise refuse(400, "bad_parameter", detail)
    return tuple(found)


def _condition(name: str, value: str) -> Condition:
    field, _, operator = name.removeprefix(WHERE).rpartition(":")
    if operator not in OPERATORS:
        # A colon may be part of a field's name.
        field, operator = name.removeprefix(WHERE), "eq"
    elif not field or not all(field.split(".")):
        raise refuse(400, "bad_parameter", f"{name[:64]}: write {WHERE}FIELD:{operator}=VALUE")
    kind: Operator = operator  # type: ignore[assignment]
    values = tuple(dict.fromkeys(value.split(","))) if kind == "in" else (value,)
    if len(values) > MAX_VALUES:
        raise refuse(400, "bad_parameter", f"{name[:64]}: at most {MAX_VALUES} values; there are {len(values)}")
    if any(len(one.encode()) > MAX_VALUE_BYTES for one in (*values, field)):
        raise refuse(400, "bad_parameter", f"{name[:64]}: a value has at most {MAX_VALUE_BYTES} bytes")
    if kind == "prefix" and not value:
        raise refuse(400, "bad_parameter", f"{name[:64]}: every text begins with nothing; give a prefix")
    return Condition(field, kind, values)
