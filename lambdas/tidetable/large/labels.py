"""The labels of periods that have objects, in groups whose entries are read together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidetable.periods import Period, parse_label

# The entries of two periods are read together if at most so many periods lie between them.
_NEAR, _TOGETHER = 8, 500


def group_labels(labels: Iterable[str]) -> Iterator[tuple[list[str], list[Period]]]:
    """Group labels, in their order, whose periods lie near each other. Some labels may name no period."""
    group, periods = list[str](), list[Period]()
    for label in labels:
        period = _parse_period(label)
        last = periods[-1] if periods else None
        if period is not None and last is not None:
            distance = (period.start - last.end) / (last.end - last.start)
            if len(group) == _TOGETHER or not 0 <= distance <= _NEAR:
                yield group, periods
                group, periods = [], []
        group.append(label)
        periods += [] if period is None else [period]
    if group:
        yield group, periods


def _parse_period(label: str) -> Period | None:
    try:
        return parse_label(label)
    except ValueError:
        return None
