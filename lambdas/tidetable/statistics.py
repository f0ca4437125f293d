"""The statistics of aggregates: the list of their names, from which all other places take them.

The parameter ``stat``, a rollup's ``stats``, the bill, the command line and the console use this list; tests compare the
documents with it. CONTRIBUTING.md says how to add a statistic.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

# Compiled at the first use: most functions import this module and read no name.
_PERCENTILE = r"p(\d{1,2}(?:\.\d{1,3})?|100)"


class Statistic(msgspec.Struct, frozen=True, kw_only=True):
    """A statistic that an aggregate can show.

    ``meaning`` is the line of the API's documentation. ``kept_as`` is its name in a rollup's ``stats``; it is empty if
    rollups do not keep it. ``computed_from`` are the names in ``stats`` from which a rollup answers it, if that is not
    ``kept_as`` alone. ``cell_bytes`` are the bytes that it adds to each field of a cell in a pack, and, if it is a time,
    to the cell itself. Packs of 100 and 1,000 groups had 13 bytes for a first or last number, 4 to 8 for a time, and 7
    to 42 for percentiles: many different values take the most.

    With ``needs_field`` it is computed from the numbers of a field, otherwise from all events, too. ``is_time``: its
    values are times. ``adds_up``: the sum over groups is the value of all groups together, and 0 without events.
    ``examples`` are the names to offer if the name has a parameter, such as the NN of ``pNN``.
    """

    name: str
    meaning: str
    kept_as: str = ""
    computed_from: tuple[str, ...] = ()
    cell_bytes: int = 0
    needs_field: bool = True
    is_time: bool = False
    adds_up: bool = False
    examples: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[str, ...]:
        """The statistics in a rollup that answer this statistic."""
        return self.computed_from or (self.kept_as,)


STATISTICS = (
    Statistic(
        name="count",
        meaning="the number of events; with `field`, of its numbers",
        kept_as="count",
        needs_field=False,
        adds_up=True,
    ),
    Statistic(name="sum", meaning="the exact sum of the numbers", kept_as="sum", adds_up=True),
    Statistic(name="min", meaning="the least number", kept_as="min"),
    Statistic(name="max", meaning="the greatest number", kept_as="max"),
    Statistic(name="avg", meaning="the average, with 17 digits", computed_from=("sum", "count")),
    Statistic(name="first", meaning="the number of the first event that has one", kept_as="first", cell_bytes=13),
    Statistic(name="last", meaning="the number of the last event that has one", kept_as="last", cell_bytes=13),
    Statistic(
        name="first_at",
        meaning="the time of the first event; with `field`, of its first number",
        kept_as="first_at",
        cell_bytes=7,
        needs_field=False,
        is_time=True,
    ),
    Statistic(
        name="last_at",
        meaning="the time of the last event; with `field`, of its last number",
        kept_as="last_at",
        cell_bytes=7,
        needs_field=False,
        is_time=True,
    ),
    Statistic(
        name="pNN",
        meaning="a percentile, NN from 0 to 100, such as `p50` or `p99.9`: an estimate",
        kept_as="percentiles",
        cell_bytes=42,
        examples=("p50", "p90", "p95", "p99"),
    ),
)

PERCENTILES = "percentiles"
# The statistics whose name has no parameter, by their names.
PLAIN = {statistic.name: statistic for statistic in STATISTICS if not statistic.examples}
(_PERCENTILES,) = (statistic for statistic in STATISTICS if statistic.kept_as == PERCENTILES)
# The statistics that a rollup can keep, by their names in the rollup's ``stats``.
KEPT = {statistic.kept_as: statistic for statistic in STATISTICS if statistic.kept_as}
TIMES = tuple(statistic.name for statistic in STATISTICS if statistic.is_time)
# The ``stats`` of a rollup that names none. A cell has its fields' 13 bytes for all four together.
DEFAULT_KEPT = ("count", "sum", "min", "max")

if TYPE_CHECKING:
    KeptName = str
else:
    # The configuration is decoded with this type: it refuses other names.
    KeptName = Literal[tuple(KEPT)]


def parse_percentile(name: str) -> float | None:
    """Return the quantile of a percentile, such as 0.95 for ``p95``; None if the statistic is not a percentile."""
    percentile = re.fullmatch(_PERCENTILE, name)
    return float(percentile[1]) / 100 if percentile else None


def find_statistic(name: str) -> Statistic | None:
    """Find a statistic by the name that a request may use, such as ``sum`` or ``p95``; None if there is none."""
    return PLAIN.get(name) or (None if parse_percentile(name) is None else _PERCENTILES)


def list_kept(names: tuple[str, ...]) -> set[str]:
    """List the statistics that a rollup must keep to answer the statistics ``names`` of a request."""
    found = [find_statistic(name) for name in names]
    return {kept for statistic in found if statistic is not None for kept in statistic.kept}
