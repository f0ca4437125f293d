"""The event store and the overflow queue in memory."""

from collections.abc import Sequence

from tests.fakes.catalog import FakeCatalog
from tidetable.catalog import WRITABLE, Entry
from tidetable.errors import TableMissing
from tidetable.events import Event, Item
from tidetable.keys import Key
from tidetable.ports import KeyRange, Page, Put, Written


class FakeStore:
    """``throttled`` holds how many of the next puts are refused, as a table short of capacity would."""

    def __init__(self, catalog: FakeCatalog) -> None:
        self._catalog = catalog
        self.tables: dict[str, dict[Key, Item]] = {}
        self.throttled = 0
        self.items_read = 0

    def write(self, puts: Sequence[Put]) -> Written:
        outcome = Written()
        assert len({(put.table, put.key) for put in puts}) == len(puts), "BatchWriteItem refuses a repeated key"
        for put in puts:
            if put.table not in self.tables:
                outcome.missing_tables.add(put.table)
                outcome.unwritten.append(put)
            elif self.throttled > 0:
                self.throttled -= 1
                outcome.throttled += 1
                outcome.unwritten.append(put)
            else:
                self.tables[put.table][put.key] = put.item
                outcome.units += 1
        return outcome

    def write_fenced(self, put: Put, entry: Entry) -> bool:
        held = self._catalog.items.get((entry.stream, entry.period))
        if held is None or held.state not in WRITABLE:
            return False
        self._table(put.table)[put.key] = put.item
        return True

    def query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool = False) -> Page:
        table = self._table(keys.table)
        index = keys.index
        placed = {
            (Key(item[index.pk], item[index.sk]) if index is not None else key): item
            for key, item in table.items()
            if index is None or index.pk in item
        }
        found = sorted(key for key in placed if key.pk == keys.pk and keys.low <= key.sk <= keys.high)
        if not ascending:
            found.reverse()
        after = keys.after
        if after is not None:
            found = [key for key in found if (key.sk > after if ascending else key.sk < after)]
        page = found[:limit]
        self.items_read += len(page)
        return Page([placed[key] for key in page], more=len(page) < len(found), units=0.5)

    def get(self, table: str, key: Key) -> Item | None:
        return self._table(table).get(key)

    def _table(self, name: str) -> dict[Key, Item]:
        if name not in self.tables:
            raise TableMissing(name)
        return self.tables[name]


class FakeOverflow:
    """``refuses`` makes the queue unreachable."""

    def __init__(self) -> None:
        self.queued: list[Event] = []
        self.refuses = False

    def send(self, stream: str, events: Sequence[Event]) -> Sequence[Event]:
        if self.refuses:
            return events
        self.queued += events
        return []
