"""Archives in memory."""

from collections.abc import Iterable, Iterator, Sequence

from aws.zstd import Zstd
from tests.fakes.catalog import FakeCatalog
from tests.fakes.items import read_event
from tests.fakes.store import FakeStore
from tests.worlds.places import stored_place
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.catalog import ArchiveFacts, State
from tidetable.errors import ArchiveFailed
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.layout import Layout, find_plain
from tidetable.packs import DamagedPack, OpenedItem, open_item
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, Clock, WholeRange
from tidetable.times import from_text, to_text

# Parts per period, and events per page. Pages are as short as those of large events.
_PARTS, _PAGE = 2, 7


def choose_page(events: Iterable[Event], keys: WholeRange, most: int) -> ArchiveColumns:
    """The first events of a range, at most so many, as columns."""
    ordered = sorted(
        (
            event
            for event in events
            if keys.start <= to_text(event.time) < keys.end
            and keys.names.hold(event.series, event.id)
            and all(condition.holds(event.data) for condition in keys.conditions)
        ),
        key=lambda event: event.time,
    )[keys.skip :]
    shown, rest = ordered[:most], ordered[most:]
    times = [to_text(event.time) for event in shown]
    reached = to_text(rest[0].time) if rest else None
    skip = times.count(reached or "")
    return ArchiveColumns(
        times=times,
        series=[event.series for event in shown],
        ids=[event.id for event in shown] if keys.ids else [],
        values={
            path: [event.data if not path else find_plain(event.data, path) for event in shown] for path in keys.fields
        },
        reached=reached,
        skip=skip + (keys.skip if skip and reached == keys.start else 0),
        read=len(shown),
    )


def sort_events(
    rows: Iterable[ArchivedEvent], keys: ArchiveRange, layout: Layout, *, ascending: bool
) -> list[ArchivedEvent]:
    """Put the events of a part in the order of the answer."""
    across = layout.find_ordering_layout(keys.series)

    def find_place(row: ArchivedEvent) -> str:
        event = row[0]
        return across.make_sort_key(event.time, event.series, event.id)

    return sorted(rows, key=find_place, reverse=not ascending)


class FakeArchive:
    """Archived events by manifest, and their reader."""

    def __init__(self) -> None:
        self.periods: dict[str, Sequence[Event]] = {}
        self.layouts: dict[str, Layout] = {}

    def keep(self, manifest: str, layout: Layout, events: Sequence[Event]) -> None:
        """Archive the events of a period."""
        by = layout.partition_by
        self.periods[manifest] = sorted(events, key=lambda event: stored_place(by, event.time, event.series, event.id))
        self.layouts[manifest] = layout

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        return read_archive(keys, self, limit=min(limit, _PAGE) if keys.rank is None else limit, ascending=ascending)

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        return choose_page(self.periods[keys.manifest], keys, _PAGE)

    def manifest(self, key: str) -> Manifest:
        parts = tuple(
            Part(key=f"{key} {number}", events=0, size=0, sha256="", digest="", partitions=0, first="", last="~")
            for number in range(_PARTS)
        )
        return Manifest(
            stream="s", period="", table="", layout=self.layouts[key], events=0, size=0, digest="",
            columns={}, written_at="", parts=parts,
        )  # fmt: skip

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        number = int(part.key.rpartition(" ")[2])
        mine: list[ArchivedEvent] = [(event, None) for event in self.periods[keys.manifest][number::_PARTS]]
        return iter(sort_events(mine, keys, layout, ascending=ascending))


class FakeArchiver:
    """Archives tables of a FakeStore into a FakeArchive; with ``fails`` every call is refused."""

    def __init__(self, catalog: FakeCatalog, store: FakeStore, archive: FakeArchive, clock: Clock) -> None:
        self._catalog = catalog
        self._store = store
        self._archive = archive
        self._clock = clock
        self.fails = False

    def archive(self, stream: str, label: str, *, within: float, retain: bool = False) -> None:
        assert not retain, "archives of retained tables are tested with a Stage"
        if self.fails:
            raise ArchiveFailed("the bucket is gone")
        entry = next(entry for entry in self._catalog.entries(stream) if entry.period.label == label)
        entry = self._catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
        events = _settled(self._store.tables[entry.table].values(), entry.layout)
        self._archive.keep(entry.table, entry.layout, events)
        facts = ArchiveFacts(entry.table, len(events), 0, self._clock.now())
        self._catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)


def _settled(items: Iterable[Item], layout: Layout) -> list[Event]:
    """The events of a table's items. In a packed layout an event may have several copies: the copy that was accepted
    last counts and, of copies that were accepted at the same instant, the copy with the greatest hash.
    """
    if layout.pack is None:
        return [read_event(layout, item) for item in items]
    copies: dict[str, tuple[int, str, Event]] = {}
    for item in items:
        opened = open_item(item, layout, Zstd())
        for number, place in enumerate(opened.places):
            at = opened.ats[number] if opened.ats is not None else opened.at
            event = _read_packed(opened, number, layout)
            # The position contains the series only in a stream by time, so it is added here.
            key = f"{event.series}#{place}"
            if key not in copies or copies[key][:2] < (at, opened.hash):
                copies[key] = at, opened.hash, event
    return [event for _, _, event in copies.values()]


def _read_packed(opened: OpenedItem, index: int, layout: Layout) -> Event:
    """Read an event of a pack. Its data must be in the pack itself, as text."""
    time, series, id = layout.parse_names(opened.address, opened.places[index])
    value = opened.values[index]
    if not isinstance(value, str):
        raise DamagedPack("the data is kept in another form; make the item whole first")
    return Event(series, from_text(time), id, decode_json(value))
