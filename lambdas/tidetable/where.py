"""Parse the conditions of a query string: on fields (``where.FIELD:OPERATOR``), on series and on ids; and name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from tidetable.conditions import OPERATORS, Condition, NameConditions, Operator
from tidetable.large.searched import SearchedStream, refuse_unsearched
from tidetable.layout import MAX_NAME_BYTES
from tidetable.problems import refuse_parameter

WHERE = "where."
DATA = "data"
MAX_CONDITIONS = 10
# Each value may be compared as text, as a number and as a boolean. AWS: IN takes at most 100 operands.
MAX_VALUES = 30
MAX_VALUE_BYTES = 1024
# AWS takes at most 10,240 bytes of request line and headers, and a cursor in the request holds its query.
MAX_BYTES = 2048
# AWS: a path has at most 32 names, and `data` is the first. An expression has at most 4 KB.
MAX_DEPTH = 31
_EXPRESSION = 4_000
# In a table that is partitioned by series, each series is a separate range, and each range costs at least half a read
# unit.
MAX_NAMES = 100
# The parameters that a request may repeat.
REPEATED = frozenset({"series", "id"})
_OPERATORS = ", ".join(OPERATORS)


def is_condition(name: str) -> bool:
    """True if a parameter is a condition."""
    return name.startswith(WHERE) and all(name.removeprefix(WHERE).split("."))


def parse_path(path: str) -> str:
    """Parse the path of a field of ``data`` in the form of the API.

    Raises ProblemError if no event can have such a field. In CSV and flat rows, the field ``mag`` is called
    ``data.mag``. As a path, ``data.mag`` would be the field ``mag`` of an object ``data`` inside the data. That is
    nearly always a mistake, and would find nothing, so it is refused. A caller who means this field writes
    ``data.data.mag``.
    """
    front, *names = path.split(".")
    if front == DATA and names[:1] == [DATA] and len(names) > 1:
        front, *names = names
    elif front == DATA and names and names[0]:
        inner = ".".join(names)
        detail = f"{path[:64]}: paths begin within data, so write {inner[:64]}"
        inside = f"the field {inner[:64]} of an object that is itself called data is data.{path[:64]}"
        raise refuse_parameter(f"{detail}; {inside}")
    if len(names) >= MAX_DEPTH:
        raise refuse_parameter(f"{path[:64]}: a path has at most {MAX_DEPTH} names, as deep as events are")
    return ".".join([front, *names])


def parse_conditions(stream: SearchedStream, parameters: Mapping[str, str]) -> tuple[Condition, ...]:
    """Parse the conditions of a query, in the order of their fields; ProblemError says what to change."""
    conditions = sorted(_parse_condition(name, value) for name, value in parameters.items() if is_condition(name))
    if not conditions:
        return ()
    if len(conditions) > MAX_CONDITIONS:
        raise refuse_parameter(f"at most {MAX_CONDITIONS} conditions; there are {len(conditions)}")
    if sum(len(text.encode()) for condition in conditions for text in (condition.field, *condition.values)) > MAX_BYTES:
        raise refuse_parameter(f"all conditions together have at most {MAX_BYTES} bytes: ask for less at once")
    if sum(map(_estimate_length, conditions)) > _EXPRESSION:
        raise refuse_parameter("the conditions are too long for one request to DynamoDB: ask for less at once")
    refuse_unsearched(stream, [condition.field for condition in conditions])
    return tuple(conditions)


def read_feed_conditions(stream: SearchedStream, where: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return the conditions of a feed, from ``where`` of its policy; ProblemError says what to change."""
    return parse_conditions(stream, {f"{WHERE}{name}": value for name, value in where.items()})


def _parse_condition(name: str, value: str) -> Condition:
    field, colon, operator = name.removeprefix(WHERE).rpartition(":")
    if not colon:
        field, operator = name.removeprefix(WHERE), "eq"
        if field[-1] in "<>!":
            raise refuse_parameter(f"{name[:64]}: write {WHERE}{field[:-1]}:OPERATOR=VALUE with {_OPERATORS}")
    elif operator not in OPERATORS:
        detail = f"{name[:64]}: {operator[:32]!r} is not an operator; there are {_OPERATORS}"
        raise refuse_parameter(f"{detail}. A field with a colon in its name is {WHERE}{field[:32]}:{operator[:32]}:eq")
    elif not field or not all(field.split(".")):
        raise refuse_parameter(f"{name[:64]}: write {WHERE}FIELD:{operator}=VALUE")
    field = parse_path(field)
    kind: Operator = operator  # type: ignore[assignment]
    values = tuple(dict.fromkeys(value.split(","))) if kind == "in" else (value,)
    if len(values) > MAX_VALUES:
        raise refuse_parameter(f"{name[:64]}: at most {MAX_VALUES} values; there are {len(values)}")
    if any(len(text.encode()) > MAX_VALUE_BYTES for text in (*values, field)):
        raise refuse_parameter(f"{name[:64]}: a value has at most {MAX_VALUE_BYTES} bytes")
    if kind == "prefix" and not value:
        raise refuse_parameter(f"{name[:64]}: the prefix is empty, and every text begins with it; give a prefix")
    return Condition(field, kind, values)


def _estimate_length(condition: Condition) -> int:
    """Estimate the greatest length of a condition in DynamoDB's expression, where names and values are placeholders."""
    path = 5 * (condition.field.count(".") + 2)
    paths = {"ne": 4, "lt": 2, "le": 2, "gt": 2, "ge": 2}.get(condition.operator, 1)
    return paths * path + 3 * 6 * len(condition.values) + 100


def parse_names(parameters: Mapping[str, Sequence[str]]) -> NameConditions:
    """Parse the conditions on names; ProblemError says what to change.

    Lists are sorted, so that a cursor can be used with the same values in any order.
    """
    values = {name: sorted(set(parameters.get(name, ()))) for name in ("series", "id", "series:prefix", "id:prefix")}
    for name, texts in values.items():
        if len(texts) > MAX_NAMES:
            raise refuse_parameter(f"{name} is given {len(texts)} times: at most {MAX_NAMES} in one request")
        if not all(0 < len(text.encode()) <= MAX_NAME_BYTES for text in texts):
            raise refuse_parameter(f"{name} must have 1 to {MAX_NAME_BYTES} bytes")
    series, ids, *prefixes = values.values()
    # ``read_single`` checks that a prefix is given only once.
    series_prefix, id_prefix = (next(iter(texts), "") for texts in prefixes)
    return NameConditions(tuple(series), tuple(ids), series_prefix, id_prefix)


def name_conditions(conditions: Sequence[Condition], names: NameConditions) -> str:
    """Name the fields that a query of any route compares, in order, such as ``series:eq&status:in``; empty if it has no
    conditions.

    Values are not named, because this text is for the log. Fields are escaped as in a URL.
    """
    compared = [(condition.field, condition.operator) for condition in conditions]
    compared += [("series", "eq")] if names.series else []
    compared += [("id", "eq")] if names.ids else []
    return _join_fields(compared)


def name_parameters(names: Iterable[str]) -> str:
    """Name the fields and operators of the conditions in a query string, in the form of ``name_conditions``.

    The parameters may be wrong.
    """
    compared = []
    for name in names:
        if is_condition(name):
            field, _, operator = name.removeprefix(WHERE).rpartition(":")
            known = field and operator in OPERATORS
            compared.append((field, operator) if known else (name.removeprefix(WHERE), "eq"))
    return _join_fields(compared)


def _join_fields(compared: Iterable[tuple[str, str]]) -> str:
    return "&".join(f"{quote(field, safe='')}:{operator}" for field, operator in sorted(set(compared)))
