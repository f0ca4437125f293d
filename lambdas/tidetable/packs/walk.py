"""The threshold walk: it takes packs in the order of their newest events, and gives the settled events in order.

An event is settled when no copy of it can come any more. An event of time t lies only in packs whose newest event is in
[t, t + span). In a walk from the newest pack on, every event newer than the next pack's newest event is settled. In a
walk from the oldest pack on, every event that is at least ``span`` older than the next pack's newest event is settled.
Like every generator, a walk reads no further than its caller asks for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, timedelta
from itertools import chain, pairwise
from typing import NamedTuple

from tidetable.events import Item
from tidetable.packs.items import OpenedItem
from tidetable.times import from_text, to_text

# Sorts after the "#" that follows the time in a place, and before every later time.
_AFTER = "$"
# A walk that holds more events than this merges them into runs of _RUN events, and again when they are twice as many.
_MERGE_ABOVE, _RUN = 50_000, 1_000


class Settled(NamedTuple):
    """The copy of an event that counts: the time when it was accepted, its pack's hash, its address, and its data (see
    Opened).
    """

    at: int
    hash: str
    address: str
    value: str | Item


class WalkedRun(NamedTuple):
    """Events in order, each with the members of ``Settled``, as columns; the problems of the damaged packs between them.

    Whole columns are cut and joined, because an object for each event takes more time than all else in a walk.
    """

    places: Sequence[str]
    ats: Sequence[int]
    hashes: Sequence[str]
    addresses: Sequence[str]
    values: Sequence[str | Item]
    problems: Sequence[str] = ()

    @classmethod
    def of(cls, places: Sequence[str], copies: Iterable[tuple[int, str, str, str | Item]]) -> WalkedRun:
        """Make the columns of events from their copies that count."""
        return cls(places, *map(list, zip(*copies, strict=True))) if places else NO_EVENTS

    @property
    def copies(self) -> list[Settled]:
        """The events' copies that count, each as an object."""
        return list(map(Settled, self.ats, self.hashes, self.addresses, self.values))

    def cut(self, start: int, end: int) -> WalkedRun:
        """Return some of the events, without problems."""
        return WalkedRun._make([*[column[start:end] for column in self[:-1]], ()])

    def reverse(self) -> WalkedRun:
        """Return the events from the last to the first, without problems."""
        return WalkedRun._make([*[column[::-1] for column in self[:-1]], ()])


NO_EVENTS = WalkedRun((), (), (), (), ())


def join_runs(runs: Sequence[WalkedRun], problems: Sequence[str] = ()) -> WalkedRun:
    """Put runs one after the other."""
    if len(runs) == 1:
        return runs[0]._replace(problems=problems)
    columns = [list(chain.from_iterable(columns)) for columns in zip(*[run[:-1] for run in runs], strict=True)]
    return WalkedRun._make([*columns, problems]) if runs else NO_EVENTS._replace(problems=problems)


def merge_runs(runs: Sequence[WalkedRun]) -> WalkedRun:
    """Merge ascending runs with events. Of several copies of an event, the copy counts that was accepted last; if
    several were accepted at the same time, the copy in the pack with the greatest hash.
    """
    runs = sorted(runs, key=lambda run: run.places[0])
    if all(run.places[-1] < following.places[0] for run, following in pairwise(runs)):
        return join_runs(runs)
    copies: dict[str, tuple[int, str, str, str | Item]] = {}
    for run in runs:
        added = dict(zip(run.places, zip(*run[1:-1], strict=True), strict=True))
        for place in copies.keys() & added.keys():
            if copies[place][:2] > added[place][:2]:
                del added[place]
        copies |= added
    places = sorted(copies)
    return WalkedRun.of(places, map(copies.__getitem__, places))


class Walk:
    """Collects the events with ``low <= place < high`` of one logical partition, each once, while their items arrive.

    The caller has the items of all suffixes, merged in the order of their newest times, in the walk's direction; items
    of the same time may come in any order. ``advance_to`` announces the next item's newest time, ``add_item`` adds an item,
    and ``pop_settled`` returns the events that were settled since the last call. If an event has several copies, the copy that
    was accepted last counts; if several were accepted at the same time, the copy in the pack with the greatest hash.
    ``span`` is in seconds. ``count`` events are settled and not returned yet. ``unsettled`` copies wait, because another
    copy of their events may still come.
    """

    def __init__(self, *, span: int, ascending: bool, low: str = "", high: str = "~") -> None:
        self._length = timedelta(seconds=span)
        self._ascending = ascending
        self._low = low
        self._high = high
        self._held: list[WalkedRun] = []
        self._settled: list[WalkedRun] = []
        self._problems: list[str] = []
        self._merge_above = _MERGE_ABOVE
        self.unsettled = self.count = 0

    def advance_to(self, newest: str) -> str:
        """Settle events.

        Every later item has the newest time ``newest``, or a time after it in the direction of the walk. Return the
        edge: the place between the settled and the other events. In a descending walk every event after the edge is
        settled, in an ascending walk every event before it.
        """
        edge = self.find_edge(newest) if self._ascending else newest + _AFTER
        self.settle_before(edge)
        return edge

    def find_edge(self, newest: str) -> str:
        """Find the edge of an ascending walk whose later items all have the newest time ``newest``, or a later time."""
        # The place may lie before 1970: then no event is settled, not even an event of the first instant of 1970.
        return to_text(from_text(newest).astimezone(UTC) - self._length) + _AFTER

    def settle_before(self, edge: str) -> None:
        """Settle the events before a place, in the direction of the walk: the caller knows that no item has more of
        them.
        """
        cut = bisect_left(self._held, edge, key=self._find_lead)
        if self._ascending:
            due, self._held = self._held[:cut], self._held[cut:]
        else:
            self._held, due = self._held[:cut], self._held[cut:]
        ready: list[WalkedRun] = []
        for run in due:
            cut = bisect_left(run.places, edge)
            before, after = run.cut(0, cut), run.cut(cut, len(run.places))
            settled, rest = (before, after) if self._ascending else (after, before)
            ready.append(settled)
            if rest.places:
                insort(self._held, rest, key=self._find_lead)
        self._settle_runs(ready)

    def add_item(self, item: OpenedItem) -> None:
        """Add an item's events."""
        if item.problem is not None:
            self._problems.append(item.problem)
        start, end = bisect_left(item.places, self._low), bisect_left(item.places, self._high)
        count = end - start
        if count <= 0:
            return
        ats = item.ats[start:end] if item.ats is not None else [item.at] * count
        same = [item.hash] * count, [item.address] * count
        run = WalkedRun(item.places[start:end], ats, *same, item.values[start:end])
        insort(self._held, run, key=self._find_lead)
        self.unsettled += count
        if self.unsettled > self._merge_above:
            # Many events may have several copies. Only one of them is kept.
            merged = merge_runs(self._held)
            self.unsettled = len(merged.places)
            # To cut a run costs time for all of its events, so the runs stay short.
            self._held = [merged.cut(start, start + _RUN) for start in range(0, self.unsettled, _RUN)]
            self._merge_above = max(2 * self.unsettled, _MERGE_ABOVE)

    def settle_all(self) -> None:
        """Settle all events, because no further item comes."""
        ready, self._held = self._held, []
        self._settle_runs(ready)

    def pop_settled(self) -> WalkedRun:
        """Return the events that were settled since the last call."""
        run = join_runs(self._settled, self._problems)
        self._settled, self._problems, self.count = [], [], 0
        return run

    def _find_lead(self, run: WalkedRun) -> str:
        """Find the place of the event of a run that is settled first. The held runs are sorted by it."""
        return run.places[0 if self._ascending else -1]

    def _settle_runs(self, ready: Sequence[WalkedRun]) -> None:
        """Settle ascending runs."""
        if ready:
            run = merge_runs(ready)
            self._settled.append(run if self._ascending else run.reverse())
            self.count += len(run.places)
            self.unsettled -= sum(len(run.places) for run in ready)


def walk_packs(
    items: Iterable[OpenedItem], *, span: int, ascending: bool, low: str = "", high: str = "~"
) -> Iterator[WalkedRun]:
    """Yield the runs of a ``Walk`` over all items of a ``find_key_range``. No item is read before it is needed."""
    walked = Walk(span=span, ascending=ascending, low=low, high=high)
    for item in items:
        edge = walked.advance_to(item.newest)
        if walked.count:
            yield walked.pop_settled()
        if not ascending and edge <= low:
            # This pack and all packs after it hold only events before ``low``.
            break
        walked.add_item(item)
    walked.settle_all()
    run = walked.pop_settled()
    if run.places or run.problems:
        yield run
