"""The use case of a request: judge, route and write its events; queue the events that were not written in time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tidetable.access import FULL, Access
from tidetable.catalog import Entry
from tidetable.config import Config
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.ingest.bodies import Body, SentRaw, decode_body, decode_raw, read_body
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.context import RequestContext
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
from tidetable.ingest.routing import Routed, route_submissions
from tidetable.ingest.submission import Durable, Rejection, Slot, Submission, list_rejections
from tidetable.ingest.verdicts import judge_all
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.late import find_lowered_tables
from tidetable.layout import Layout
from tidetable.ports import CatalogReader, Clock, EventStore, Overflow
from tidetable.problems import Problem, ProblemError, refuse_request, refuse_unknown_stream
from tidetable.remaining import Remaining, limit_time
from tidetable.times import from_text
from tidetable.values import MAX_ITEM_BYTES

if TYPE_CHECKING:
    from tidetable.ingest.marks import Marks

RETRY_AFTER_SECONDS = 5
# A request waits at most this time for a throttled table; events that are not written by then are queued.
WRITE_SECONDS = 15.0
# AWS: a partition key has at most 2,048 bytes, a sort key 1,024. The rest is for the names of attributes.
_KEY_BYTES = 4_000


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
    # None if no stream has rollups.
    marks: Marks | None = None


def ingest_body(request: IngestRequest, ports: Ingest, remaining: Remaining) -> Outcome:
    """Store the events of a request; ProblemError if the whole request is refused, and then nothing is written."""
    context, api = _begin_request(request.stream, request.access, ports), ports.config.api
    body = read_body(request.body, request.content_type, max_body=api.max_body, encoding=request.encoding)
    small = _is_small(body, context.layout)
    if choose_form(context.stream.layout).reads_columns:
        sent = decode_raw(body, max_events=api.max_events)
        outcome = _ingest_columns(context, sent, ports, remaining, small=small, refs=request.refs)
        if outcome is not None:
            return outcome
    values = decode_body(body, max_events=api.max_events)
    refusal: Refusal = "strict" if request.strict else "all"
    return _ingest_each(context, values, ports, remaining, refusal=refusal, small=small, refs=request.refs)


def ingest_values(
    stream: str,
    values: Sequence[Any],
    ports: Ingest,
    remaining: Remaining,
    *,
    strict: bool = False,
    access: Access = FULL,
) -> Outcome:
    """Store events that a dialect has decoded: ``Sent``, or ``Unreadable`` with the reason.

    The caller limits the number of values. The outcome lists every rejection, even if all events are rejected. If
    ``strict``, any rejection means that nothing is written. ProblemError for a stream that takes no events.
    """
    context = _begin_request(stream, access, ports)
    return _ingest_each(context, values, ports, remaining, refusal="whole" if strict else "none")


def _begin_request(name: str, access: Access, ports: Ingest) -> RequestContext:
    """Make the context of a request; ProblemError if there is no such stream, or if it is a rollup."""
    stream = ports.config.streams.get(name)
    if stream is None:
        raise refuse_unknown_stream(name, ports.config.streams)
    if stream.source:
        detail = f"{stream.name} is a rollup of {stream.source}, which the pipeline itself writes: send events to {stream.source}"
        raise refuse_request(403, "derived_stream", detail)
    return RequestContext.of(stream, ports.clock.now(), access, ports.catalog.backfills)


def _ingest_each(
    context: RequestContext,
    values: Sequence[Any],
    ports: Ingest,
    remaining: Remaining,
    *,
    refusal: Refusal,
    small: bool = False,
    refs: bool = True,
) -> Outcome:
    """Judge decoded values, and make the accepted events durable. ``small`` says that no event needs to be measured.

    Without ``refs`` the answer does not list them.
    """
    shrinker = Shrinker.of(context.stream, ports.large)
    verdicts = judge_all(context, values, small=small and shrinker.compress_above is None)
    outcome = refuse_all(context, verdicts, refusal)
    if outcome is not None:
        return outcome
    submissions = [verdict for verdict in verdicts if type(verdict) is Submission]
    times = [submission.event.time for submission in submissions]
    entries = _read_entries(context, min(times), max(times), ports)
    routed = route_submissions(context, submissions, entries, shrinker)
    outcome = refuse_all(context, verdicts, refusal)
    if outcome is not None:
        return outcome
    # A door does not answer refs, and lists few errors.
    if len(values) > SURELY_ANSWERED and refusal in ("strict", "all"):
        refuse_long_answer(routed.refs if refs else (), list_rejections(verdicts))
    outcome, unwritten = _write_puts(context, routed, min(times), len(values), ports, remaining)
    if outcome.refused:
        _reject_refused(submissions, outcome)
        if all(type(submission.fate) is Rejection for submission in submissions):
            refuse_all(context, verdicts, refusal)
    for submission in submissions:
        if submission.fate is None:
            submission.fate = Durable.QUEUED if unwritten and submission.slot in unwritten else Durable.STORED
    fates = [submission.fate for submission in submissions]
    outcome.accepted, outcome.queued = fates.count(Durable.STORED), fates.count(Durable.QUEUED)
    if outcome.queued:
        _queue_events(context, list_queued(submissions, context.layout, entries), ports)
    is_whole = outcome.accepted + outcome.queued == len(values)
    outcome.rejections, outcome.newest = [] if is_whole else list_rejections(verdicts), max(times)
    return outcome


def _ingest_columns(
    context: RequestContext, sent: Sequence[SentRaw], ports: Ingest, remaining: Remaining, *, small: bool, refs: bool
) -> Outcome | None:
    """Store the events of a stream with packs by columns; None, with nothing written, if any event is unusual.

    Also None if DynamoDB refuses a pack: the general way writes the same packs again, and knows the events to reject.
    """
    from tidetable.ingest.columns import read_batch, route_batch

    batch = read_batch(context, sent, small=small)
    if batch is None:
        return None
    oldest, newest = from_text(min(batch.times)), from_text(max(batch.times))
    entries = _read_entries(context, oldest, newest, ports)
    bound = route_batch(context, batch, entries, ports.large.compressor)
    if bound is None:
        return None
    routed, members = bound
    if refs and len(sent) > SURELY_ANSWERED:
        refuse_long_answer(routed.refs, ())
    outcome, unwritten = _write_puts(context, routed, oldest, len(sent), ports, remaining)
    if outcome.refused:
        return None
    # The events of one pack stay together, so that the drain can pack them again.
    waiting = [batch.decode(number) for slot, numbers in members.items() if slot in unwritten for number in numbers]
    _queue_events(context, waiting, ports)
    outcome.accepted, outcome.queued, outcome.newest = len(sent) - len(waiting), len(waiting), newest
    return outcome


def _read_entries(context: RequestContext, oldest: datetime, newest: datetime, ports: Ingest) -> Sequence[Entry]:
    """Return the periods of the request's events. Remembered entries are used only if no event is before the window."""
    stream = context.stream.name
    if context.window.is_too_old(oldest):
        return ports.catalog.entries(stream, oldest, newest)
    return ports.known.find_covering(ports.catalog, stream, oldest, newest, context.now)


def _is_small(body: Body, layout: Layout) -> bool:
    """True if no plain event of the body can exceed DynamoDB's limit: its fields take at most the bytes of their JSON.

    The item has its keys and, for each index, keys and perhaps a copy of the fields. Each local index may hold all of it.
    """
    indexes = layout.indexes
    fields = len(body.text) * (1 + sum(bool(index.project) for index in indexes))
    return (fields + _KEY_BYTES * (1 + len(indexes))) * (1 + len(layout.local_indexes)) < MAX_ITEM_BYTES


def _write_puts(
    context: RequestContext, routed: Routed, oldest: datetime, count: int, ports: Ingest, remaining: Remaining
) -> tuple[Outcome, Collection[Slot]]:
    """Write as many puts as their tables accept within the budget; also return the slots that are not written.

    ``oldest`` is the oldest time of the request's ``count`` events. Tables whose circuit is open are not tried, nor slots
    whose marks or notes of rollups may be missing. ``routed.packs`` then has only the packs that were written.
    """
    stream, now, puts = context.stream, context.now, routed.puts
    lowered, unmarked = find_lowered_tables(stream, routed.entries, now), frozenset[Slot]()
    if stream.rollup and ports.marks is not None:
        unmarked = ports.marks.mark_and_note_events(stream, routed, oldest, now)
    if unmarked:
        puts = {slot: put for slot, put in puts.items() if slot not in unmarked}
        routed.tables = {put.table for put in puts.values()}
    shut = {table for table in routed.tables if not ports.circuit.admits(table)}
    tried = [put for put in puts.values() if put.table not in shut]
    budget = limit_time(WRITE_SECONDS, ports.clock, remaining)
    # An event that a lowered table throttles is queued at once: no request waits for it.
    writer = Writer(ports.store, ports.large.values, budget, ports.clock, ports.jitter, lowered)
    write = writer.store.write
    written = writer.retry_writes(write, tried) if routed.all_plain else write_puts(writer, tried, write)
    # A put may wait for its data outside, have a full item collection, or be refused for its item. That does not mean that
    # the table is throttled.
    unwilling = (put for put in written.unwritten if not (put.outside or written.is_final(put)))
    throttled = {put.table for put in unwilling} - written.missing_tables
    ports.circuit.trip(throttled)
    ports.circuit.close(routed.tables - shut - throttled)
    unwritten = {put.slot for put in written.unwritten} | unmarked
    unwritten |= {slot for slot, put in puts.items() if put.table in shut}
    routed.packs -= unwritten
    outcome = report_written(context, routed, written, lowered, count)
    outcome.unmarked = len(unmarked)
    return outcome, unwritten


def _reject_refused(submissions: Sequence[Submission], outcome: Outcome) -> None:
    """Reject the events whose put DynamoDB refuses for good; the other events of the request are not concerned."""
    for submission in submissions:
        if submission.fate is None and submission.slot in outcome.refused:
            submission.reject("invalid", f"DynamoDB refuses the event: {outcome.refused[submission.slot]}")
            outcome.refs[submission.index] = None


def _queue_events(context: RequestContext, events: Sequence[Event], ports: Ingest) -> None:
    """Queue events; ProblemError if any event cannot be queued.

    In that case no event of the request is acknowledged, although some events may be stored.
    """
    unqueued = ports.overflow.send(context.stream.name, events, context.at) if events else ()
    if unqueued:
        detail = f"{len(unqueued)} events could be neither stored nor queued; send the whole request again, which is harmless"
        raise ProblemError(Problem(503, "not_durable", detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)}))
