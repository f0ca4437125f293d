"""Statistics of events. Most statistics are exact decimals. A mergeable sketch estimates the percentiles."""

from __future__ import annotations

from decimal import Context, Decimal

from tidetable.layout import render_number
from tidetable.problems import refuse_request
from tidetable.rollup_model.numbers import Numbers
from tidetable.statistics import parse_percentile
from tidetable.times import EPOCH, MOMENT, from_text

_AVERAGE = Context(prec=17)
# The most characters of the texts of all groups in memory.
MAX_GROUP_TEXTS = 20_000_000


def compute_stat(numbers: Numbers, name: str) -> int | float | Decimal | str | None:
    """Compute the value of a statistic. Without events, a count is 0 and any other statistic is None."""
    if name == "count":
        return numbers.count
    if not numbers.count:
        return None
    if name in ("sum", "avg"):
        # Sums in rollups have no trailing zeros: 1.5 + 1.5 is 3 there, but 3.0 here. Both must give the same answer.
        settled = Decimal(render_number(numbers.sum))
        return settled if name == "sum" else _AVERAGE.divide(settled, Decimal(numbers.count))
    share = parse_percentile(name)
    if share is None or numbers.sketch is None:
        return getattr(numbers, name)  # type: ignore[no-any-return]
    if share in (0.0, 1.0):
        return numbers.max if share else numbers.min
    # A percentile cannot be less than the minimum or greater than the maximum, but its estimate may be.
    return float(min(max(numbers.sketch.quantile(share), float(numbers.min or 0)), float(numbers.max or 0)))


def compute_rank(numbers: Numbers, name: str) -> int | float | Decimal | None:
    """Compute the value of a statistic as a number, by which groups are ranked. A time is its microseconds."""
    value = compute_stat(numbers, name)
    return (from_text(value) - EPOCH) // MOMENT if isinstance(value, str) else value


def refuse_long_groups(characters: int) -> None:
    """Raise ProblemError if the groups in memory have texts of more characters than ``MAX_GROUP_TEXTS``."""
    if characters > MAX_GROUP_TEXTS:
        detail = f"the values of by have more than {MAX_GROUP_TEXTS} characters together"
        raise refuse_request(422, "too_many_groups", f"{detail}: group by a field with shorter values")
