"""The work on items of rollups: the rollups of a stream, parts of its long buckets, and pieces of rebuilds.

A run claims an item, and may stop after any request. Each step can be repeated: the next run does an unfinished step again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from operator import attrgetter
from zlib import crc32

import msgspec

from tidetable.errors import StoreUnavailable, TableThrottled, describe_error
from tidetable.query.model import RESERVE
from tidetable.remaining import limit_time
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import PART, BucketPart, compute_part, list_parts, read_part, remove_parts
from tidetable.rollups.claims import SEAL, hold_item, shut_out_former
from tidetable.rollups.last_periods import cover_ended
from tidetable.rollups.rebuild import REBUILD, list_rebuilds, read_piece
from tidetable.rollups.rebuild_piece import compute_piece
from tidetable.rollups.rebuild_turn import is_in_piece, needs_turn
from tidetable.rollups.run import RefreshReport, RefreshRun
from tidetable.rollups.seal import seal_stream
from tidetable.rollups.services import BucketBlocked, Divided, Services, ShareUsed, Superseded, Unfinished
from tidetable.work.claim import HeldClaim, ItemName, Pause, WorkItem, rests
from tidetable.work.schedule import DueItem, WorkQueue, wake_workers

# The seconds of a run that a stream may use before the other streams had a turn. A bucket that was begun is finished.
_SHARE = 60.0
# The seconds for which a worker goes on with the items of a stream. Then the next message may be of another stream.
_CHAIN = 60.0
# The item with which a run goes on next counts as begun.
_BEGUN = timedelta(minutes=1)
_SIZES = msgspec.json.Decoder(dict[str, int]).decode


class RollupWorker:
    """The work of one run. ``definitions`` are the rollups of each stream, and ``pauses`` say what rests."""

    def __init__(
        self,
        definitions: Mapping[str, Sequence[Definition]],
        services: Services,
        owner: str,
        pauses: frozenset[Pause],
    ) -> None:
        self._definitions = definitions
        self._services = services
        self._owner = owner
        self._pauses = pauses
        self.report = RefreshReport()
        # True if a bucket waits for its parts.
        self.has_divided = False

    def work_on(self, name: ItemName) -> ItemName | None:
        """Work on an item, unless it rests or another run has it; return the item with which its stream goes on.

        An item that fails is reported. An item that the configuration does not know any more is removed.
        """
        source = name.name.partition("#")[0]
        if rests(SEAL, source, self._pauses):
            return None
        try:
            if name.kind == PART:
                return self._work_on_part(name.name)
            if name.kind == REBUILD:
                return self._work_on_piece(name.name)
            if self._seal_stream(source):
                return self._find_piece(source)
        except ShareUsed:
            return ItemName(SEAL, source)
        except Divided:
            self.has_divided = True
            return self._find_free(list_parts(self._services, source))
        except Unfinished:
            self.report.finished = False
        except Exception as error:  # for example a damaged pack of this stream, which each run finds again
            self.report.failed.append(f"{source}: {describe_failure(error)}")
        return None

    def _seal_stream(self, source: str) -> bool:
        """Seal the rollups of a stream; return True if it has rebuilds."""
        definitions = self._sort_definitions(source)
        with hold_item(self._services, SEAL, source, self._owner) as (held, services):
            share = limit_time(_SHARE, services.clock, services.remaining)
            if held is None:
                self.report.left.append(source)
            if held is None or not (definitions or source in {stream.name for stream in services.config.listed}):
                return False
            if not definitions:
                with _note_problem(held):
                    cover_ended(RefreshRun(source, (), services, self.report, share))
                return False
            # Only the run that has the stream adds parts of its buckets and pieces, so none are added from here on.
            parts, sizes = list_parts(services, source), dict[str, int]()
            # They are only a hint: without them, a long bucket is found to be long while it is read.
            with suppress(msgspec.MsgspecError):
                sizes = _SIZES(held.memo or "{}")
            # They are read before the marks: a mark of a new event that is left then came after its piece was finished.
            rebuilds = list_rebuilds(services, source)
            divided = {(part.rollup, part.bucket) for part in parts if not is_in_piece(part, rebuilds)}
            run = RefreshRun(source, definitions, services, self.report, share, parts, rebuilds, (), sizes, divided)
            try:
                with _note_problem(held):
                    seal_stream(run)
            finally:
                held.memo = msgspec.json.encode(sizes, order="sorted").decode()
        return bool(rebuilds)

    def _work_on_part(self, name: str) -> ItemName | None:
        """Compute a part. The stream goes on with another part, or after the last part of a bucket with its sealing."""
        if self._services.remaining() <= RESERVE:
            raise Unfinished("the time is up")
        with hold_item(self._services, PART, name, self._owner, added=True) as (held, services):
            if held is None:
                self.report.left.append(name)
                return None
            with _note_problem(held):
                part = read_part(WorkItem(PART, name, held.memo))
                rollups = self._definitions.get(part.source, ())
                definition = next((rollup for rollup in rollups if rollup.name == part.rollup), None)
                if definition is None:
                    remove_parts([part], services)
                    return None
                compute_part(part, held, definition, services)
        siblings = list_parts(services, part.source)
        if not any(other.item.name == name for other in siblings):
            # The part was removed while it was computed: nobody would remove its cells.
            services.rollups.clear_part(name)
        same = [other for other in siblings if (other.rollup, other.bucket) == (part.rollup, part.bucket)]
        return ItemName(SEAL, part.source) if all(other.item.done for other in same) else self._find_free(siblings)

    def _work_on_piece(self, name: str) -> ItemName | None:
        """Compute a piece of a rebuild. The stream goes on with counting it, or with another piece."""
        services = self._services
        if services.remaining() <= RESERVE:
            raise Unfinished("the time is up")
        now = services.clock.now()
        source, rollup, *_ = name.split("#")
        definitions = self._sort_definitions(source)
        definition = next((one for one in definitions if one.name == rollup), None)
        if definition is None:
            services.work.remove(REBUILD, name)
            return None
        with hold_item(services, REBUILD, name, self._owner, added=True) as (held, services):
            if held is None:
                self.report.left.append(name)
                return None
            try:
                with _note_problem(held):
                    piece = read_piece(WorkItem(REBUILD, name, held.memo))
                    if not piece.is_ready(now):
                        return None
                    parts = list_parts(services, source, rollup)
                    # Parts that were read before the piece was cut may lack what the rebuild is for.
                    divided = {(part.rollup, part.bucket) for part in parts if part.memo.made >= piece.memo.cut_at}
                    left = services.remaining
                    run = RefreshRun(source, definitions, services, self.report, left, parts, divided=divided)
                    compute_piece(piece, held, definition, run)
            except BucketBlocked as error:
                self.report.blocked.append(f"{definition.stream}: {error}")
                return None
        return self._find_piece(source)

    def _find_piece(self, source: str) -> ItemName | None:
        """Find a piece of a rebuild that no worker has; if the finished ones can be counted, the sealing of the stream."""
        services = self._services
        now, rebuilds = services.clock.now(), list_rebuilds(services, source)
        for rebuild in rebuilds:
            if needs_turn(rebuild, self._sort_definitions(source), rebuilds, now):
                return ItemName(SEAL, source)
        ready = (piece.item for rebuild in rebuilds for piece in rebuild.list_ready(now))
        return next(
            (ItemName(REBUILD, item.name) for item in ready if not item.is_claimed(now) and not item.is_sent(now)), None
        )

    def _sort_definitions(self, source: str) -> list[Definition]:
        """List the rollups of a stream, the finest first."""
        return sorted(self._definitions.get(source, ()), key=attrgetter("every"))

    def _find_free(self, parts: Sequence[BucketPart]) -> ItemName | None:
        """Find a part that no worker has, and for which no message is under way: one of those whose bucket comes first.

        Workers that look at the same time choose different parts, because all but one would end with a part of another.
        """
        now = self._services.clock.now()
        free = [part for part in parts if not (part.item.done or part.item.is_claimed(now) or part.item.is_sent(now))]
        first = [part.item for part in free if part.bucket == free[0].bucket]
        return ItemName(PART, first[crc32(self._owner.encode()) % len(first)].name) if first else None


def list_due_parts(services: Services, pauses: frozenset[Pause]) -> list[DueItem]:
    """List the parts of all streams that are not finished and do not rest, in the order of ``list_parts``.

    Also those whose records cannot be read: a worker that gets one notes why.
    """
    items = sorted(services.work.list_items(PART), key=lambda item: item.name.split("#")[2:3], reverse=True)
    due = [DueItem(item, item.name.partition("#")[0], added=True) for item in items if not item.done]
    return [one for one in due if not rests(SEAL, one.stream, pauses)]


@contextmanager
def _note_problem(held: HeldClaim) -> Iterator[None]:
    """Let the record of an item say why its work failed. That the time is up is no problem."""
    try:
        yield
    except Exception as error:
        held.problem = "" if isinstance(error, Unfinished) else describe_failure(error)
        raise


def describe_failure(error: Exception) -> str:
    """Describe why the work on an item failed."""
    known = isinstance(error, StoreUnavailable | TableThrottled | Superseded | BucketBlocked)
    return str(error) if known else describe_error(error)


def work_on_message(
    name: ItemName,
    definitions: Mapping[str, Sequence[Definition]],
    services: Services,
    queue: WorkQueue,
    workers: int,
    owner: str,
    length: timedelta,
) -> RefreshReport | None:
    """Work on the item of a message, and on those with which its stream goes on; None while a former version works.

    A run that finds a bucket divided wakes workers for the parts at once, as the scheduler would do in the next minute.

    A message may come twice, late, or for an item that has no work any more. The scheduler sends again what gets lost here.
    """
    if (held := shut_out_former(services, length)) is None:
        return None
    pauses = held.work.list_pauses()
    worker = RollupWorker(definitions, held, owner, pauses)
    share = limit_time(_CHAIN, held.clock, held.remaining)
    following: ItemName | None = name
    while following is not None:
        following = worker.work_on(following)
        if worker.has_divided:
            worker.has_divided = False
            _wake_others(following, workers, held, queue, pauses)
        if following is not None and share() <= 0:
            queue.send([following])
            break
    return worker.report


def _wake_others(
    following: ItemName | None, workers: int, services: Services, queue: WorkQueue, pauses: frozenset[Pause]
) -> None:
    """Wake workers for parts, beside the run that goes on with ``following``. Streams that have workers keep their shares."""
    now = services.clock.now()
    sealing = [DueItem(item, item.name) for item in services.work.list_items(SEAL)]
    due = [one for one in sealing if one.item.is_claimed(now) or one.item.is_sent(now)]
    for part in list_due_parts(services, pauses):
        if part.name == following:
            due.append(part._replace(item=part.item._replace(sent=now + _BEGUN)))
        elif not part.item.problem:
            due.append(part)
    wake_workers(due, workers, services.work, queue, now)
