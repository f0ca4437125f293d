"""Archives in memory."""

from tests.fakes.catalog import FakeCatalog
from tests.fakes.store import FakeStore
from tidetable.catalog import ArchiveFacts, State
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.ports import ArchivePage, ArchiveRange, Clock


class FakeArchive:
    """What was archived, by manifest, and the reader of it."""

    def __init__(self) -> None:
        self.periods: dict[str, list[tuple[str, Event]]] = {}

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        placed = sorted(self.periods[keys.manifest], key=lambda one: one[0], reverse=not ascending)
        events = [
            event
            for place, event in placed
            if keys.low <= place <= keys.high
            and keys.series in (None, event.series)
            and all(one.holds(event.data) for one in keys.conditions)
            and (keys.after is None or (place > keys.after if ascending else place < keys.after))
        ]
        # Short pages, as an answer's size may force them.
        size = min(limit, 7)
        return ArchivePage(events[:size], more=len(events) > size)


class FakeArchiver:
    """Archives from a FakeStore into a FakeArchive. ``fails`` makes it refuse."""

    def __init__(self, catalog: FakeCatalog, store: FakeStore, archive: FakeArchive, clock: Clock) -> None:
        self._catalog = catalog
        self._store = store
        self._archive = archive
        self._clock = clock
        self.fails = False

    def archive(self, stream: str, label: str, *, within: float) -> None:
        if self.fails:
            raise ArchiveFailed("the bucket is gone")
        entry = next(one for one in self._catalog.entries(stream) if one.period.label == label)
        entry = self._catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
        items = self._store.tables[entry.table].values()
        self._archive.periods[entry.table] = [(item["sk"], entry.layout.event_of(item)) for item in items]
        facts = ArchiveFacts(entry.table, len(items), 0, self._clock.now())
        self._catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)
