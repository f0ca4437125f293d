"""``series``, ``id`` and their prefixes: conditions on an event's names as a query string has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidetable.conditions import Names
from tidetable.keys import MAX_NAME_BYTES
from tidetable.problems import bad_parameter

# Each series is a range of its own in a table that is partitioned by series, and each range half a read unit at the least.
MAX_NAMES = 100
# The parameters that may be given several times.
REPEATED = frozenset({"series", "id"})


def parse_names(parameters: Mapping[str, Sequence[str]]) -> Names:
    """The conditions on names; ProblemError says what to change."""
    series, ids = _listed(parameters, "series"), _listed(parameters, "id")
    return Names(series, ids, _prefix(parameters, "series:prefix"), _prefix(parameters, "id:prefix"))


def _listed(parameters: Mapping[str, Sequence[str]], name: str) -> tuple[str, ...]:
    """The values of a parameter, sorted, so that a cursor may be used with the same ones in any order."""
    values = sorted(set(parameters.get(name, ())))
    if len(values) > MAX_NAMES:
        raise bad_parameter(f"{name} is given {len(values)} times: at most {MAX_NAMES} in one request")
    for value in values:
        _refuse_length(name, value)
    return tuple(values)


def _prefix(parameters: Mapping[str, Sequence[str]], name: str) -> str:
    # Whether it is given once is looked at where all parameters are.
    for value in parameters.get(name, ()):
        _refuse_length(name, value)
    return next(iter(parameters.get(name, ())), "")


def _refuse_length(name: str, value: str) -> None:
    if not 0 < len(value.encode()) <= MAX_NAME_BYTES:
        raise bad_parameter(f"{name} must have 1 to {MAX_NAME_BYTES} bytes")
