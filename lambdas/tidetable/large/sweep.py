"""The sweep: objects that no item refers to any more are found and removed, and all of a period that is gone.

An object is written before its item, so one without an item is either about to get it or was left by a failure or a newer
version of the event. Which of both it is only time tells: nothing younger than the grace is touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.errors import TableMissing
from tidetable.keys import Key
from tidetable.large.forms import blob_prefix, earlier_keys
from tidetable.ports import CatalogReader, Clock, EventStore

# An object's item follows within the time of a request. A day leaves room for every clock that may be wrong.
GRACE = timedelta(days=1)
_BATCH = 100
# With less time left than this the sweep ends; the next one begins anew, and has less to do.
_RESERVE = 20.0


class Stored(NamedTuple):
    """An object that is there."""

    key: str
    size: int
    written: datetime


class Store(Protocol):
    """The bucket, as the sweep sees it."""

    def stored(self, prefix: str) -> Iterable[Stored]:
        """Every object under a prefix."""
        ...

    def owner(self, key: str) -> Key | None:
        """The key of the item that an object belongs to; None if it does not say."""
        ...

    def delete(self, keys: Sequence[str]) -> None: ...


@dataclass(slots=True)
class Sweeper:
    """What sweeping needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    objects: Store
    clock: Clock


@dataclass(slots=True)
class Swept:
    """What a sweep found: objects seen, and those removed with their bytes; ``unknown`` belong to nothing that is known."""

    dry_run: bool
    seen: int = 0
    orphans: int = 0
    expired: int = 0
    bytes: int = 0
    unknown: int = 0
    finished: bool = True
    keys: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The report as JSON; of the keys it has the first few."""
        names = ("dry_run", "seen", "orphans", "expired", "bytes", "unknown", "finished")
        return {name: getattr(self, name) for name in names} | {"keys": self.keys[:20]}


def sweep(parts: Sweeper, remaining: Callable[[], float], *, dry_run: bool = False) -> Swept:
    """Remove what no item refers to, of every stream, as far as the time goes. Safe to run at any time, and twice."""
    swept = Swept(dry_run)
    for stream in parts.config.streams:
        for group in _groups(parts.objects.stored(blob_prefix(stream))):
            if remaining() < _RESERVE:
                swept.finished = False
                return swept
            _sweep(stream, group, parts, swept)
    return swept


def _sweep(stream: str, group: Sequence[Stored], parts: Sweeper, swept: Swept) -> None:
    swept.seen += len(group)
    edge = parts.clock.now() - GRACE
    # Read anew for each group: a period may be restored meanwhile.
    entries = {entry.period.label: entry for entry in parts.catalog.entries(stream, consistent=True)}
    gone: list[Stored] = []
    asked: defaultdict[str, list[Stored]] = defaultdict(list)
    for one in group:
        entry = entries.get(_label(stream, one.key))
        if one.written > edge:
            continue
        if entry is None:
            swept.unknown += 1
        elif entry.live:
            asked[entry.period.label].append(one)
        elif entry.state is State.DELETED:
            gone.append(one)
    swept.expired += len(gone)
    for label, some in asked.items():
        orphans = list(_orphans(entries[label], some, parts))
        swept.orphans += len(orphans)
        gone += orphans
    swept.bytes += sum(one.size for one in gone)
    swept.keys += [one.key for one in gone]
    if gone and not swept.dry_run:
        parts.objects.delete([one.key for one in gone])


def _orphans(entry: Entry, objects: Sequence[Stored], parts: Sweeper) -> Iterator[Stored]:
    """Those to which neither their item nor an earlier version of it refers."""
    owners = {one.key: parts.objects.owner(one.key) for one in objects}
    try:
        items = parts.store.get_many(entry.table, sorted({key for key in owners.values() if key is not None}))
        earlier = parts.store.get_many(entry.table, [key for item in items.values() for key in earlier_keys(item)])
    except TableMissing:
        return  # it goes at this moment; the next sweep knows
    referred = {item["out"]["o"] for item in (*items.values(), *earlier.values()) if "o" in item.get("out", {})}
    for one in objects:
        if owners[one.key] is not None and one.key not in referred:
            yield one


def _label(stream: str, key: str) -> str:
    return key.removeprefix(f"{blob_prefix(stream)}period=").partition("/")[0]


def _groups(stored: Iterable[Stored]) -> Iterator[list[Stored]]:
    group: list[Stored] = []
    for one in stored:
        group.append(one)
        if len(group) == _BATCH:
            yield group
            group = []
    if group:
        yield group
