"""The workers of restores. A message names a period, which goes one step on, or a piece, which is written or compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from tidetable.archive.export import RESERVE_SECONDS
from tidetable.archive.restore import PeriodRun, Restorer
from tidetable.archive.restore_orders import (
    RESTORE,
    RestoredPeriod,
    RestoreOrder,
    RestorePiece,
    find_order,
    name_period,
    wake_restores,
)
from tidetable.archive.restore_piece import PieceRun
from tidetable.archive.restore_range import follow_orders
from tidetable.archive.turn import require_entry
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy, TableMissing, TidetableError, describe_error
from tidetable.remaining import Remaining, limit_time
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.work.claim import HeldClaim, ItemName, RecordUnread, hold_claim, rests
from tidetable.work.schedule import WorkReport

# If a worker has used these seconds, it makes room for the other streams.
_CHAIN = 60.0


def wake_workers(restorer: Restorer, *, again: bool = True, but: str = "") -> WorkReport:
    """Wake workers for all restores; ``again`` for items that have failed, too. An item with the name ``but`` has one."""
    exporter = restorer.archive
    workers, now = exporter.config.work.workers, exporter.clock.now()
    return wake_restores(exporter.work, exporter.work_queue, workers, now, again=again, but=but)


def work_on_message(
    name: ItemName, restorer: Restorer, owner: str, remaining: Remaining, *, chain: float = _CHAIN
) -> None:
    """Work on the item of a message, and on others of its order for a minute; then send a message for the next one.

    The message may come twice, late, or after the restore. A failure is noted in the item's record and raised; a later run
    tries again.
    """
    worker = RestoreWorker(restorer, owner, remaining)
    share = limit_time(chain, restorer.archive.clock, remaining)
    try:
        following = worker.work_on(name)
        while following is not None and share() > 0:
            following = worker.work_on(following)
    except ArchiveBusy:
        raise
    except Exception:
        # Others go on with what has not failed.
        wake_workers(restorer, again=False)
        raise
    if following is not None:
        restorer.archive.work_queue.send([following])


@dataclass(slots=True)
class RestoreWorker:
    """The work of one run. ``owner`` is its name in the claims."""

    restorer: Restorer
    owner: str
    remaining: Remaining

    def work_on(self, name: ItemName) -> ItemName | None:
        """Work on a piece, or take a period one step on. Return the next item of the order that nobody has.

        After a step other workers are woken, too.
        """
        found = self._find(name)
        if found is None:
            return None
        order, period = found
        piece = _find_piece(name, order, period)
        if piece is not None:
            self._work_on_piece(piece, order, period)
        elif order.list_due_of(period) == [period.item]:
            self._advance(order, period)
        following = self._find_next(order)
        if piece is None:
            wake_workers(self.restorer, again=False, but=following.name if following is not None else "")
        return following

    def _find_next(self, order: RestoreOrder) -> ItemName | None:
        """Find an item of the order that can be done, and that no worker has."""
        exporter = self.restorer.archive
        now, present = exporter.clock.now(), find_order(exporter.work, order.stream, order.made)
        due = present.list_due() if present is not None else []
        free = (item for item in due if not (item.problem or item.is_claimed(now) or item.is_sent(now)))
        return next((ItemName(RESTORE, item.name) for item in free), None)

    def _find(self, name: ItemName) -> tuple[RestoreOrder, RestoredPeriod] | None:
        """Find the order and the period of an item; None if they are gone, or if the restores of the stream rest."""
        work, (stream, made, label) = self.restorer.archive.work, name.name.split("#")[:3]
        order = find_order(work, stream, made)
        if order is not None and order.item is not None and rests(RESTORE, stream, work.list_pauses()):
            return None
        period = order.find_period(label) if order is not None else None
        return (order, period) if order is not None and period is not None else None

    @contextmanager
    def _claim(self, name: ItemName) -> Iterator[HeldClaim]:
        """Claim an item during the block. ArchiveBusy if another worker has it."""
        exporter = self.restorer.archive
        length = choose_lease_length(timedelta(seconds=self.remaining() + RESERVE_SECONDS))
        with hold_claim(exporter.work, *name, self.owner, exporter.clock.now(), length, added=True) as held:
            if held is None:
                raise ArchiveBusy(f"{name.name} is being restored by another run")
            try:
                yield held
            except Exception as error:
                # To be busy is no problem.
                if not isinstance(error, ArchiveBusy):
                    held.problem = str(error) if isinstance(error, TidetableError) else describe_error(error)
                raise

    def _work_on_piece(self, piece: RestorePiece, order: RestoreOrder, period: RestoredPeriod) -> None:
        catalog = self.restorer.archive.catalog
        with self._claim(ItemName(RESTORE, piece.item.name)) as held:
            # Who opens the period or gives it up sees this claim, or has noted before what is seen here. Another worker
            # may have gone on with the piece since it was listed.
            name = ItemName(RESTORE, piece.item.name)
            found = self._find(name)
            present = _find_piece(name, *found) if found is not None else None
            if present is None:
                return
            entry = require_entry(order.stream, period.label, catalog)
            if entry.state is not State.RESTORING:
                raise ArchiveBusy(f"period {period.label} of {order.stream} is {entry.state}")
            run = PieceRun(entry, piece.number, present.read_memo(), self.restorer, self.remaining)
            try:
                held.done = run.run()
            except TableMissing as error:
                self._begin_anew(order, period)
                raise ArchiveBusy(f"table {entry.table} was deleted meanwhile; a later run makes it anew") from error
            finally:
                held.memo = msgspec.json.encode(run.memo).decode()

    def _advance(self, order: RestoreOrder, period: RestoredPeriod) -> None:
        name = name_period(order, period.label)
        with self._claim(name) as held:
            # Another worker may have gone on with it since it was listed.
            found = self._find(name)
            if found is None:
                return
            run = PeriodRun(*found, held, self.restorer, self.owner, self.remaining)
            if not run.advance():
                return
        follow_orders(self.restorer.archive, order.stream)

    def _begin_anew(self, order: RestoreOrder, period: RestoredPeriod) -> None:
        name = name_period(order, period.label)
        with self._claim(name) as held:
            found = self._find(name)
            if found is not None:
                PeriodRun(*found, held, self.restorer, self.owner, self.remaining).begin_anew()


def _find_piece(name: ItemName, order: RestoreOrder, period: RestoredPeriod) -> RestorePiece | None:
    """Find the piece of a message, if it counts and is not done."""
    if order.item is None:
        return None
    try:
        pieces = period.list_pieces(period.read_memo())
    except RecordUnread:
        # The next step of the period notes it.
        return None
    return next((piece for piece in pieces if piece.item.name == name.name and not piece.item.done), None)
