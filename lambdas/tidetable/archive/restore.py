"""The use case of restoring: archived periods become tables again.

Before queries use a table, it is compared with the manifest. During a restore, queries read the period from its archive.
Every step may be repeated: an event overwrites itself. ``restore_orders`` says which steps there are, and
``restore_piece`` writes and compares pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tidetable.archive.digest import join_digests
from tidetable.archive.exporter import Exporter, hold_period, read_manifest_of
from tidetable.archive.manifest import Manifest
from tidetable.archive.restore_orders import (
    RESTORE,
    PeriodMemo,
    RestoredPeriod,
    RestoreOrder,
    RestorePieceMemo,
    add_pieces,
    divide_files,
    divide_scan,
    list_orders,
    name_period,
)
from tidetable.archive.restore_range import explain_refusal
from tidetable.archive.turn import require_entry
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import LIVE, Entry, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, NotOurs, NotReady, TableRefused, TableUnusable
from tidetable.event_writing import Jitter
from tidetable.ingest.series_index import SeriesIndex
from tidetable.ladder import choose_level
from tidetable.large.shrink import LargeValueServices
from tidetable.leases import LIFECYCLE_LEASE, wait_for_lease
from tidetable.period_tables import PeriodTables, make_table_tags, passes
from tidetable.ports import EventStore, TableSpec
from tidetable.remaining import Remaining
from tidetable.table_specs import make_filling_spec
from tidetable.work.claim import HeldClaim

_POLL_SECONDS = 1.0
_RESTORABLE = (State.ARCHIVED, State.DELETED, State.RESTORING)


@dataclass(slots=True)
class Restorer:
    """The ports that restoring needs in addition to the ports of archiving."""

    stage: str
    archive: Exporter
    store: EventStore
    jitter: Jitter
    large: LargeValueServices
    # None if no stream has rollups.
    notes: SeriesIndex | None = None


@dataclass(slots=True)
class PeriodRun:
    """The work of one claim on a period: its next step."""

    order: RestoreOrder
    period: RestoredPeriod
    held: HeldClaim
    restorer: Restorer
    owner: str
    remaining: Remaining

    @property
    def exporter(self) -> Exporter:
        """The ports of archiving."""
        return self.restorer.archive

    def advance(self) -> bool:
        """Do the next step. True if it was the last one, or the period is not to be restored: its records are removed.

        ArchiveFailed says why a period cannot be restored, ArchiveMismatch that the table differs from the manifest,
        ArchiveBusy that a later run goes on.
        """
        stream, label, exporter = self.order.stream, self.period.label, self.exporter
        with hold_period(stream, label, exporter, self.owner, self.remaining, "archived or restored"):
            entry = require_entry(stream, label, exporter.catalog)
            entry = mark_expired(entry, exporter.config, exporter.clock.now())
            now = exporter.clock.now()
            if any(piece.item.is_claimed(now) for piece in self.period.pieces):
                # What it writes must not come after the next step.
                raise ArchiveBusy(f"period {label} of {stream} is being restored by another run")
            if self.order.item is None:
                self._give_up(entry)
            elif entry.state not in LIVE:
                if problem := explain_refusal(entry):
                    raise ArchiveFailed(problem)
                if not self._go_on(entry):
                    return False
            self._remove_records()
        return True

    def _go_on(self, entry: Entry) -> bool:
        """Do the next step of a period that has no table; True if it has its table now."""
        memo = self.period.read_memo()
        pieces = self.period.list_pieces(memo)
        if entry.state is not State.RESTORING:
            # From now on every run of the lifecycle sees and counts the table, even if the restore never finishes.
            entry = self.exporter.catalog.move(entry, State.RESTORING, expected=_RESTORABLE)
        step = _Step(entry, self.restorer, self.remaining)
        if not memo.step or len(pieces) != memo.count:
            manifest = read_manifest_of(entry, self.exporter)
            step.create_tables()
            self._add(divide_files(manifest.parts), memo, comparing=False)
        elif not memo.comparing:
            step.check_tables(self.begin_anew)
            self._add(divide_scan(memo.events), memo, comparing=True)
        else:
            _compare([piece.read_memo() for piece in pieces], read_manifest_of(entry, self.exporter))
            step.enable_recovery()
            keep = timedelta(days=self.order.read_memo().keep)
            step.open_to_queries(self.owner, self.exporter.clock.now() + keep, self.begin_anew)
            return True
        return False

    def _add(self, pieces: Sequence[RestorePieceMemo], memo: PeriodMemo, *, comparing: bool) -> None:
        """Add the pieces of the next step, and remove those of earlier steps."""
        for piece in self.period.pieces:
            if piece.step < memo.step:
                self.exporter.work.remove(RESTORE, piece.item.name)
        step = memo.step + 1
        add_pieces(self.exporter.work, name_period(self.order, self.period.label).name, step, pieces)
        self._note(PeriodMemo(memo.events, step, len(pieces), comparing))

    def begin_anew(self) -> None:
        """Let the next step be the first one again: the table is gone."""
        memo = self.period.read_memo()
        self._note(PeriodMemo(memo.events, memo.step + 1, -1))

    def _note(self, memo: PeriodMemo) -> None:
        self.held.memo = msgspec.json.encode(memo).decode()

    def _give_up(self, entry: Entry) -> None:
        """Leave the period to its archive. The lifecycle then deletes its table, as that of any archived period."""
        others = [order for order in list_orders(self.exporter.work, self.order.stream) if order.item is not None]
        if entry.state is State.RESTORING and not any(order.find_period(self.period.label) for order in others):
            self.exporter.catalog.move(entry, State.ARCHIVED, expected=(State.RESTORING,))

    def _remove_records(self) -> None:
        """Remove the pieces, then the period."""
        for piece in self.period.pieces:
            self.exporter.work.remove(RESTORE, piece.item.name)
        self.exporter.work.remove(RESTORE, name_period(self.order, self.period.label).name)


def _compare(pieces: Sequence[RestorePieceMemo], manifest: Manifest) -> None:
    items, digest = sum(piece.items for piece in pieces), join_digests(piece.digest for piece in pieces)
    if (items, digest) != (manifest.events, manifest.digest):
        expected = f"its manifest {manifest.events} events, or other events"
        raise ArchiveMismatch(f"{manifest.table} holds {items} events, {expected}")


@dataclass(slots=True)
class _Step:
    """What is done to the tables of a period: the period's entry, the ports, and the time that is left."""

    entry: Entry
    restorer: Restorer
    remaining: Remaining

    @property
    def exporter(self) -> Exporter:
        return self.restorer.archive

    def create_tables(self) -> None:
        """Create the period's tables with the settings of its stream, but on demand while the restore fills them."""
        entry, tables = self.entry, self._tables()
        spec = self._make_spec(make_table_tags(self.restorer.stage, entry.stream, entry.period.label))
        try:
            tables.create(entry, spec)
        except NotReady as error:
            raise ArchiveBusy(f"{error}; a later run goes on") from error
        except (NotOurs, TableUnusable) as error:
            raise ArchiveFailed(str(error)) from error

    def check_tables(self, begin_anew: Callable[[], None]) -> None:
        """Check that the tables are there. ArchiveBusy if one is not, ArchiveFailed if it cannot be used."""
        for name in self.entry.tables:
            table = self.exporter.tables.describe(name)
            # A run of the lifecycle that read the state before this restore began may have deleted it.
            if table is None or table.status == "DELETING":
                begin_anew()
                raise ArchiveBusy(f"table {name} was deleted meanwhile; a later run makes it anew")
            if not passes(table.status):
                raise ArchiveFailed(str(TableUnusable(name, table.status)))

    def enable_recovery(self) -> None:
        """Enable point-in-time recovery of the complete table if the stream's tables have it."""
        stream = self.exporter.stream(self.entry.stream)
        if stream is None or not stream.table.point_in_time_recovery:
            return
        for name in self.entry.tables:
            try:
                self._tables().make_recoverable(name)
            except TableRefused as error:
                if not error.transient:
                    raise ArchiveFailed(f"point-in-time recovery of {name} is refused: {error}") from error
                raise ArchiveBusy(f"table {name} is complete, but {error}; a later run goes on") from error

    def open_to_queries(self, owner: str, keep_until: datetime, begin_anew: Callable[[], None]) -> Entry:
        """Give the period back to the lifecycle, between two runs: a run that has begun would not see the period."""
        entry, exporter = self.entry, self.exporter
        wait = wait_for_lease(
            exporter.catalog, LIFECYCLE_LEASE, owner, exporter.clock, self.remaining, _POLL_SECONDS, least=_POLL_SECONDS
        )
        with wait as is_owner:
            if not is_owner:
                raise ArchiveBusy("a run of the lifecycle is under way; a later run goes on")
            self.check_tables(begin_anew)
            # The catalog's last observation describes the table before it was deleted.
            exporter.catalog.note(entry, SeenTable(None, None, self._make_spec({}).table_class))
            return exporter.catalog.move(entry, State.CLOSED, expected=(State.RESTORING,), keep_until=keep_until)

    def _tables(self) -> PeriodTables:
        return PeriodTables(self.restorer.stage, self.exporter.tables, self.exporter.clock, self.remaining)

    def _make_spec(self, tags: Mapping[str, str]) -> TableSpec:
        """Make the specification of the period's table. If its stream has no recorded policy, the layout decides it."""
        entry, stream = self.entry, self.exporter.stream(self.entry.stream)
        if stream is None:
            return TableSpec(entry.table, None, None, TableClass.STANDARD, tags, entry.layout.indexes)
        return make_filling_spec(entry, stream, choose_level(entry, stream, self.exporter.clock.now()), tags)
