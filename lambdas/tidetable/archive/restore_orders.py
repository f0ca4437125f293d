"""The restore of a range of periods: an order, its periods, and pieces of these, which several workers write and compare.

All of them are work items. An order has some periods under way (``restore_range``). A period goes through steps: its
table is made and its files are divided into pieces; when all are written, the table is divided into pieces that are
compared; when all are compared, the table is opened to queries. The record of a period says which step it is at. Pieces
of other steps do not count, so a worker that was overtaken changes nothing. Without its order, a period is given up.

Orders of a stream are worked on one after another. The names of all items begin with the stream and the instant when
the order was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidetable.archive.manifest import Part
from tidetable.work.claim import ItemName, RecordUnread, WorkItem, WorkRecords, refuse_unread, rests
from tidetable.work.schedule import DueItem, WorkQueue, WorkReport, wake_workers

# The kind of work.
RESTORE = "restore"
# The pieces of a period have about so many events each, unless that were more than ``MOST_PIECES``.
PIECE_EVENTS = 1_000_000
MOST_PIECES = 1_000
_Memo = TypeVar("_Memo")


class RangeMemo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the record of an order says: its first and last period, how many days their tables are kept, and how many
    periods with how many events were to be restored when it was made.
    """

    first: str
    last: str
    keep: int
    periods: int
    events: int


class PeriodMemo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the record of a period says: its ``step``, and how many pieces that has. The period has ``events``.

    At the step 0 nothing is begun. The pieces write files or, if it is ``comparing``, compare the table.
    """

    events: int
    step: int = 0
    count: int = 0
    comparing: bool = False


class RestorePieceMemo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the record of a piece says.

    A piece to write has the rows ``[start, end)`` of a file with this ``key`` and ``sha256``. A piece to compare is a
    segment of ``segments`` of the table's scan; ``after`` is the key after which it goes on. ``items`` and ``digest``
    describe what is written or compared.
    """

    key: str = ""
    sha256: str = ""
    start: int = 0
    end: int = 0
    segments: int = 0
    after: Mapping[str, Any] | None = None
    items: int = 0
    digest: str = "0"


class RestorePiece(NamedTuple):
    """A piece of a period."""

    item: WorkItem
    step: int
    number: int

    def read_memo(self) -> RestorePieceMemo:
        """Read what its record says. Raises RecordUnread."""
        return _read_record(self.item, RestorePieceMemo)


class RestoredPeriod(NamedTuple):
    """A period of an order, and its pieces by their numbers. ``item`` is None if a worker that was overtaken has added
    pieces after the period was restored.
    """

    item: WorkItem | None
    label: str
    pieces: list[RestorePiece]

    def read_memo(self) -> PeriodMemo:
        """Read what its record says. Raises RecordUnread."""
        return _read_record(self.item, PeriodMemo)

    def list_pieces(self, memo: PeriodMemo) -> list[RestorePiece]:
        """List the pieces that count."""
        return [piece for piece in self.pieces if piece.step == memo.step]

    def list_due(self) -> list[WorkItem]:
        """List what can be done: the pieces that are not done, else the next step of the period."""
        if self.item is None:
            return []
        try:
            memo = self.read_memo()
        except RecordUnread:
            return [self.item]
        return [piece.item for piece in self.list_pieces(memo) if not piece.item.done] or [self.item]


class RestoreOrder(NamedTuple):
    """An order and its periods, the oldest first. ``item`` is None if it was cancelled."""

    stream: str
    made: str
    item: WorkItem | None
    periods: list[RestoredPeriod]

    @property
    def name(self) -> str:
        """The name of its item."""
        return f"{self.stream}#{self.made}"

    def read_memo(self) -> RangeMemo:
        """Read what its record says. Raises RecordUnread."""
        return _read_record(self.item, RangeMemo)

    def find_period(self, label: str) -> RestoredPeriod | None:
        """Find a period that is under way."""
        return next((period for period in self.periods if period.label == label and period.item), None)

    def list_due_of(self, period: RestoredPeriod) -> list[WorkItem]:
        """List what can be done for a period. Pieces of a cancelled order are done no more, and its periods are given up."""
        if self.item is None and period.item is not None:
            return [period.item]
        return period.list_due()

    def list_due(self) -> list[WorkItem]:
        """List what can be done for all periods."""
        return [item for period in self.periods for item in self.list_due_of(period)]


def _read_record(item: WorkItem | None, kind: type[_Memo]) -> _Memo:
    """Read what a record says. RecordUnread if it cannot be read, or is removed."""
    if item is None:
        raise RecordUnread("the record is removed")
    with refuse_unread(item):
        return msgspec.json.decode(item.memo, type=kind)


def list_orders(work: WorkRecords, stream: str = "") -> list[RestoreOrder]:
    """List the orders of all streams or of one stream, the oldest first: the first one of a stream is worked on."""
    orders = dict[tuple[str, str], RestoreOrder]()
    periods = dict[tuple[str, ...], RestoredPeriod]()
    for item in work.list_items(RESTORE, f"{stream}#" if stream else ""):
        source, made, *rest = item.name.split("#")
        order = orders.setdefault((source, made), RestoreOrder(source, made, None if rest else item, []))
        if not rest:
            continue
        key, own = (source, made, rest[0]), None if rest[1:] else item
        if key not in periods:
            periods[key] = RestoredPeriod(own, rest[0], [])
            order.periods.append(periods[key])
        if rest[1:]:
            periods[key].pieces.append(RestorePiece(item, int(rest[1]), int(rest[2])))
    return sorted(orders.values(), key=lambda order: (order.stream, order.item is not None, order.made))


def find_order(work: WorkRecords, stream: str, made: str) -> RestoreOrder | None:
    """Find an order."""
    return next((order for order in list_orders(work, stream) if order.made == made), None)


def list_active(orders: Iterable[RestoreOrder]) -> list[RestoreOrder]:
    """List the orders that are worked on: the first one of each stream, and those that were cancelled."""
    active = list[RestoreOrder]()
    for order in orders:
        if order.item is None or not any(one.item and one.stream == order.stream for one in active):
            active.append(order)
    return active


def wake_restores(
    work: WorkRecords, queue: WorkQueue, workers: int, now: datetime, *, again: bool = True, but: str = ""
) -> WorkReport:
    """Send messages for what can be done, as many as the shares of the streams allow; ``again`` for what has failed, too.

    The item with the name ``but`` has a worker.
    """
    pauses, due = work.list_pauses(), list[DueItem]()
    for order in list_active(list_orders(work)):
        # To give up the periods of a cancelled order is no work that rests.
        if order.item is None or not rests(RESTORE, order.stream, pauses):
            items = (item for item in order.list_due() if (again or not item.problem) and item.name != but)
            due += [DueItem(item, order.stream, added=True) for item in items]
    return wake_workers(due, workers, work, queue, now)


def divide_files(files: Sequence[Part]) -> list[RestorePieceMemo]:
    """Divide the files of an archive into pieces."""
    longest = max(PIECE_EVENTS, -(-sum(file.events for file in files) // MOST_PIECES))
    return [
        RestorePieceMemo(key=file.key, sha256=file.sha256, start=start, end=min(start + longest, file.events))
        for file in files
        for start in range(0, file.events, longest)
    ]


def divide_scan(events: int) -> list[RestorePieceMemo]:
    """Divide the scan of a table with so many events into pieces."""
    count = min(max(-(-events // PIECE_EVENTS), 1), MOST_PIECES)
    return [RestorePieceMemo(segments=count)] * count


def add_pieces(work: WorkRecords, period: str, step: int, pieces: Iterable[RestorePieceMemo]) -> None:
    """Add the pieces of a step that do not exist; ``period`` is the name of its item."""
    for number, memo in enumerate(pieces):
        work.add(RESTORE, f"{period}#{step:03d}#{number:05d}", msgspec.json.encode(memo).decode())


def cancel_restores(work: WorkRecords, stream: str) -> list[RestoreOrder]:
    """Remove the orders of a stream, and return them. Workers then give up their periods; restored ones stay."""
    orders = [order for order in list_orders(work, stream) if order.item is not None]
    for order in orders:
        work.remove(RESTORE, order.name)
    return orders


def describe_order(order: RestoreOrder, left: int, events: int, now: datetime) -> dict[str, Any]:
    """Describe how far an order is, with ``left`` periods of so many ``events`` that are not restored yet.

    ``written`` and ``compared`` are events of periods under way. ``oldest`` is how many seconds an item has waited for a
    worker, and ``problem`` says why one failed.
    """
    memo, written, compared = order.read_memo(), 0, 0
    items = [item for period in order.periods for item in period.list_due()]
    for period in order.periods:
        # What cannot be read is not counted; its worker notes the problem.
        with suppress(RecordUnread):
            at_step = period.read_memo()
            done = sum(piece.read_memo().items for piece in period.list_pieces(at_step))
            written += at_step.events if at_step.comparing else done
            compared += done if at_step.comparing else 0
    waiting = [now - item.waiting for item in items if item.waiting is not None]
    return {
        "first": memo.first,
        "last": memo.last,
        "keep_days": memo.keep,
        "periods": memo.periods,
        "left": left,
        "events": memo.events,
        "left_events": events,
        "written": written,
        "compared": compared,
        "pieces": len(items),
        "running": sum(item.is_claimed(now) for item in items),
        "oldest": int(max(waiting).total_seconds()) if waiting else 0,
        "problem": next((item.problem for item in items if item.problem), None),
    }


def name_period(order: RestoreOrder, label: str) -> ItemName:
    """Name the item of a period."""
    return ItemName(RESTORE, f"{order.name}#{label}")
