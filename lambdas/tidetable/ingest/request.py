"""The use case of a request: judge, route and write its events; queue the events that were not written in time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tidetable.access import FULL, Access
from tidetable.config import Config
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Event
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.bodies import decode_body, read_body
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.outcome import (
    SURELY_ANSWERED,
    Outcome,
    Refusal,
    refuse_all,
    refuse_long_answer,
    report_written,
)
from tidetable.ingest.puts import list_queued, write_puts
from tidetable.ingest.recent_periods import RecentPeriods
from tidetable.ingest.routing import Routed, route_batch
from tidetable.large.shrink import LargeValueServices
from tidetable.late import find_lowered_tables
from tidetable.ports import CatalogReader, Clock, EventStore, Overflow, Slot
from tidetable.problems import Problem, ProblemError, refuse_request, refuse_unknown_stream
from tidetable.remaining import Remaining, limit_time
from tidetable.times import from_text, to_micros
from tidetable.window import Window

if TYPE_CHECKING:
    from tidetable.ingest.marks import Marks

RETRY_AFTER_SECONDS = 5
# A request waits at most this time for a throttled table; events that are not written by then are queued.
WRITE_SECONDS = 15.0


class IngestRequest(msgspec.Struct, frozen=True):
    """A request from the gateway."""

    stream: str
    body: bytes
    content_type: str = ""
    encoding: str = ""
    strict: bool = False
    # Without refs the answer has no list of them, which is nearly all of it.
    refs: bool = True
    # The rights of the caller's key: events of series that it does not cover are refused.
    access: Access = FULL


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
    known: RecentPeriods = msgspec.field(default_factory=RecentPeriods)
    # By the names of their streams.
    rules: dict[str, StreamRules] = msgspec.field(default_factory=dict)
    # None if no stream has rollups, and no table is read for its series.
    marks: Marks | None = None


def ingest_body(request: IngestRequest, ports: Ingest, remaining: Remaining) -> Outcome:
    """Store the events of a request; ProblemError if the whole request is refused, and then nothing is written."""
    context, api = _begin_request(request.stream, request.access, ports), ports.config.api
    body = read_body(request.body, request.content_type, max_body=api.max_body, encoding=request.encoding)
    values = decode_body(body, max_events=api.max_events)
    batch = check_batch(context, SentBatch.of_values(values), small=len(body.text) <= context.rules.small_bytes)
    refusal: Refusal = "strict" if request.strict else "all"
    return _ingest_batch(context, batch, ports, remaining, refusal=refusal, refs=request.refs)


def ingest_batch(
    stream: str,
    batch: SentBatch,
    ports: Ingest,
    remaining: Remaining,
    *,
    strict: bool = False,
    access: Access = FULL,
) -> Outcome:
    """Store events that a dialect has decoded.

    The caller limits their number. The outcome lists every rejection, even if all events are rejected. If ``strict``,
    any rejection means that nothing is written. ProblemError for a stream that takes no events.
    """
    context = _begin_request(stream, access, ports)
    return _ingest_batch(context, check_batch(context, batch), ports, remaining, refusal="whole" if strict else "none")


def _begin_request(name: str, access: Access, ports: Ingest) -> RequestContext:
    """Make the context of a request; ProblemError if there is no such stream, or if it is a rollup."""
    stream, now = ports.config.streams.get(name), ports.clock.now()
    if stream is None:
        raise refuse_unknown_stream(name, {known: None for known in ports.config.streams if access.sees(known)})
    if stream.source:
        detail = f"{stream.name} is a rollup of {stream.source}, which the pipeline itself writes: send events to {stream.source}"
        raise refuse_request(403, "derived_stream", detail)
    rules = ports.rules.get(name)
    if rules is None:
        rules = ports.rules[name] = StreamRules.of(stream, stream.layout)
    at = to_micros(now) // 1000
    return RequestContext(stream, rules, Window.of(stream, now), now, at, access, ports.catalog.backfills)


def _ingest_batch(
    context: RequestContext,
    batch: SentBatch,
    ports: Ingest,
    remaining: Remaining,
    *,
    refusal: Refusal,
    refs: bool = True,
) -> Outcome:
    """Make the events of a batch durable. Without ``refs`` the answer does not list them."""
    if batch.rejections or not batch.times:
        outcome = refuse_all(context, batch, refusal)
        if outcome is not None:
            return outcome
    times = [batch.times[number] for number in batch.numbers] if batch.rejections else batch.times
    oldest, newest = min(times), max(times)
    entries = ports.known.find_covering(ports.catalog, context, times, oldest, newest)
    routed = route_batch(context, batch, entries, (oldest, newest), ports.large)
    if batch.rejections:
        outcome = refuse_all(context, batch, refusal)
        if outcome is not None:
            return outcome
    # A door does not answer refs, and lists few errors.
    if len(batch.times) > SURELY_ANSWERED and refusal in ("strict", "all"):
        refuse_long_answer(routed.refs if refs else (), batch.list_rejections())
    outcome, unwritten = _write_puts(context, routed, from_text(oldest), ports, remaining)
    if outcome.refused:
        unwritten = unwritten - _reject_refused(routed, outcome)
        if len(batch.rejections) == len(batch.times):
            refuse_all(context, batch, refusal)
    if unwritten or routed.waiting:
        layouts = [context.rules.layout, *(entry.layout for entry in routed.entries)]
        _queue_events(context, list_queued(routed, unwritten, layouts), ports)
        unsaved = [own for put, own in zip(routed.puts, routed.members, strict=True) if put.slot in unwritten]
        outcome.queued = len(routed.waiting) + sum(map(len, unsaved))
    outcome.accepted = len(batch.times) - len(batch.rejections) - outcome.queued
    outcome.rejections, outcome.newest = batch.list_rejections() if batch.rejections else [], from_text(newest)
    return outcome


def _write_puts(
    context: RequestContext, routed: Routed, oldest: datetime, ports: Ingest, remaining: Remaining
) -> tuple[Outcome, set[Slot]]:
    """Write as many puts as their tables accept within the budget; also return the slots that are not written.

    ``oldest`` is the oldest time of the request's events. Tables whose circuit is open are not tried, nor slots whose marks
    or notes of rollups may be missing.
    """
    stream, now, puts = context.stream, context.now, routed.puts
    unmarked = done = frozenset[Slot]()
    units = 0.0
    if ports.marks is not None:
        unmarked, done, units = ports.marks.prepare_puts(stream, routed, oldest, now, ports.store)
    if unmarked or done:
        puts = [put for put in puts if put.slot not in unmarked and put.slot not in done]
    tables = {put.table for put in puts}
    # Usually no table was throttled lately.
    shut = {table for table in tables if not ports.circuit.admits(table)} if ports.circuit.trips else set[str]()
    tried = [put for put in puts if put.table not in shut] if shut else puts
    budget = limit_time(WRITE_SECONDS, ports.clock, remaining)
    # An event that a lowered table throttles is queued at once: no request waits for it.
    find_lowered = partial(find_lowered_tables, stream, routed.entries, now)
    writer = Writer(ports.store, ports.large.values, budget, ports.clock, ports.jitter, find_lowered)
    write = writer.store.write
    written = write_puts(writer, tried, write) if routed.refined else writer.retry_writes(write, tried)
    # A put may wait for its data outside, have a full item collection, or be refused for its item. That does not mean that
    # the table is throttled.
    unwilling = (put for put in written.unwritten if not (put.outside or written.is_final(put)))
    throttled = {put.table for put in unwilling} - written.missing_tables
    if throttled:
        ports.circuit.trip(throttled)
    if ports.circuit.trips:
        ports.circuit.close(tables - shut - throttled)
    unwritten = {put.slot for put in written.unwritten} | unmarked
    unwritten |= {put.slot for put in puts if put.table in shut} if shut else set()
    outcome = report_written(context, routed, written, find_lowered() if written.throttles else ())
    outcome.write_units += units
    outcome.packs, outcome.unmarked = len(routed.packs - unwritten), len(unmarked)
    return outcome, unwritten


def _reject_refused(routed: Routed, outcome: Outcome) -> set[Slot]:
    """Reject the events whose put DynamoDB refuses for good, and return their slots; the other events of the request are
    not concerned.
    """
    refused = set[Slot]()
    for put, own in zip(routed.puts, routed.members, strict=True):
        if put.slot in outcome.refused:
            refused.add(put.slot)
            for number in own:
                routed.batch.reject(number, "invalid", f"DynamoDB refuses the event: {outcome.refused[put.slot]}")
                routed.refs[number] = None
    return refused


def _queue_events(context: RequestContext, events: Sequence[Event], ports: Ingest) -> None:
    """Queue events; ProblemError if any event cannot be queued.

    In that case no event of the request is acknowledged, although some events may be stored.
    """
    unqueued = ports.overflow.send(context.stream.name, events, context.at) if events else ()
    if unqueued:
        detail = f"{len(unqueued)} events could be neither stored nor queued; send the whole request again, which is harmless"
        raise ProblemError(Problem(503, "not_durable", detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)}))
