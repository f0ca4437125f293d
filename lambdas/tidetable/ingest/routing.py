"""Routing: find the period table that takes an event, by the event's own time, and the form of the event's item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidetable.catalog import Entry, State, find_entry_at
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.ingest.context import RequestContext
from tidetable.ingest.puts import make_put
from tidetable.ingest.submission import Durable, Slot, Submission
from tidetable.large.shrink import Shrinker
from tidetable.layout import encode_refs
from tidetable.ports import Compressor, Put
from tidetable.times import to_text


class Routed(msgspec.Struct):
    """The puts by slot. For each event that has a put, also its index in the request and its ref.

    ``entries`` are the periods. ``all_plain`` says that no put is a version or has data outside. ``tables``
    names the period tables of the puts. ``packs`` are the slots that are packs. ``times`` has the slot and the time of each
    event that has a put, ``series`` its slot and its series; both can be read once.
    """

    entries: Sequence[Entry]
    all_plain: bool = True
    tables: set[str] = msgspec.field(default_factory=set)
    packs: set[Slot] = msgspec.field(default_factory=set)
    puts: dict[Slot, Put] = msgspec.field(default_factory=dict)
    indexes: list[int] = msgspec.field(default_factory=list)
    refs: Sequence[str] = ()
    times: Iterable[tuple[Slot, datetime]] = ()
    series: Iterable[tuple[Slot, str]] = ()


def route_submissions(
    context: RequestContext, submissions: Sequence[Submission], entries: Sequence[Entry], shrinker: Shrinker
) -> Routed:
    """Give each submission a put or a fate.

    An event is queued if its period is not recorded yet, and rejected if no table may take it. Routing does not read
    tables. ``entries`` are the periods. The submissions' items have the context's layout; a period with another layout
    gets new items. An event before the window needs a table that is open for a backfill: any other table may be archived
    at any moment.
    """
    routed = Routed(entries)
    unshrunk_bytes, at = shrinker.most_unshrunk_bytes, context.at
    targets: dict[str, PeriodTarget] = {}
    period: PeriodTarget | None = None
    columns = _EventColumns([], [], [], [])
    bound, labels, pks, sks = columns
    for submission in submissions:
        time = submission.event.time
        # Usually events of one period come one after another.
        if period is None or not period.start <= time < period.end:
            entry = find_entry_at(entries, time)
            if entry is None:
                submission.fate = Durable.QUEUED
                continue
            if entry.table not in targets:
                targets[entry.table] = PeriodTarget(entry, context, shrinker)
            period = targets[entry.table]
        if not (period.admits_all or period.admit(submission)):
            continue
        item = submission.item if period.shares_items else period.item_layout.make_item(submission.event, at=at)
        pk, sk = item["pk"], item["sk"]
        if period.keeps_items and submission.size <= unshrunk_bytes:
            submission.put = Put(period.table, item)
            submission.slot = (period.table, pk, sk)
        elif not period.keeps_items:
            # These puts are made below, because all events of the period decide which of them share a put.
            period.submissions.append(submission)
            period.items.append(item)
            continue
        else:
            routed.all_plain = False
            if not period.assign_put(submission, item):
                continue
        bound.append(submission)
        labels.append(period.label)
        pks.append(pk)
        sks.append(sk)
    for target in targets.values():
        _assign_puts(target, shrinker.compressor, routed, columns)
    # Of the events of one slot only the last is written: it would also win if each event came in its own request.
    routed.puts = {submission.slot: submission.put for submission in bound if submission.put is not None}
    routed.indexes = [submission.index for submission in bound]
    routed.times = ((submission.slot, submission.event.time) for submission in bound)
    routed.series = ((submission.slot, submission.event.series) for submission in bound)
    routed.tables = {target.table for target in targets.values() if target.writable}
    # Encoding all refs at once takes a fifth of the time of encoding them one by one.
    routed.refs = encode_refs(context.stream.name, labels, pks, sks)
    return routed


class _EventColumns(NamedTuple):
    """The submissions with a put, and the fields of their refs. Those of one slot are in the order of the request."""

    submissions: list[Submission]
    labels: list[str]
    pks: list[str]
    sks: list[str]


def _assign_puts(period: PeriodTarget, compressor: Compressor, routed: Routed, bound: _EventColumns) -> None:
    """Give each submission whose item is not kept a shared put, or a put of its own."""
    items = period.items
    if not items:
        return
    puts = period.form.make_puts(items, period.table, compressor)
    shared: dict[int, tuple[Put, Slot, str]] = {}
    for put, address, members in puts.shared:
        routed.packs.add(put.place)
        shared |= dict.fromkeys(members, (put, put.place, address))
    # Of several events with the same key the last is written; the others share its fate.
    last: dict[tuple[str, str], int] = {}
    if len(shared) + len(puts.alone) < len(items):
        last = {(item["pk"], item["sk"]): number for number, item in enumerate(items)}
    submissions, labels, pks, sks = bound
    for number, (submission, item) in enumerate(zip(period.submissions, items, strict=True)):
        written = last[item["pk"], item["sk"]] if last else number
        if written in shared:
            submission.put, submission.slot, pk = shared[written]
        else:
            alone = period.form.make_alone(items[written], period.submissions[written].event)
            routed.all_plain, pk = False, alone["pk"]
            if not period.assign_put(submission, alone):
                continue
        submissions.append(submission)
        pks.append(pk)
        sks.append(item["sk"])
    labels.extend([period.label] * (len(submissions) - len(labels)))


class PeriodTarget:
    """The facts of a period that routing needs for each of the period's events. They are computed once."""

    def __init__(self, entry: Entry, context: RequestContext, shrinker: Shrinker) -> None:
        self.start, self.end = entry.period.start, entry.period.end
        self.label, self.table = entry.period.label, entry.table
        self.writable, self.open = entry.writable, entry.is_open(context.now)
        # If `late` was raised, a closed table takes events again, while an archive that began before may scan it. So
        # the events are queued: the drain writes each event on condition that the table is not archived.
        self.fenced = entry.state is State.CLOSED
        # Usually no event of the period is too old for the window, and none needs a closer look.
        takes_all = self.open or not context.window.is_too_old(self.start)
        self.admits_all = self.writable and takes_all and not self.fenced
        self.shares_items = entry.layout.makes_items_of(context.layout)
        self.item_layout = entry.layout if self.shares_items else entry.layout.before_packing
        # Events were measured with the indexes of the request's layout: other indexes may add their keys, and copies of fields.
        larger = not self.shares_items and bool(entry.layout.indexes)
        self.form = choose_form(entry.layout)
        self.keeps_items = self.form.keeps_items and not larger
        # The submissions whose items are not kept, and these items.
        self.submissions: list[Submission] = []
        self.items: list[Item] = []
        self._entry, self._window, self._shrinker = entry, context.window, shrinker

    def admit(self, submission: Submission) -> bool:
        """True if the event may be written at once; otherwise decide its fate."""
        time, entry = submission.event.time, self._entry
        if not self.writable:
            detail = (
                f"period {self.label} of {entry.stream}, which has {to_text(time)}, is {entry.state}: restore it first"
            )
            submission.reject("too_old", detail)
        elif self.fenced or (self._window.is_too_old(time) and not self.open):
            # An event before the window is here only if a backfill takes it. The lifecycle has not opened the table
            # for the backfill yet.
            submission.fate = Durable.QUEUED
        return submission.fate is None

    def assign_put(self, submission: Submission, item: Item) -> bool:
        """Give a submission its put and its slot; reject it and return False if no form can hold its item."""
        put = make_put(item, self._entry, self._shrinker)
        if put is None:
            detail = f"the event takes {submission.size} bytes, more than its period's tables can keep"
            submission.reject("too_large", detail)
            return False
        submission.put, submission.slot = put, put.slot
        return True
