"""The use case of a request: decode, judge, route and write its events, and queue the events that could not be written
in time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tidetable.catalog import Backfill, Entry
from tidetable.config import Config, Stream
from tidetable.events import Event
from tidetable.ingest.bodies import Body, decode_body, decode_raw, read_body
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.known import KnownPeriods
from tidetable.ingest.outcome import Outcome, Refusal, refuse_whole, reject_all, report_written
from tidetable.ingest.packing import unspread
from tidetable.ingest.routing import LargeValueServices, Routed, route
from tidetable.ingest.submission import Durable, Slot, Submission, find_slot, list_rejections
from tidetable.ingest.verdicts import Judge
from tidetable.ingest.versions import write_packed
from tidetable.ingest.writing import Jitter, retry_writes
from tidetable.keys import Layout
from tidetable.keys.pack import is_pack
from tidetable.large.shrink import Shrinker
from tidetable.late import find_lowered_tables
from tidetable.ports import CatalogReader, Clock, EventStore, Overflow, Written
from tidetable.problems import Problem, ProblemError, refuse, refuse_unknown_stream
from tidetable.remaining import Remaining, limit_time
from tidetable.times import from_text, to_micros, to_text
from tidetable.values import MAX_ITEM_BYTES
from tidetable.window import Window

if TYPE_CHECKING:
    from tidetable.ingest.marks import Marks

RETRY_AFTER_SECONDS = 5
# A request waits at most this time for a throttled table; events that are not written by then are queued.
WRITE_SECONDS = 15.0
_MOST_KEY_BYTES = 80_000
NO_SLOTS: frozenset[Slot] = frozenset()


class IngestRequest(msgspec.Struct, frozen=True):
    """A request from the gateway."""

    stream: str
    body: bytes
    content_type: str = ""
    strict: bool = False
    # The prefix of the caller's key: events of series without this prefix are refused.
    series_prefix: str = ""


class Ingest(msgspec.Struct):
    """The ports and settings that every request needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    overflow: Overflow
    clock: Clock
    jitter: Jitter
    circuit: Circuit
    large: LargeValueServices
    known: KnownPeriods = msgspec.field(default_factory=KnownPeriods)
    # None if no stream has rollups.
    marks: Marks | None = None


def ingest(request: IngestRequest, ports: Ingest, remaining: Remaining) -> Outcome:
    """Store the events of a request; ProblemError if the whole request is refused, and then nothing is written."""
    stream, api = _find_stream(request.stream, ports), ports.config.api
    body = read_body(request.body, request.content_type, max_body=api.max_body)
    now = ports.clock.now()
    window = Window.of(stream, now)
    if stream.layout.pack is not None:
        outcome = _ingest_batch(stream, body, request.series_prefix, window, now, ports, remaining)
        if outcome is not None:
            return outcome
    values = decode_body(body, max_events=api.max_events)
    small = _is_small(body, unspread(stream.layout))
    refusal: Refusal = "strict" if request.strict else "all"
    return _take(stream, values, request.series_prefix, window, now, ports, remaining, refusal=refusal, small=small)


def ingest_values(
    stream: str,
    values: Sequence[Any],
    ports: Ingest,
    remaining: Remaining,
    *,
    strict: bool = False,
    series_prefix: str = "",
) -> Outcome:
    """Store events that a dialect has decoded: ``Sent``, or ``Unreadable`` with the reason.

    The caller limits the number of values. The outcome lists every rejection, even if all events are rejected. If
    ``strict``, any rejection means that nothing is written. ProblemError for a stream that takes no events.
    """
    policy, now = _find_stream(stream, ports), ports.clock.now()
    refusal: Refusal = "whole" if strict else "none"
    window = Window.of(policy, now)
    return _take(policy, values, series_prefix, window, now, ports, remaining, refusal=refusal)


def _find_stream(name: str, ports: Ingest) -> Stream:
    """Return the stream that events are sent to; ProblemError if there is no such stream, or if it is a rollup."""
    stream = ports.config.streams.get(name)
    if stream is None:
        raise refuse_unknown_stream(name, ports.config.streams)
    if stream.source:
        detail = f"{stream.name} is a rollup of {stream.source}, which the pipeline itself writes: send events to {stream.source}"
        raise refuse(403, "derived_stream", detail)
    return stream


def _take(
    stream: Stream,
    values: Sequence[Any],
    prefix: str,
    window: Window,
    now: datetime,
    ports: Ingest,
    remaining: Remaining,
    *,
    refusal: Refusal,
    small: bool = False,
) -> Outcome:
    """Judge decoded values, and make the accepted events durable. ``small`` says that no event needs to be measured."""
    layout, at = unspread(stream.layout), to_micros(now) // 1000
    imports = _Imports(stream.name, ports.catalog, now)
    shrinker = Shrinker.of(stream, ports.large.compressor, ports.large.unique)
    small = small and shrinker.compress_above is None
    judge = Judge(stream, layout, window, now, imports, small=small, at=at, series_prefix=prefix)
    verdicts = judge.judge_all(values)
    rejections = list_rejections(verdicts)
    refuse_whole(rejections, len(values), window, imports.running, refusal)
    submissions = [verdict for verdict in verdicts if type(verdict) is Submission]
    if not submissions or (rejections and refusal == "whole"):
        return reject_all(len(values), window, rejections, imports.running)
    times = [submission.event.time for submission in submissions]
    entries = _read_entries(stream.name, min(times), max(times), window, now, ports)
    routed = route(stream.name, submissions, entries, shrinker, layout=layout, oldest=window.oldest, now=now, at=at)
    rejections = list_rejections(verdicts)
    refuse_whole(rejections, len(values), window, imports.running, refusal)
    if rejections and refusal == "whole":
        return reject_all(len(values), window, rejections, imports.running)
    lowered, unmarked = find_lowered_tables(stream, entries, now), NO_SLOTS
    if stream.rollup and ports.marks is not None:
        events = ((submission.slot, submission.event.time) for submission in submissions if submission.put is not None)
        named = ((submission.slot, submission.event.series) for submission in submissions if submission.put is not None)
        unmarked = ports.marks.find_unready(stream, entries, min(times), events, named, now)
    written, unwritten = _store(routed, lowered, unmarked, ports, remaining)
    for submission in submissions:
        if submission.fate is None:
            submission.fate = Durable.QUEUED if unwritten and submission.slot in unwritten else Durable.STORED
    versioned = layout.versioned or any(entry.layout.versioned for entry in entries)
    _queue(stream.name, submissions, at, ports.overflow, packed=layout.pack is not None, versioned=versioned)
    outcome = report_written(routed, written, lowered, window, len(values), max(times))
    outcome.unmarked = len(unmarked)
    fates = [submission.fate for submission in submissions]
    outcome.accepted, outcome.queued = fates.count(Durable.STORED), fates.count(Durable.QUEUED)
    outcome.rejections, outcome.backfills = rejections, imports.running
    return outcome


def _ingest_batch(
    stream: Stream, body: Body, prefix: str, window: Window, now: datetime, ports: Ingest, remaining: Remaining
) -> Outcome | None:
    """Store the events of a stream with packs by columns; None, with nothing written, if any event is unusual."""
    from tidetable.ingest.columns import read_batch, route_batch

    layout, at = unspread(stream.layout), to_micros(now) // 1000
    sent = decode_raw(body, max_events=ports.config.api.max_events)
    batch = read_batch(sent, window, to_text(now), small=_is_small(body, layout))
    if batch is None or not all(series.startswith(prefix) for series in set(batch.series)):
        return None
    oldest, newest = from_text(min(batch.times)), from_text(max(batch.times))
    entries = _read_entries(stream.name, oldest, newest, window, now, ports)
    bound = route_batch(stream.name, batch, entries, layout, ports.large.compressor, at)
    if bound is None:
        return None
    routed, members = bound
    lowered, unmarked = find_lowered_tables(stream, entries, now), NO_SLOTS
    if stream.rollup and ports.marks is not None:
        events = ((slot, from_text(batch.times[number])) for slot, numbers in members.items() for number in numbers)
        named = ((slot, batch.series[number]) for slot, numbers in members.items() for number in numbers)
        unmarked = ports.marks.find_unready(stream, entries, oldest, events, named, now)
    written, unwritten = _store(routed, lowered, unmarked, ports, remaining)
    # The events of one pack stay together, so that the drain can pack them again.
    waiting = [batch.event(number) for slot, numbers in members.items() if slot in unwritten for number in numbers]
    _send(stream.name, waiting, at, ports.overflow)
    outcome = report_written(routed, written, lowered, window, len(sent), newest)
    outcome.accepted, outcome.queued, outcome.unmarked = len(sent) - len(waiting), len(waiting), len(unmarked)
    return outcome


def _read_entries(
    stream: str, oldest: datetime, newest: datetime, window: Window, now: datetime, ports: Ingest
) -> Sequence[Entry]:
    """Return the periods of the request's events. Remembered entries are used only if no event is before the window."""
    if oldest < window.oldest:
        return ports.catalog.entries(stream, oldest, newest)
    return ports.known.find_covering(ports.catalog, stream, oldest, newest, now)


def _is_small(body: Body, layout: Layout) -> bool:
    """True if no plain event of the body can exceed DynamoDB's limit: its fields take at most the bytes of their JSON.

    The keys of the table and of twenty indexes take at most 80 KB. Each index may hold a copy of the fields.
    """
    copies = 1 + sum(bool(index.project) for index in layout.indexes)
    return len(body.text) * copies < MAX_ITEM_BYTES - _MOST_KEY_BYTES


class _Imports:
    """Tells if an open backfill accepts a time.

    Most requests need no backfill, so the backfills are read at first use.
    """

    def __init__(self, stream: str, catalog: CatalogReader, now: datetime) -> None:
        self._stream = stream
        self._catalog = catalog
        self._now = now
        self.running: Sequence[Backfill] | None = None

    def __call__(self, time: datetime) -> bool:
        if self.running is None:
            backfills = self._catalog.backfills(self._stream)
            self.running = [backfill for backfill in backfills if self._now < backfill.opened.until]
        return any(backfill.holds(time, self._now) for backfill in self.running)


def _store(
    routed: Routed, lowered: frozenset[str], unmarked: frozenset[Slot], ports: Ingest, remaining: Remaining
) -> tuple[Written, Collection[Slot]]:
    """Write as many puts as their tables accept within the budget; also return the slots that are not written.

    Equal versions are written once. Tables whose circuit is open, and ``unmarked`` slots, are not tried.
    ``routed.packs`` then has only the packs that were written.
    """
    puts = routed.puts
    if unmarked:
        puts = {slot: put for slot, put in puts.items() if slot not in unmarked}
        routed.tables = {put.table for put in puts.values()}
    shut = {table for table in routed.tables if not ports.circuit.admits(table)}
    tried = [put for put in puts.values() if put.table not in shut]
    budget = limit_time(WRITE_SECONDS, ports.clock, remaining)
    # An event that a lowered table throttles is queued at once: no request waits for it.
    options: dict[str, Any] = {"remaining": budget, "clock": ports.clock, "jitter": ports.jitter, "once": lowered}
    if routed.plain:
        written = retry_writes(ports.store.write, tried, **options)
    else:
        written = write_packed(ports.store, ports.large.values, tried, ports.store.write, **options)
    # A put may wait for its chunks or its object, or have a full item collection. That does not mean that the table is
    # throttled.
    unwilling = (put for put in written.unwritten if not (put.chunks or put.blob or written.is_full(put)))
    throttled = {put.table for put in unwilling} - written.missing_tables
    ports.circuit.trip(throttled)
    ports.circuit.close(routed.tables - shut - throttled)
    unwritten = {find_slot(put) for put in written.unwritten} | {
        slot for slot, put in puts.items() if put.table in shut
    }
    unwritten |= unmarked
    routed.packs -= unwritten
    return written, unwritten


def _queue(
    stream: str, submissions: Sequence[Submission], at: int, overflow: Overflow, *, packed: bool, versioned: bool
) -> None:
    """Queue the events that no table accepted: the last event of each slot, but all events of a pack."""
    to_queue = [submission for submission in submissions if submission.fate is Durable.QUEUED]
    if packed:
        # The events of one pack stay together, so that the drain can pack them again.
        to_queue.sort(key=lambda submission: submission.slot)
    events = {_identify_slot(submission, versioned=versioned): submission.event for submission in to_queue}
    _send(stream, list(events.values()), at, overflow)


def _send(stream: str, events: Sequence[Event], at: int, overflow: Overflow) -> None:
    """Queue events; ProblemError if any event cannot be queued.

    In that case no event of the request is acknowledged, although some events may be stored.
    """
    unqueued = overflow.send(stream, events, at) if events else ()
    if unqueued:
        detail = f"{len(unqueued)} events could be neither stored nor queued; send the whole request again, which is harmless"
        raise ProblemError(Problem(503, "not_durable", detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)}))


def _identify_slot(submission: Submission, *, versioned: bool) -> Hashable:
    """Return a submission's identity for the queue. Of submissions with the same identity, only the last is queued.

    For an event of a pack, the identity is series, time and id. It is the same for an event without a put, unless
    versions are kept, because the queue does not keep the order. Otherwise the identity is the slot or, without a slot,
    the index.
    """
    event, put = submission.event, submission.put
    if not versioned if put is None else is_pack(put.item):
        return event.series, event.time, event.id
    return submission.slot or submission.index
