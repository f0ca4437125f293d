"""Name the fields and operators of queries for the log. Values are not logged."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from tidetable.conditions import OPERATORS
from tidetable.query.model import Selection
from tidetable.where import WHERE, is_condition


def name_conditions(query: Selection) -> str:
    """Name the fields that a query of any route compares, in order, such as ``series:eq&status:in``; empty if it has no
    conditions.

    Fields are escaped as in a URL.
    """
    compared = [(condition.field, condition.operator) for condition in query.conditions]
    compared += [("series", "eq")] if query.names.series else []
    compared += [("id", "eq")] if query.names.ids else []
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
