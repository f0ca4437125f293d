"""Keep the last periods of series: of a stream that is partitioned by series, the period in which each series has its last
event. ``latest`` answers series that are silent from them.

A period is covered when every further event in it must have a mark. Then its notes name all of its series, except for
those of marks. Before a mark rests, its bucket is cut out of the covered spans: its periods are searched by themselves
until they are covered again. What a run writes counts when the record names its generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter

from tidetable.catalog import Entry
from tidetable.ports.rollups import LastPeriods, Mark, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import SEALED_AFTER, can_seal
from tidetable.rollup_model.cover import join_spans, subtract_spans
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.last_periods import (
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
from tidetable.rollups.services import Services, Superseded, Unfinished
from tidetable.times import MOMENT

# A run covers at most this many periods, whose notes are in memory at the same time, and looks at so many entries.
_PERIODS, _LOOKED = 24, 500
# A run looks for periods to cover at the latest after this time.
_LOOKS_EVERY = timedelta(hours=1)
# So many slots are read or written at once.
_SLOTS_AT_ONCE = 16


def is_cover_due(definitions: Sequence[Definition], state: RollupState, now: datetime) -> bool:
    """True if a run is to look for periods of a stream that can be covered."""
    if state.noted_since is None or now < state.noted_since or all(rollup.period is None for rollup in definitions):
        return False
    return state.last is None or state.last.since != state.noted_since or now >= state.last.due


def cut_marked(run: RefreshRun, state: RollupState, marks: Iterable[Mark]) -> RollupState:
    """Cut the buckets of marks out of the covered spans, before the marks rest; return the state with the new record."""
    last = state.last
    if last is None:
        return state
    holes = join_spans(find_holes(state._replace(marks=list(marks))))
    covered = tuple(subtract_spans(last.covered, holes))
    return state if covered == last.covered else _put_last(run, state, last._replace(covered=covered))


def cover_periods(run: RefreshRun, state: RollupState) -> None:
    """Cover the periods that can be covered, some in each run, the newest first."""
    services = run.services
    now, since = services.clock.now(), state.noted_since
    if since is None or not is_cover_due(run.definitions, state, now):
        return
    last = find_usable(state, services.held_since)
    if last is None:
        version = 0 if state.last is None else state.last.version
        last = LastPeriods((), since, now, version, held=services.held_since)
    horizon = services.catalog.read_horizon(run.source)
    if horizon is not None:
        # The tables before it are deleted: their periods are not needed any more.
        last = last._replace(covered=tuple(subtract_spans(last.covered, [(min(since, horizon), horizon)])))
    found, due = _find_periods(run.source, last, services)
    if found:
        spans = [(entry.period.start, entry.period.end) for entry in found]
        last = last._replace(covered=tuple(join_spans([*last.covered, *spans])))
        last = _write_slots(run, last, sorted(found, key=lambda entry: entry.period.start))
    _put_last(run, state, last._replace(due=due))


def _find_periods(source: str, last: LastPeriods, services: Services) -> tuple[list[Entry], datetime]:
    """Find periods that can be covered, and the instant at which the next look is due."""
    now = services.clock.now()
    found: list[Entry] = []
    due = now + _LOOKS_EVERY
    for start, end in reversed(subtract_spans([(last.since, now)], last.covered)):
        for entry in islice(services.catalog.walk(source, start, end - MOMENT, consistent=True), _LOOKED):
            period = entry.period
            if not entry.live and start == last.since:
                # Older periods have no tables, either.
                return found, due
            if not can_seal(period.end, now):
                due = min(due, period.end + SEALED_AFTER)
            elif entry.live and entry.layout.partition_by == "series" and last.since <= period.start:
                found.append(entry)
                if len(found) == _PERIODS:
                    return found, now
    return found, due


def _write_slots(run: RefreshRun, last: LastPeriods, entries: Sequence[Entry]) -> LastPeriods:
    """Write the slots of a new generation: the pairs of the present generation and those of the periods' notes."""
    services, source = run.services, run.source
    pairs: list[Iterator[Pair]] = [_read_pairs(source, last, services)] if last.slots else []
    most = last.series
    for entry in entries:
        if services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        hashes = sorted(
            map(hash_series, services.rollups.read_notes(source, entry.period.label, consistent=True).series)
        )
        pairs.append(zip(hashes, [entry.period.start] * len(hashes), strict=True))
        most = max(most, len(hashes))
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
