"""The use case of a request: decode, judge, route, write, and queue what could not be written in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidetable.catalog import Backfill, Entry
from tidetable.config import Config, Stream
from tidetable.ingest.bodies import decode_body
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.known import KnownPeriods
from tidetable.ingest.routing import Outside, Routed, route
from tidetable.ingest.verdicts import Candidate, Judge, Rejection, Window
from tidetable.ingest.versions import write_packed
from tidetable.ingest.writing import Jitter, Remaining, write_with_retries
from tidetable.keys import Layout
from tidetable.large.pack import Packer
from tidetable.late import lowered_tables
from tidetable.ports import CatalogReader, Clock, EventStore, Overflow, Put, Written
from tidetable.problems import Problem, ProblemError, refuse, unknown_stream
from tidetable.times import to_micros, to_text
from tidetable.values import MAX_ITEM_BYTES

RETRY_AFTER_SECONDS = 5
# So long a request waits for a table that is throttled; what is not written by then is queued.
WRITE_BUDGET = timedelta(seconds=15)
_MOST_KEY_BYTES = 80_000
# Of a request that is refused whole, so many errors are listed: nothing of it was written, so none needs to be sorted out.
LISTED = 100


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """A request as the gateway hands it over."""

    stream: str
    body: bytes
    content_type: str = ""
    strict: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of a request; ``refs`` goes by the index of the events sent, None where one was rejected.

    ``throttled`` counts throttled writes, ``throttled_late`` those of tables that are lowered for late events; ``reasons`` counts
    why, in DynamoDB's words. ``backfills`` are those under way, None if they were not looked up, as no event was older than the
    window.
    """

    accepted: int
    queued: int
    rejections: list[Rejection]
    refs: list[str | None]
    window: Window
    write_units: float = 0.0
    throttled: int = 0
    throttled_late: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    newest: datetime | None = None
    backfills: Sequence[Backfill] | None = None

    @property
    def status(self) -> int:
        """200 if all that was taken is stored, 202 if some of it waits in the queue."""
        return 202 if self.queued else 200

    def document(self) -> dict[str, Any]:
        """The answer's body."""
        window: dict[str, Any] = {"oldest": to_text(self.window.oldest), "newest": to_text(self.window.newest)}
        if self.backfills is not None:
            window["backfills"] = [one.document() for one in self.backfills]
        document: dict[str, Any] = {
            "accepted": self.accepted,
            "queued": self.queued,
            "rejected": len(self.rejections),
            "refs": self.refs,
            "window": window,
        }
        if self.rejections:
            document["errors"] = errors_of(self.rejections)
        return document


def errors_of(rejections: Sequence[Rejection]) -> list[dict[str, Any]]:
    """The rejections as the API lists them."""
    return [{"index": one.index, "id": one.id, "code": one.code, "detail": one.detail} for one in rejections]


@dataclass(slots=True)
class Ingest:
    """What a request needs besides itself."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    overflow: Overflow
    clock: Clock
    jitter: Jitter
    circuit: Circuit
    outside: Outside
    known: KnownPeriods = field(default_factory=KnownPeriods)


def ingest(request: IngestRequest, parts: Ingest, remaining: Remaining) -> Outcome:
    """Take a request's events; ProblemError for one that is refused whole, with nothing written."""
    stream = parts.config.streams.get(request.stream)
    if stream is None:
        raise unknown_stream(request.stream, parts.config.streams)
    api = parts.config.api
    candidates = decode_body(request.body, request.content_type, max_body=api.max_body, max_events=api.max_events)
    now = parts.clock.now()
    window = Window.of(stream, now)
    layout, at = stream.layout, to_micros(now) // 1000
    imports = _Imports(stream.name, parts.catalog, now)
    packer = Packer.of(stream, parts.outside.compressor, parts.outside.unique)
    small = packer.compress_above is None and _is_small(request.body, layout)
    judge = Judge(stream, layout, window, now, imports, small=small, packs=packer.packs, at=at)
    accepted = _Accepted(judge, candidates)
    _refuse_whole(accepted.rejections, len(candidates), request)
    times = [one.event.time for one in accepted.taken]
    entries = _entries(stream.name, min(times), max(times), window, now, parts)
    routed = route(stream.name, accepted.taken, entries, packer, layout=layout, oldest=window.oldest, now=now, at=at)
    accepted.seal(routed.sealed, stream)
    accepted.refuse_large(routed.oversized)
    _refuse_whole(accepted.rejections, len(candidates), request)
    lowered = lowered_tables(stream, entries, now)
    outcome = _store(stream, accepted, routed, lowered, window, at, parts, remaining)
    outcome.backfills = imports.running
    return outcome


def _entries(
    stream: str, oldest: datetime, newest: datetime, window: Window, now: datetime, parts: Ingest
) -> Sequence[Entry]:
    """The periods from the oldest event of the request to its newest. What was kept of them serves the window alone."""
    if oldest < window.oldest:
        return parts.catalog.entries(stream, oldest, newest)
    return parts.known.covering(parts.catalog, stream, oldest, newest, now)


def _is_small(body: bytes, layout: Layout) -> bool:
    """Whether no plain event of the body can be beyond DynamoDB's limit: its fields take no more than their JSON does.

    The keys of the table and of twenty indexes take 80 KB at the most, and an index may hold fields once more. What is
    compressed says nothing of its size.
    """
    copies = 1 + sum(bool(index.project) for index in layout.indexes)
    return len(body) * copies < MAX_ITEM_BYTES - _MOST_KEY_BYTES and not body.startswith(b"\x1f\x8b")


class _Imports:
    """Whether a backfill takes a time. It is looked up for the first event that needs it, which in most requests is none."""

    def __init__(self, stream: str, catalog: CatalogReader, now: datetime) -> None:
        self._stream = stream
        self._catalog = catalog
        self._now = now
        self.running: Sequence[Backfill] | None = None

    def __call__(self, time: datetime) -> bool:
        if self.running is None:
            self.running = [one for one in self._catalog.backfills(self._stream) if self._now < one.opened.until]
        return any(one.holds(time, self._now) for one in self.running)


class _Accepted:
    """The events of a request that stand so far, with their indexes in it."""

    def __init__(self, judge: Judge, candidates: Sequence[Any]) -> None:
        self._candidates = candidates
        self.count = len(candidates)
        judged = [judge(index, one) for index, one in enumerate(candidates)]
        self.rejections = [one for one in judged if type(one) is Rejection]
        self.taken = [one for one in judged if type(one) is Candidate]
        self.indexes: Sequence[int] = range(self.count)
        if self.rejections:
            self.indexes = [index for index, one in enumerate(judged) if type(one) is Candidate]

    def seal(self, sealed: Sequence[int], stream: Stream) -> None:
        """Reject the events whose period takes no more writes."""
        for index in sealed:
            at = self.indexes[index]
            detail = (
                f"the period of {to_text(self.taken[index].event.time)} in {stream.name} is archived, or not open yet"
            )
            self.rejections.append(Rejection.of(at, self._candidates[at], "too_old", detail))
        self.rejections.sort(key=lambda one: one.index)

    def refuse_large(self, oversized: Sequence[int]) -> None:
        """Reject the events that are too large for every remedy."""
        for index in oversized:
            at = self.indexes[index]
            detail = f"the event takes {self.taken[index].size} bytes, more than its period's tables can keep"
            self.rejections.append(Rejection.of(at, self._candidates[at], "too_large", detail))
        self.rejections.sort(key=lambda one: one.index)


def _refuse_whole(rejections: Sequence[Rejection], count: int, request: IngestRequest) -> None:
    if not rejections or not (request.strict or len(rejections) == count):
        return
    listed = {"rejected": len(rejections), "errors": errors_of(rejections[:LISTED])}
    more = f"; errors lists the first {LISTED} of {len(rejections)}" if len(rejections) > LISTED else ""
    if request.strict:
        detail = f"{len(rejections)} of {count} events are refused, so with handling=strict nothing was written{more}"
        raise refuse(400, "strict", detail, **listed)
    raise refuse(422, "all_refused", f"every event was refused; nothing was written{more}", **listed)


def _store(
    stream: Stream,
    accepted: _Accepted,
    routed: Routed,
    lowered: frozenset[str],
    window: Window,
    at: int,
    parts: Ingest,
    remaining: Remaining,
) -> Outcome:
    # The last event of a key wins, as it would if each had come in a request of its own; versions are all kept.
    holders: dict[tuple[object, ...], int] = (
        {(put.table, put.item["pk"], put.item["sk"]): index for index, put in routed.puts.items()}
        if routed.plain
        else {_holder(index, put): index for index, put in routed.puts.items()}
    )
    written = _write([routed.puts[index] for index in holders.values()], routed, lowered, parts, remaining)
    waiting = list(routed.homeless)
    if written.unwritten:
        unwritten = {id(put) for put in written.unwritten}
        waiting += [index for index in holders.values() if id(routed.puts[index]) in unwritten]
        waiting.sort()
    unsafe = parts.overflow.send(stream.name, [accepted.taken[index].event for index in waiting], at) if waiting else []
    if unsafe:
        raise _not_durable(len(unsafe))
    refs: list[str | None] = list(routed.refs.values())
    if len(refs) < accepted.count:
        refs = [None] * accepted.count
        for index, ref in routed.refs.items():
            refs[accepted.indexes[index]] = ref
    queued = len(routed.homeless)
    if written.unwritten:
        # A duplicate shares the fate of the event that stands for it.
        late = {put.place for put in written.unwritten if "version" not in put.item}
        queued += sum(put.place in late for put in routed.puts.values())
        queued += sum("version" in put.item for put in written.unwritten)
    return Outcome(
        accepted=len(accepted.taken) - len(routed.sealed) - len(routed.oversized) - queued,
        queued=queued,
        rejections=accepted.rejections,
        refs=refs,
        window=window,
        write_units=written.units,
        throttled=sum(count for table, count in written.throttles.items() if table not in lowered),
        throttled_late=sum(count for table, count in written.throttles.items() if table in lowered),
        reasons=written.reasons,
        newest=max([one.event.time for one in accepted.taken], default=None),
    )


def _holder(index: int, put: Put) -> tuple[object, ...]:
    """What one put stands for in a request: all of its place or, as a version, itself."""
    return put.place if "version" not in put.item else (index,)


def _write(
    puts: Sequence[Put], routed: Routed, lowered: frozenset[str], parts: Ingest, remaining: Remaining
) -> Written:
    """Write what the tables take within the budget; those of tables that are left alone for now are not tried."""
    shut = {table for table in routed.tables if not parts.circuit.admits(table)}
    tried = [put for put in puts if put.table not in shut] if shut else puts
    budget = _budget(remaining, parts.clock.now() + WRITE_BUDGET, parts.clock)
    # What a lowered table throttles is queued at once: no request waits for it.
    options: dict[str, Any] = {"remaining": budget, "clock": parts.clock, "jitter": parts.jitter, "once": lowered}
    if routed.plain:
        written = write_with_retries(parts.store, tried, **options)
    else:
        written = write_packed(parts.store, parts.outside.values, tried, parts.store.write, **options)
    # What has parts or an object may wait for those, and says nothing of the table.
    late = {put.table for put in written.unwritten if not (put.parts or put.blob)} - written.missing_tables
    parts.circuit.tripped(late)
    parts.circuit.closed(routed.tables - shut - late)
    written.unwritten += [put for put in puts if put.table in shut]
    return written


def _budget(remaining: Remaining, end: datetime, clock: Clock) -> Remaining:
    return lambda: min(remaining(), (end - clock.now()).total_seconds())


def _not_durable(count: int) -> ProblemError:
    return ProblemError(
        Problem(
            503,
            "not_durable",
            f"{count} events could be neither stored nor queued; send the whole request again, which is harmless",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    )
