"""The sweep: objects that no item refers to any more are found and removed, and all of a period that is gone.

An object is written before its item, so one without an item is either about to get it or was left by a failure or a newer
version of the event. Which of both it is only time tells: nothing younger than the grace is touched.

First comes what costs one look for a whole period: objects of deleted periods, and archives that the bucket's rules deleted.
Then the objects of live periods are compared with their items, one by one, from where the run before it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple, Protocol

import msgspec

from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.errors import StaleEntry, TableMissing
from tidetable.expired import expiry_of
from tidetable.keys import Key
from tidetable.large.forms import blob_prefix, earlier_keys
from tidetable.lifecycle.known import known_streams
from tidetable.periods import from_label
from tidetable.ports import Catalog, Clock, EventStore, Pools

# An object's item follows within the time of a request. A day leaves room for every clock that may be wrong.
GRACE = timedelta(days=1)
POSITION_KEY = "large/_sweep.json"
_BATCH = 100
# A look at an object takes S3 20 to 30 ms: so many at a time.
CONCURRENCY = 16
# After so many batches the position is noted: a run that is killed loses no more.
_NOTE_EVERY = 10
# With less time left than this the sweep ends; the next one goes on.
_RESERVE = 20.0


class Stored(NamedTuple):
    """An object that is there."""

    key: str
    size: int
    written: datetime


class Store(Protocol):
    """The bucket's large values, as the sweep sees them."""

    def stored(self, prefix: str, after: str = "") -> Iterable[Stored]:
        """Every object under a prefix whose key comes after another, in the order of keys."""
        ...

    def folders(self, prefix: str) -> Iterable[str]:
        """What comes after the prefix up to the next slash, each once, in order."""
        ...

    def owner(self, key: str) -> Key | None:
        """The key of the item that an object belongs to; None if it does not say."""
        ...

    def delete(self, keys: Sequence[str]) -> None: ...


class Notes(Protocol):
    """The bucket's small objects, and the sizes of its archives."""

    def find(self, key: str) -> bytes | None: ...
    def put(self, key: str, body: bytes) -> None: ...
    def sizes(self, prefix: str) -> Mapping[str, int]: ...


@dataclass(slots=True)
class Sweeper:
    """What sweeping needs."""

    config: Config
    catalog: Catalog
    store: EventStore
    objects: Store
    notes: Notes
    clock: Clock
    pools: Pools


class Position(msgspec.Struct, frozen=True):
    """How far a sweep over the live periods is: the stream, and the last key that was looked at in it."""

    stream: str = ""
    key: str = ""


@dataclass(slots=True)
class Swept:
    """What a sweep found: objects seen, and those removed with their bytes; ``unknown`` belong to nothing that is known.

    ``lapsed`` are archives that were found to be deleted by the bucket's rules, ``failures`` what could not be looked at.
    """

    dry_run: bool
    seen: int = 0
    orphans: int = 0
    expired: int = 0
    bytes: int = 0
    unknown: int = 0
    lapsed: int = 0
    finished: bool = True
    keys: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The report as JSON; of the keys it has the first few."""
        names = ("dry_run", "seen", "orphans", "expired", "bytes", "unknown", "lapsed", "finished")
        first = {"keys": self.keys[:20], "failures": self.failures[:20]}
        return {name: getattr(self, name) for name in names} | first


def sweep(parts: Sweeper, remaining: Callable[[], float], *, dry_run: bool = False) -> Swept:
    """Remove what no item refers to, of every stream, as far as the time goes. Safe to run at any time, and twice.

    A run goes on where the one before it ended; a dry run begins at the beginning, and leaves no note. What cannot be looked at
    is reported, and keeps no other object from being swept.
    """
    run = _Run(parts, remaining, Swept(dry_run))
    with parts.pools(CONCURRENCY) as run.pool:
        if run.remove_expired():
            run.remove_orphans()
    return run.swept


class _Run:
    """One sweep."""

    pool: Executor

    def __init__(self, parts: Sweeper, remaining: Callable[[], float], swept: Swept) -> None:
        self._parts = parts
        self._remaining = remaining
        self.swept = swept
        self._edge = parts.clock.now() - GRACE
        self._last: Position | None = None
        # Removed streams have tables, archives and objects for a long time yet.
        self._streams = sorted(known_streams(parts.config, parts.catalog, parts.clock.now()).config.streams)

    def remove_expired(self) -> bool:
        """Remove the objects of deleted periods, and note archives that are gone; False if the time is up."""
        for stream in self._streams:
            entries = {entry.period.label: entry for entry in self._parts.catalog.entries(stream, consistent=True)}
            for entry in entries.values():
                if self._is_up():
                    return False
                self._attempt(f"archive {stream} {entry.period.label}", partial(self._note_lapsed, entry))
            for label in self._labels(stream):
                owner = entries.get(label)
                if owner is not None and owner.state is not State.DELETED:
                    continue
                for group in _groups(self._parts.objects.stored(blob_prefix(stream, label))):
                    if self._is_up():
                        return False
                    self.swept.seen += len(group)
                    if owner is None:
                        self.swept.unknown += len(group)
                    else:
                        self._attempt(group[0].key, partial(self._expire, group))
        return True

    def remove_orphans(self) -> None:
        """Remove the objects of live periods that no item refers to, from where the last run ended."""
        start = Position() if self.swept.dry_run else self._noted()
        numbers = count(1)
        for stream in [name for name in self._streams if name >= start.stream]:
            after = start.key if stream == start.stream else ""
            for label in self._labels(stream):
                prefix = blob_prefix(stream, label)
                # Keys of later periods begin with what sorts after all of this one's.
                if after > prefix and not after.startswith(prefix):
                    continue
                if not self._is_live(stream, label):
                    continue
                for group in _groups(self._parts.objects.stored(prefix, after)):
                    if self._is_up():
                        return
                    self.swept.seen += len(group)
                    self._attempt(group[0].key, partial(self._sweep, stream, label, group))
                    if next(numbers) % _NOTE_EVERY == 0:
                        self._note(Position(stream, group[-1].key))
                    self._last = Position(stream, group[-1].key)
        self._note(Position())

    def _is_up(self) -> bool:
        """Whether the time is up; then it is noted how far the sweep is."""
        if self._remaining() >= _RESERVE:
            return False
        self.swept.finished = False
        if self._last is not None:
            self._note(self._last)
        return True

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # whatever it was, the other objects are swept
            self.swept.failures.append(f"{what}: {type(error).__name__}: {error}")

    def _noted(self) -> Position:
        found = self._parts.notes.find(POSITION_KEY)
        try:
            return msgspec.json.decode(found, type=Position) if found is not None else Position()
        except msgspec.DecodeError:
            return Position()

    def _note(self, position: Position) -> None:
        if not self.swept.dry_run:
            self._parts.notes.put(POSITION_KEY, msgspec.json.encode(position))

    def _labels(self, stream: str) -> list[str]:
        """The labels of the stream's periods that have objects."""
        names = self._parts.objects.folders(blob_prefix(stream))
        return [name.removeprefix("period=") for name in names]

    def _entry(self, stream: str, label: str) -> Entry | None:
        """The period's entry as it is now: it may be archived or restored meanwhile."""
        try:
            start = from_label(label).start
        except ValueError:
            return None
        found = self._parts.catalog.entries(stream, start, start, consistent=True)
        return next((entry for entry in found if entry.period.label == label), None)

    def _is_live(self, stream: str, label: str) -> bool:
        """Whether items tell which objects are needed: not while a table waits to be deleted, or is being restored."""
        entry = self._entry(stream, label)
        return entry is not None and entry.live

    def _note_lapsed(self, entry: Entry) -> None:
        """Say in the catalog that an archive is gone, once the bucket's rules have deleted it."""
        facts, now = entry.archived, self._parts.clock.now()
        expires = expiry_of(entry, self._parts.config)
        if facts is None or expires is None or now < expires or entry.state not in (State.ARCHIVED, State.DELETED):
            return
        if self._parts.notes.sizes(facts.manifest.rpartition("/")[0] + "/"):
            return
        self.swept.lapsed += 1
        if not self.swept.dry_run:
            gone = replace(facts, expired_at=expires)
            try:
                self._parts.catalog.move(entry, entry.state, expected=(entry.state,), archive=gone)
            except StaleEntry:
                return  # it is being restored, and would not be if its archive were gone

    def _expire(self, group: Sequence[Stored]) -> None:
        gone = [one for one in group if one.written <= self._edge]
        self.swept.expired += len(gone)
        self._remove(gone)

    def _sweep(self, stream: str, label: str, group: Sequence[Stored]) -> None:
        old = [one for one in group if one.written <= self._edge]
        entry = self._entry(stream, label) if old else None
        if entry is None or not entry.live:
            return
        orphans = list(self._orphans(entry, old))
        self.swept.orphans += len(orphans)
        self._remove(orphans)

    def _remove(self, gone: Sequence[Stored]) -> None:
        self.swept.bytes += sum(one.size for one in gone)
        self.swept.keys += [one.key for one in gone]
        if gone and not self.swept.dry_run:
            self._parts.objects.delete([one.key for one in gone])

    def _orphans(self, entry: Entry, objects: Sequence[Stored]) -> Iterator[Stored]:
        """Those to which neither their item nor an earlier version of it refers."""
        keys = self.pool.map(self._parts.objects.owner, [one.key for one in objects])
        owners = dict(zip([one.key for one in objects], keys, strict=True))
        store = self._parts.store
        try:
            items = store.get_many(entry.table, sorted({key for key in owners.values() if key is not None}))
            earlier = store.get_many(entry.table, [key for item in items.values() for key in earlier_keys(item)])
        except TableMissing:
            return  # it goes at this moment; the next sweep knows
        referred = {item["out"]["o"] for item in (*items.values(), *earlier.values()) if "o" in item.get("out", {})}
        for one in objects:
            if owners[one.key] is not None and one.key not in referred:
                yield one


def _groups(stored: Iterable[Stored]) -> Iterator[list[Stored]]:
    objects = iter(stored)
    while group := list(islice(objects, _BATCH)):
        yield group
