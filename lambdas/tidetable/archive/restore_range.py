"""The periods of a range: which can be restored, and which come next."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from tidetable.archive.exporter import Exporter
from tidetable.archive.restore_orders import (
    RESTORE,
    PeriodMemo,
    RangeMemo,
    RestoreOrder,
    find_order,
    list_active,
    list_orders,
    name_period,
)
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import LIVE, Entry
from tidetable.periods import parse_label
from tidetable.times import to_micros, to_text
from tidetable.work.claim import RecordUnread

# The tables of so many periods are filled at the same time, or fewer with so many events: each worker lists the records of
# its order.
PERIODS_AT_ONCE = 20
EVENTS_AT_ONCE = 100_000_000


def explain_refusal(entry: Entry) -> str | None:
    """Explain why a period cannot be restored; None if it can be restored. Its archive has been ``mark_expired``."""
    name = f"period {entry.period.label} of {entry.stream}"
    if entry.state in LIVE:
        return f"{name} is {entry.state}: it has its table"
    if entry.archive is None:
        return f"{name} was deleted without an archive"
    if entry.archive.expired_at is not None:
        return f"the archive of {name} expired at {to_text(entry.archive.expired_at)}"
    return None


def list_range(stream: str, first: str, last: str, exporter: Exporter) -> list[Entry]:
    """List the periods of a stream from one to another, both included, as they are now."""
    start, end, now = parse_label(first).start, parse_label(last).start, exporter.clock.now()
    entries = exporter.catalog.entries(stream, start, end, consistent=True)
    return [mark_expired(entry, exporter.config, now) for entry in entries if start <= entry.period.start <= end]


def order_restore(stream: str, first: str, last: str, keep: int, exporter: Exporter) -> RestoreOrder | None:
    """Order that workers restore the periods of a range that can be restored; the tables are kept for ``keep`` days.

    An order of the same range is joined. An order of another range is worked on first. None if there is nothing to do.
    """
    chosen = [entry for entry in list_range(stream, first, last, exporter) if explain_refusal(entry) is None]
    if not chosen:
        return None
    for order in list_orders(exporter.work, stream):
        if order.item is not None and (order.read_memo().first, order.read_memo().last) == (first, last):
            return order
    events = sum(entry.archive.events for entry in chosen if entry.archive is not None)
    made = f"{to_micros(exporter.clock.now()) // 1000:013d}"
    memo = msgspec.json.encode(RangeMemo(first, last, keep, len(chosen), events)).decode()
    exporter.work.add(RESTORE, f"{stream}#{made}", memo)
    return find_order(exporter.work, stream, made)


def find_left(order: RestoreOrder, exporter: Exporter) -> list[Entry]:
    """Find the periods of an order that are not restored yet."""
    memo = order.read_memo()
    entries = list_range(order.stream, memo.first, memo.last, exporter)
    return [entry for entry in entries if explain_refusal(entry) is None]


def follow_orders(exporter: Exporter, stream: str = "") -> None:
    """Add the next periods of the orders that are worked on, and remove an order whose periods are all restored.

    Two runs may do it at the same time, or late: a period that is restored already is removed again by its worker.
    """
    for order in list_active(list_orders(exporter.work, stream)):
        for period in order.periods:
            if period.item is None:
                for piece in period.pieces:
                    exporter.work.remove(RESTORE, piece.item.name)
        if order.item is not None:
            # An order that cannot be read stops no other.
            with suppress(RecordUnread):
                _add_periods(order, exporter)


def _add_periods(order: RestoreOrder, exporter: Exporter) -> None:
    left, under_way = find_left(order, exporter), [period for period in order.periods if period.item]
    labels, events = {period.label for period in under_way}, 0
    for period in under_way:
        with suppress(RecordUnread):
            events += period.read_memo().events
    for entry in left:
        if entry.period.label not in labels and len(labels) < PERIODS_AT_ONCE and events < EVENTS_AT_ONCE:
            count = entry.archive.events if entry.archive is not None else 0
            memo = msgspec.json.encode(PeriodMemo(count)).decode()
            exporter.work.add(RESTORE, name_period(order, entry.period.label).name, memo)
            labels.add(entry.period.label)
            events += count
    if not left:
        # A period that cannot be restored any more is given up.
        exporter.work.remove(RESTORE, order.name)
