"""Where to end a portion of events, of which only counts and bounds in time are known."""

from __future__ import annotations

from collections.abc import Sequence

_HALVINGS = 24
# The first time, the time after the last, both in microseconds, and the number of events.
Span = tuple[int, int, int]


def find_portion_end(spans: Sequence[Span], start: int, end: int, most: int) -> int:
    """Find the time up to which there are about ``most`` events from ``start`` on: at the latest ``end``.

    Times are in microseconds. The events of a span are taken to be spread evenly over it.
    """
    if not spans:
        return end

    def count_before(at: int) -> float:
        return sum(count * min(max((at - first) / (last - first), 0.0), 1.0) for first, last, count in spans)

    # Halving must not begin with times that are far from all events.
    low, high = max(start, min(first for first, *_ in spans)), min(end, max(last for _, last, _ in spans))
    wanted = count_before(low) + most
    if count_before(high) <= wanted:
        return end
    for _ in range(_HALVINGS):
        middle = (low + high) // 2
        low, high = (middle, high) if count_before(middle) < wanted else (low, middle)
    return max(high, start + 1)
