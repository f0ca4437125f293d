"""Keep the last periods of series: of a stream whose tables find the events of a series, the period in which each series
has its last event. ``latest`` answers series that are silent from them.

A period is covered when every further event in it must have a mark. Then its notes name all of its series or, without
notes, its table is read once for them, except for those of marks. Before a mark rests, its bucket is cut out of the
covered spans: its periods are searched by themselves until they are covered again. What a run writes counts when the
record names its generation.

With rollups, an event has a mark soon after its time, without rollups soon after the end of its period
(``bounds.needs_mark``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.expiry import SETTLE
from tidetable.layout.latest import finds_latest
from tidetable.ports.rollups import LastPeriods, Mark, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import SEALED_AFTER, from_millis
from tidetable.rollup_model.cover import join_spans, subtract_spans
from tidetable.rollup_model.last_periods import (
    UNNOTED,
    Pair,
    choose_slots,
    find_holes,
    find_slot,
    find_usable,
    hash_series,
    pack_pairs,
    unpack_pairs,
)
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketBlocked, Services, Superseded, TooManyEvents, Unfinished
from tidetable.rollups.table_series import read_hashes
from tidetable.times import EPOCH, MOMENT

# A run covers at most this many periods, whose series are in memory at the same time, and looks at so many entries.
_PERIODS, _LOOKED = 24, 500
# A run looks for periods to cover at the latest after this time. A table whose marks should rest is looked at soon again.
_LOOKS_EVERY, _LOOKS_AGAIN = timedelta(hours=1), timedelta(minutes=5)
# So many slots are read or written at once.
_SLOTS_AT_ONCE = 16
# A run without rollups removes at most this many marks.
_MARKS = 1_000
# A provisioned table with fewer read units is not read: it would take too long, and it has been lowered for good.
_LEAST_UNITS = 25


class _Rule(NamedTuple):
    """When the periods of a stream can be covered, and from what. ``since`` is the instant since which series are noted;
    None without rollups.
    """

    policy: Stream
    since: datetime | None

    @classmethod
    def of(cls, policy: Stream | None, state: RollupState) -> _Rule | None:
        """Make the rule of a stream; None if no last periods are kept."""
        since = state.noted_since
        if policy is None or (policy.rollup and since is None):
            return None
        is_kept = policy.lists_series or (policy.rollup and policy.layout.partition_by == "series")
        return cls(policy, since if policy.rollup else None) if is_kept else None

    @property
    def first(self) -> datetime:
        """The beginning of the time whose periods can be covered."""
        return EPOCH if self.policy.lists_series or self.since is None else self.since

    def is_noted(self, entry: Entry) -> bool:
        """True if the notes of a period name all of its series."""
        return entry.layout.partition_by == "series" and self.since is not None and self.since <= entry.period.start

    def can_cover(self, entry: Entry) -> bool:
        """True if the series of a period can be read, as soon as it is settled."""
        if self.is_noted(entry):
            return True
        seen = entry.capacity.seen
        has_units = seen is None or seen.read is None or seen.read >= _LEAST_UNITS
        return has_units and self.policy.lists_series and finds_latest(entry.layout)

    def find_settling(self, entry: Entry) -> datetime:
        """Find the instant from which on every further event in a period's table must have a mark."""
        if self.since is None or self.is_noted(entry):
            return entry.period.end + SEALED_AFTER
        # The events of a period that is not noted may have come before all writers put marks.
        return max(entry.period.end, self.since) + SEALED_AFTER

    def find_rest(self, mark: Mark) -> datetime:
        """Find the instant from which on the table of a marked period is read for its series, if no further event comes.

        Without rollups, late events may come now and then as long as the table takes them. The later the last one came, the
        longer the table rests, up to ``late``: so it is read a few times at the most.
        """
        at, late = from_millis(mark.at), self.policy.late
        return at + (max(SETTLE, min((at - mark.bucket) / 2, late)) if self.since is None else SETTLE)


def is_cover_due(policy: Stream | None, state: RollupState, now: datetime) -> bool:
    """True if a run is to look for periods of a stream that can be covered."""
    rule = _Rule.of(policy, state)
    if rule is None or (rule.since is not None and now < rule.since):
        return False
    return state.last is None or state.last.since != (rule.since or UNNOTED) or now >= state.last.due


def cut_marked(run: RefreshRun, state: RollupState, marks: Iterable[Mark]) -> RollupState:
    """Cut the buckets of marks out of the covered spans, before the marks rest; return the state with the new record."""
    last = state.last
    if last is None:
        return state
    holes = join_spans(find_holes(state._replace(marks=list(marks))))
    covered = tuple(subtract_spans(last.covered, holes))
    return state if covered == last.covered else _put_last(run, state, last._replace(covered=covered))


def cover_ended(run: RefreshRun) -> None:
    """Cover the periods of a stream without rollups that are over. Before that, remove the marks that have rested."""
    services, source = run.services, run.source
    state, now = services.rollups.read_at_once(source), services.clock.now()
    rule = _Rule.of(services.config.streams.get(source), state)
    if rule is None:
        return
    # Periods whose marks rest later are cut out, too: so the next look is in time for them.
    state = cut_marked(run, state, state.marks)
    old = [mark for mark in state.marks if rule.find_rest(mark) < now][:_MARKS]
    for mark in old:
        if services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        services.rollups.clear_mark(source, mark)
    cover_periods(run, state._replace(marks=[mark for mark in state.marks if mark not in old]))


def cover_periods(run: RefreshRun, state: RollupState) -> None:
    """Cover the periods that can be covered, some in each run, the newest first."""
    services = run.services
    now, policy = services.clock.now(), services.config.streams.get(run.source)
    rule = _Rule.of(policy, state)
    if rule is None or not is_cover_due(policy, state, now):
        return
    last = find_usable(state, rule.since, services.held_since, now)
    if last is None:
        version = 0 if state.last is None else state.last.version
        last = LastPeriods((), rule.since or UNNOTED, now, version, held=services.held_since)
        if rule.since is None:
            # Functions of a former deployment may still write without marks.
            _put_last(run, state, last._replace(due=now + SETTLE))
            return
    horizon = services.catalog.read_horizon(run.source).at
    if horizon is not None:
        # A search ends at the first period that is deleted, so that it never comes to far periods.
        last = last._replace(covered=tuple(subtract_spans(last.covered, [(EPOCH, horizon)])))
    found, due = _find_periods(run, rule, last, state.marks)
    read, due = _read_series(found, rule, run, due)
    if read:
        spans = [(entry.period.start, entry.period.end) for entry, _ in read]
        last = last._replace(covered=tuple(join_spans([*last.covered, *spans])))
        last = _write_slots(run, last, read)
    _put_last(run, state, last._replace(due=due))


def _find_periods(
    run: RefreshRun, rule: _Rule, last: LastPeriods, marks: Sequence[Mark]
) -> tuple[list[Entry], datetime]:
    """Find periods that can be covered, and the instant at which the next look is due."""
    now, catalog = run.services.clock.now(), run.services.catalog
    found: list[Entry] = []
    due = now + _LOOKS_EVERY
    for start, end in reversed(subtract_spans([(rule.first, now)], last.covered)):
        for entry in islice(catalog.walk(run.source, start, end - MOMENT, consistent=True), _LOOKED):
            settling = rule.find_settling(entry)
            if not entry.live and start == rule.first:
                # Older periods have no tables, either.
                return found, due
            if settling >= now:
                due = min(due, settling + MOMENT)
            elif entry.live and rule.can_cover(entry):
                own = [rule.find_rest(mark) for mark in marks if mark.meets(entry.period.start, entry.period.end)]
                if own and not rule.is_noted(entry):
                    # The table would have to be read again when its marks rest.
                    due = min(due, max(*own, now) + _LOOKS_AGAIN)
                    continue
                found.append(entry)
                if len(found) == _PERIODS:
                    return found, now
    return found, due


def _read_series(
    entries: Sequence[Entry], rule: _Rule, run: RefreshRun, due: datetime
) -> tuple[list[tuple[Entry, list[int]]], datetime]:
    """Read the hashes of the series of periods, in order, until the time of the run or of the stream is up.

    A table that cannot be read now is left until the next look.
    """
    services, read = run.services, list[tuple[Entry, list[int]]]()
    for number, entry in enumerate(entries):
        if services.remaining() < RESERVE or (number and run.share() <= 0):
            return read, services.clock.now() if read else due
        if rule.is_noted(entry):
            names = services.rollups.read_notes(run.source, entry.period.label, consistent=True).series
            read.append((entry, sorted(map(hash_series, names))))
            continue
        with suppress(BucketBlocked, Unfinished, TooManyEvents, TableMissing, TableThrottled, StoreUnavailable):
            read.append((entry, sorted(read_hashes(entry, services))))
    return read, due


def _write_slots(run: RefreshRun, last: LastPeriods, read: Sequence[tuple[Entry, list[int]]]) -> LastPeriods:
    """Write the slots of a new generation: the pairs of the present generation and those of the periods that were read."""
    services, source = run.services, run.source
    pairs: list[Iterator[Pair]] = [_read_pairs(source, last, services)] if last.slots else []
    pairs += [zip(hashes, [entry.period.start] * len(hashes), strict=True) for entry, hashes in read]
    most = max([last.series, *(len(hashes) for _, hashes in read)])
    written = last._replace(generation=last.version + 1, side=1 - last.side, slots=choose_slots(most))
    first, contents, waiting = 0, list[bytes](), list[Pair]()
    count = 0
    for hashed, same in groupby(merge(*pairs), key=itemgetter(0)):
        pair = hashed, max(start for _, start in same)
        if pair[1] < last.covered[0][0]:
            continue
        while find_slot(hashed, written.slots) > first + len(contents):
            contents.append(pack_pairs(waiting))
            waiting = []
            if len(contents) == _SLOTS_AT_ONCE:
                _put_slots(source, written, first, contents, services)
                first, contents = first + len(contents), []
        waiting.append(pair)
        count += 1
    contents.append(pack_pairs(waiting))
    contents += [b""] * (written.slots - first - len(contents))
    _put_slots(source, written, first, contents, services)
    return written._replace(series=count)


def _read_pairs(source: str, last: LastPeriods, services: Services) -> Iterator[Pair]:
    """Read the pairs of the present generation, in the order of hashes."""
    for first in range(0, last.slots, _SLOTS_AT_ONCE):
        numbers = range(first, min(first + _SLOTS_AT_ONCE, last.slots))
        contents = services.rollups.read_slots(source, last, numbers)
        if contents is None:
            raise Superseded(f"the last periods of {source} were replaced by another run")
        for content in contents:
            yield from unpack_pairs(content)


def _put_slots(source: str, last: LastPeriods, first: int, contents: Sequence[bytes], services: Services) -> None:
    services.require_time()
    services.rollups.put_slots(source, last, first, contents)


def _put_last(run: RefreshRun, state: RollupState, last: LastPeriods) -> RollupState:
    """Put a record in place of that of a state, and return the state with it."""
    run.services.require_time()
    last = last._replace(version=last.version + 1)
    if not run.services.rollups.put_last(run.source, last, state.last):
        raise Superseded(f"the last periods of {run.source} were changed by another run")
    return state._replace(last=last)
