"""The sweep: it removes the objects of deleted periods, and the objects to which no item refers.

An object is written before its item. So an object without an item may get its item in a moment. Or the write has
failed, or a newer version of the event has replaced the item. Only time separates these cases, so the sweep never
removes an object that is younger than the grace.

The sweep begins with the checks that cost one request per period: objects of deleted periods, and archives that the bucket's
rules deleted. Then it compares the objects of live periods with their items, from where the previous run ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count, islice

import msgspec
from msgspec.structs import replace

from tidetable.archive_expiry import find_archive_expiry
from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import Config
from tidetable.errors import StaleEntry, TableMissing, describe_error
from tidetable.large.forms import make_blob_prefix
from tidetable.large.labels import group_labels
from tidetable.large.sweep_ports import Notes, Store, Stored
from tidetable.large.sweep_report import DryPosition, SweepPosition, Swept
from tidetable.periods import parse_label
from tidetable.ports import Catalog, Clock, EventStore, Pools
from tidetable.remaining import Remaining
from tidetable.run_streams import find_run_streams

# An object's item follows within the time of a request. A day leaves room for clocks that are wrong.
GRACE = timedelta(days=1)
POSITION_KEY = "large/_sweep.json"
_BATCH = 100
# S3 answers a HeadObject in 20 to 30 ms, so many requests run side by side.
CONCURRENCY = 16
# The position is noted after every 10 batches: a run that is killed loses at most the work on these.
_NOTE_EVERY = 10
# If less time than this is left, the sweep ends; the next sweep goes on.
_RESERVE = 20.0
# A sweep looks for expired archives in so many entries of a stream (about 540 read units), and the next sweep goes on.
# Readers compute the instant themselves, so that nothing waits for the catalog's mark.
_LOOKED = 5_000
_AT_ONCE = 2_000


@dataclass(slots=True)
class Sweeper:
    """The ports and settings of the sweep."""

    config: Config
    catalog: Catalog
    store: EventStore
    objects: Store
    notes: Notes
    clock: Clock
    pools: Pools


def sweep(
    sweeper: Sweeper, remaining: Remaining, *, dry_run: bool = False, position: DryPosition | None = None
) -> Swept:
    """Remove the objects of every stream to which no item refers, as far as the time allows.

    It is safe at any time, and may be repeated. A run goes on where the previous run ended; a dry run notes no position,
    looks at all archives, and goes on at ``position``, or begins. Objects that cannot be checked are reported, and the
    sweep of the others goes on.
    """
    run = _Run(sweeper, remaining, Swept(dry_run), position or DryPosition())
    with sweeper.pools(CONCURRENCY) as run.pool:
        if run.remove_expired():
            run.remove_orphans()
    return run.report()


class _Run:
    """One sweep."""

    pool: Executor

    def __init__(self, sweeper: Sweeper, remaining: Remaining, swept: Swept, dry: DryPosition) -> None:
        self._sweeper = sweeper
        self._remaining = remaining
        self.swept = swept
        self._newest_swept = sweeper.clock.now() - GRACE
        self._position = self._noted = dry.at if swept.dry_run else self._read_position()
        self._is_counted = dry.counted
        # Removed streams still have tables, archives and objects for a long time.
        known = find_run_streams(sweeper.config, sweeper.catalog, sweeper.clock.now())
        self._streams = sorted(known.config.streams)

    def remove_expired(self) -> bool:
        """Remove the objects of deleted periods, and note deleted archives; False if the time is up."""
        if self._is_counted:
            return True
        start = self._position if self.swept.dry_run else SweepPosition()
        for stream in [name for name in self._streams if name >= start.stream]:
            if not (self._note_lapses(stream) and self._remove_expired(stream, start)):
                return False
        if self.swept.dry_run:
            self._is_counted, self._position = True, replace(self._position, stream="", key="")
        return True

    def _remove_expired(self, stream: str, start: SweepPosition) -> bool:
        for _, owner, prefix, after in self._find_owners(stream, start):
            if owner is not None and owner.state is not State.DELETED:
                continue
            for group in _group_objects(self._sweeper.objects.stored(prefix, after)):
                if self._is_up():
                    return False
                self.swept.seen += len(group)
                if owner is None:
                    self.swept.unknown += len(group)
                else:
                    self._attempt(group[0].key, partial(self._expire, group))
                if self.swept.dry_run:
                    self._position = replace(self._position, stream=stream, key=group[-1].key)
        return True

    def _note_lapses(self, stream: str) -> bool:
        """Note the deleted archives of some of a stream's entries, from where the last sweep ended; False if the time is up."""
        looked, lifetime = dict(self._position.looked), self._sweeper.config.find_keeping(stream).expire_after
        start = looked.pop(stream, None)
        if lifetime:
            end = self._sweeper.clock.now() - lifetime
            walk = self._sweeper.catalog.walk(stream, start, end, ascending=True, consistent=True, at_once=_AT_ONCE)
            number, is_dry = 0, self.swept.dry_run
            for number, entry in enumerate(walk if is_dry else islice(walk, _LOOKED), 1):
                if self._is_up():
                    if is_dry:
                        looked[stream] = entry.period.start
                        self._position = replace(self._position, looked=looked)
                    return False
                self._attempt(f"archive {stream} {entry.period.label}", partial(self._note_lapsed, entry))
                if number == _LOOKED:
                    looked[stream] = entry.period.end
            if is_dry:
                # A dry run that goes on in this stream counts them no more.
                looked[stream] = end
        self._position = replace(self._position, looked=looked)
        return True

    def remove_orphans(self) -> None:
        """Remove the objects of live periods to which no item refers, from where the last run ended."""
        start, numbers = self._position, count(1)
        for stream in [name for name in self._streams if name >= start.stream]:
            for label, entry, prefix, after in self._find_owners(stream, start):
                # The items of a table that waits for its deletion, or is being restored, do not show which objects are
                # needed.
                if entry is None or not entry.live:
                    continue
                for group in _group_objects(self._sweeper.objects.stored(prefix, after)):
                    if self._is_up():
                        return
                    self.swept.seen += len(group)
                    self._attempt(group[0].key, partial(self._sweep, stream, label, group))
                    self._position = replace(self._position, stream=stream, key=group[-1].key)
                    if next(numbers) % _NOTE_EVERY == 0:
                        self._note_position()
        self._position = replace(self._position, stream="", key="")
        self._note_position()

    def report(self) -> Swept:
        """Return the report of the run."""
        if self.swept.dry_run and not self.swept.finished:
            self.swept.position = msgspec.to_builtins(DryPosition(self._position, self._is_counted))
        return self.swept

    def _is_up(self) -> bool:
        """True if the time is up; if it is, note the position of the sweep."""
        if self._remaining() >= _RESERVE:
            return False
        self.swept.finished = False
        self._note_position()
        return True

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # whatever the error is, the other objects are swept
            self.swept.failures.append(f"{what}: {describe_error(error)}")

    def _read_position(self) -> SweepPosition:
        stored = self._sweeper.notes.find(POSITION_KEY)
        try:
            return msgspec.json.decode(stored, type=SweepPosition) if stored is not None else SweepPosition()
        except msgspec.DecodeError:
            return SweepPosition()

    def _note_position(self) -> None:
        if not self.swept.dry_run and self._position != self._noted:
            self._sweeper.notes.put(POSITION_KEY, msgspec.json.encode(self._position))
            self._noted = self._position

    def _find_owners(self, stream: str, start: SweepPosition) -> Iterator[tuple[str, Entry | None, str, str]]:
        """Yield the labels of the stream's periods that have objects after a position, in order. With each label come the
        period's entry, the prefix of its objects, and the key after which they are looked at.
        """
        after = start.key if stream == start.stream else ""
        names = self._sweeper.objects.folders(make_blob_prefix(stream))
        for labels, periods in group_labels(name.removeprefix("period=") for name in names):
            span = (periods[0].start, periods[-1].start) if periods else None
            entries = self._sweeper.catalog.entries(stream, *span, consistent=True) if span else ()
            owners = {entry.period.label: entry for entry in entries}
            for label in labels:
                prefix = make_blob_prefix(stream, label)
                # Keys of later periods sort after all keys of this period.
                if after <= prefix or after.startswith(prefix):
                    yield label, owners.get(label), prefix, after

    def _read_entry(self, stream: str, label: str) -> Entry | None:
        """Read a period's present entry again, because the period may have been archived or restored meanwhile."""
        return read_entry(self._sweeper.catalog, stream, parse_label(label))

    def _note_lapsed(self, entry: Entry) -> None:
        """Note in the catalog that the bucket's rules have deleted an archive."""
        facts, now = entry.archived, self._sweeper.clock.now()
        expires = find_archive_expiry(entry, self._sweeper.config)
        if facts is None or expires is None or now < expires or entry.state not in (State.ARCHIVED, State.DELETED):
            return
        if self._sweeper.notes.sizes(facts.manifest.rpartition("/")[0] + "/"):
            return
        self.swept.lapsed += 1
        if not self.swept.dry_run:
            lapsed = replace(facts, expired_at=expires)
            try:
                self._sweeper.catalog.move(entry, entry.state, expected=(entry.state,), archive=lapsed)
            except StaleEntry:
                return  # the period is being restored, so its archive exists

    def _expire(self, group: Sequence[Stored]) -> None:
        expired = [stored for stored in group if stored.written <= self._newest_swept]
        self.swept.expired += len(expired)
        self._remove(expired)

    def _sweep(self, stream: str, label: str, group: Sequence[Stored]) -> None:
        old = [stored for stored in group if stored.written <= self._newest_swept]
        entry = self._read_entry(stream, label) if old else None
        if entry is None or not entry.live:
            return
        orphans = list(self._find_orphans(entry, old))
        self.swept.orphans += len(orphans)
        self._remove(orphans)

    def _remove(self, objects: Sequence[Stored]) -> None:
        keys = [stored.key for stored in objects]
        self.swept.bytes += sum(stored.size for stored in objects)
        self.swept.keys += keys
        if keys and not self.swept.dry_run:
            self._sweeper.objects.delete(keys)

    def _find_orphans(self, entry: Entry, objects: Sequence[Stored]) -> Iterator[Stored]:
        """Find the objects to which neither their item nor an earlier version of the item refers."""
        keys = [stored.key for stored in objects]
        owners = dict(zip(keys, self.pool.map(self._sweeper.objects.owner, keys), strict=True))
        store = self._sweeper.store
        try:
            items = store.get_many(entry.table, sorted({key for key in owners.values() if key is not None}))
            earlier_keys = [key for item in items.values() for key in entry.layout.list_earlier_keys(item)]
            earlier = store.get_many(entry.table, earlier_keys)
        except TableMissing:
            return  # the table is being deleted; the next sweep finds its period deleted
        referred = {item["out"]["o"] for item in (*items.values(), *earlier.values()) if "o" in item.get("out", {})}
        for stored in objects:
            if owners[stored.key] is not None and stored.key not in referred:
                yield stored


def _group_objects(stored: Iterable[Stored]) -> Iterator[list[Stored]]:
    objects = iter(stored)
    while group := list(islice(objects, _BATCH)):
        yield group
