"""The catalog in memory."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from msgspec.structs import replace

from tests.worlds.entries import change_entry
from tidetable.catalog import Backfill, Entry, EntryFacts, Horizon, RecordedPolicy, SeenTable, State
from tidetable.errors import Outage, StaleEntry, StoreUnavailable
from tidetable.events import Item
from tidetable.periods import Period
from tidetable.segmentation import Segmentation, SegmentMarks


class FakeCatalog:
    """The catalog in memory. Eventually consistent reads answer ``stale``, or the present items if ``stale`` is None.

    ``reads`` lists the ranges that were read.
    """

    def __init__(self) -> None:
        self.stale: dict[tuple[str, Period], Entry] | None = None
        self.reads: list[tuple[datetime | None, datetime | None, bool]] = []
        self.items: dict[tuple[str, Period], Entry] = {}
        self.leases: dict[str, tuple[str, datetime]] = {}
        # Since when the present owner of a lease that it shares has it.
        self.shared: dict[str, datetime] = {}
        self.horizons: dict[str, datetime] = {}
        self.far: set[tuple[str, Period]] = set()
        self.requests: dict[tuple[str, datetime, datetime], Backfill] = {}
        self.recorded: dict[str, RecordedPolicy] = {}
        self.key: bytes | None = None
        self.deployed = False

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        self.reads.append((start, end, consistent))
        items = self.items if consistent or self.stale is None else self.stale
        matching = [entry for entry in items.values() if entry.stream == stream]
        return sorted(
            (
                entry
                for entry in matching
                if (start is None or start < entry.period.end) and (end is None or entry.period.start <= end)
            ),
            key=lambda entry: entry.period.start,
        )

    def walk(
        self,
        stream: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        ascending: bool = False,
        consistent: bool = False,
        at_once: int = 16,
    ) -> Iterator[Entry]:
        entries = self.entries(stream, start, end, consistent=consistent)
        yield from entries if ascending else reversed(entries)

    def list_policies(self) -> Sequence[RecordedPolicy]:
        return [self.recorded[name] for name in sorted(self.recorded)]

    def put_policy(self, recorded: RecordedPolicy) -> None:
        self.recorded[recorded.stream] = recorded

    def secret(self) -> bytes:
        if self.key is None:
            raise StoreUnavailable(Outage.NO_SECRET, "nobody has made it")
        return self.key

    def ensure_secret(self) -> None:
        self.key = self.key or b"as secret as can be"

    def add(self, entry: Entry) -> bool:
        if (entry.stream, entry.period) in self.items:
            return False
        if entry.is_far:
            self.note_far(entry)
        self.items[entry.stream, entry.period] = entry
        return True

    def move(self, entry: Entry, to: State, *, expected: Iterable[State], **facts: Unpack[EntryFacts]) -> Entry:
        expected = list(expected)
        current = self.items.get((entry.stream, entry.period))
        if current is None or current.state not in expected:
            raise StaleEntry(entry.stream, entry.period.label, expected)
        moved = replace(current, state=to, **facts)
        if to is State.RESTORING:
            self.note_far(moved)
        if to is State.DELETED:
            self.far.discard((entry.stream, entry.period))
        self.items[entry.stream, entry.period] = moved
        return moved

    def begin_segments(self, entry: Entry, to: State, segments: Segmentation) -> Entry | None:
        current = self.items[entry.stream, entry.period]
        if current.state is not entry.state or current.marks.writes != entry.marks.writes:
            return None
        begun = replace(current, state=to, segments=segments, marks=SegmentMarks((), current.marks.writes))
        self.items[entry.stream, entry.period] = begun
        return begun

    def mark(self, entry: Entry, items: Iterable[Item]) -> None:
        """Mark the segments that a transaction with these items changes."""
        current = self.items[entry.stream, entry.period]
        assert current.segments is not None
        numbers = current.segments.find_changed(items, entry.layout, entry.period) | set(current.marks.numbers)
        marked = replace(current, marks=SegmentMarks(tuple(sorted(numbers)), current.marks.writes + 1))
        self.items[entry.stream, entry.period] = marked

    def mark_scaled(self, entry: Entry, *, scaled: bool, policy: str = "") -> None:
        self._set(entry, scaled=scaled, policy=policy)

    def mark_copies(self, entry: Entry, regions: Sequence[str]) -> None:
        self._set(entry, active=tuple(regions))

    def mark_copying(self, entry: Entry, region: str, at: datetime) -> None:
        self._set(entry, begun=(region, at))

    def note(self, entry: Entry, seen: SeenTable) -> None:
        self._set(entry, seen=seen)

    def _set(self, entry: Entry, **changes: Any) -> None:
        if (entry.stream, entry.period) not in self.items:
            raise StaleEntry(entry.stream, entry.period.label, list(State))
        self.items[entry.stream, entry.period] = change_entry(self.items[entry.stream, entry.period], **changes)

    def backfills(self, stream: str) -> Sequence[Backfill]:
        return sorted(
            (request for request in self.requests.values() if request.stream == stream),
            key=lambda request: (request.start, request.end),
        )

    def put_backfill(self, backfill: Backfill) -> None:
        self.requests[backfill.stream, backfill.start, backfill.end] = backfill

    def drop_backfill(self, backfill: Backfill) -> None:
        self.requests.pop((backfill.stream, backfill.start, backfill.end), None)

    def is_deployed(self) -> bool:
        return self.deployed

    def mark_deployed(self) -> None:
        self.deployed = True

    def require_known_format(self) -> None:
        """Do nothing: no newer code writes this catalog."""

    def forget(self, entry: Entry) -> None:
        self.items.pop((entry.stream, entry.period), None)
        self.far.discard((entry.stream, entry.period))

    def read_horizon(self, stream: str) -> Horizon:
        far = sorted((period for name, period in self.far if name == stream), key=lambda period: period.start)
        return Horizon(self.horizons.get(stream), tuple(far))

    def list_horizons(self) -> dict[str, Horizon]:
        return {stream: self.read_horizon(stream) for stream in {*self.horizons, *(stream for stream, _ in self.far)}}

    def note_far(self, entry: Entry) -> None:
        self.far.add((entry.stream, entry.period))

    def list_backfills(self) -> Sequence[Backfill]:
        streams = sorted({stream for stream, _, _ in self.requests})
        return [backfill for stream in streams for backfill in self.backfills(stream)]

    def entries_from(self, stream: str, start: datetime) -> Sequence[Entry]:
        return [entry for entry in self.entries(stream, start, consistent=True) if entry.period.start >= start]

    def set_horizon(self, stream: str, at: datetime) -> None:
        self.horizons[stream] = at

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        holder, until = self.leases.get(lease, (owner, now))
        if holder != owner and now < until:
            return False
        self.leases[lease] = (owner, now + length)
        self.shared.pop(lease, None)
        return True

    def share_lease(self, lease: str, owner: str, now: datetime, length: timedelta) -> datetime | None:
        since = self.shared.get(lease, now)
        if not self.acquire(lease, owner, now, length):
            return None
        self.shared[lease] = since
        return since

    def read_share(self, lease: str) -> datetime | None:
        return self.shared.get(lease)

    def release(self, lease: str, owner: str) -> None:
        if self.leases.get(lease, ("", None))[0] == owner:
            del self.leases[lease]
            self.shared.pop(lease, None)
