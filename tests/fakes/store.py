"""The event store and the overflow queue in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from aws.zstd import Zstd
from tests.fakes.catalog import FakeCatalog
from tests.fakes.held_table import HeldTable
from tidetable.batch import decode_data
from tidetable.catalog import WRITABLE, Entry, State
from tidetable.errors import TableMissing
from tidetable.events import Event, Item
from tidetable.exact_json import encode_json
from tidetable.forms.field_columns import KINDS, name_kind
from tidetable.large.chunks import ChunkStore
from tidetable.large.shrink import LargeValueServices
from tidetable.large.sweep_ports import Stored
from tidetable.large.unpack import Unpacker
from tidetable.layout import Index, Key, find_plain
from tidetable.ports import (
    Blob,
    FieldPage,
    Guard,
    Guarded,
    ItemColumns,
    KeyRange,
    Page,
    Put,
    RangeRead,
    Transacted,
    Written,
)
from tidetable.times import EPOCH


def hold_item(item: Item) -> Item:
    """The item as a table holds it: its values are decoded."""
    return {**item, "data": decode_data(item["data"])} if "data" in item else item


class FakeStore:
    """The event store in memory. The next ``throttled`` puts are refused, as by a table without capacity.

    ``throttles`` are tables that refuse every put. ``between`` is called before each transaction: it can do what
    another writer might do at that moment. Eventually consistent reads answer ``stale``, or the present items if
    ``stale`` is None.
    """

    def __init__(self, catalog: FakeCatalog) -> None:
        self._catalog = catalog
        self.tables: dict[str, dict[Key, Item]] = {}
        self.stale: dict[str, dict[Key, Item]] | None = None
        self.throttled = 0
        self.throttles: set[str] = set()
        self.between: Callable[[], None] = lambda: None
        self.items_read = 0

    def write(self, puts: Sequence[Put]) -> Written:
        outcome = Written()
        assert len({(put.table, put.key) for put in puts}) == len(puts), "BatchWriteItem refuses a repeated key"
        for put in puts:
            if put.table not in self.tables:
                outcome.missing_tables.add(put.table)
                outcome.unwritten.append(put)
            elif self.throttled > 0 or put.table in self.throttles:
                self.throttled = max(self.throttled - 1, 0)
                outcome.throttles[put.table] += 1
                outcome.unwritten.append(put)
            else:
                self.tables[put.table][put.key] = hold_item(put.item)
                outcome.units += 1
        return outcome

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        outcome = Written()
        for put in puts:
            if put.table not in self.tables or self.throttled > 0 or put.table in self.throttles:
                outcome.add(self.write([put]))
                continue
            stored = self.tables[put.table].get(put.key)
            if holds(guard, put, stored):
                outcome.add(self.write([put]))
            else:
                outcome.conflicts.append((put, stored or {}))
        return outcome

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        self.between()
        if entry is not None:
            recorded = self._catalog.items.get((entry.stream, entry.period))
            if recorded is None or not self._passes_fence(entry, recorded):
                return Transacted.FENCED
        if not all(holds(guard, put, self._table(put.table).get(put.key)) for put, guard in puts):
            return Transacted.CONFLICT
        for put, _ in puts:
            self._table(put.table)[put.key] = hold_item(put.item)
        if entry is not None and entry.state is State.RETAINED:
            self._catalog.mark(entry, [put.item for put, _ in puts])
        if total is not None:
            # AWS: a transaction costs twice as much.
            total.units += 2 * len(puts)
        return Transacted.DONE

    @staticmethod
    def _passes_fence(entry: Entry, recorded: Entry) -> bool:
        if State.RETAINED not in (entry.state, recorded.state):
            return recorded.state in WRITABLE
        held, known = recorded.segments, entry.segments
        same = held is not None and known is not None and (held.count, held.slices) == (known.count, known.slices)
        return entry.state is recorded.state and same

    def get_many(self, table: str, keys: Sequence[Key], *, consistent: bool = True) -> Mapping[Key, Item]:
        items = self._table(table, consistent=consistent)
        return {key: items[key] for key in keys if key in items}

    def get_chunks(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        items = self._table(table)
        return {key: items[Key(key, "")]["b"] for key in keys if Key(key, "") in items}

    def _query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool) -> Page:
        pk, sk = (keys.index.pk, keys.index.sk) if keys.index is not None else ("pk", "sk")
        names = list(dict.fromkeys((sk, "pk", "sk")))
        held = self._table(keys.table, consistent=consistent)
        if keys.index is None and isinstance(held, HeldTable):
            page, more = held.read_page(keys, limit, ascending=ascending)
        else:
            page, more = find_page(held, keys, names, limit, ascending=ascending)
        self.items_read += len(page)
        last = {name: page[-1][name] for name in dict.fromkeys((pk, *names))} if more else None
        items = page
        if keys.times or keys.skip_oldest or keys.conditions:
            items = [item for item in items if passes_filters(item, keys)]
        if keys.index is not None:
            items = [project(item, keys.index) for item in items]
        return Page(ItemColumns.of(items), more, 0.5, last, len(page))

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,
        consistent: bool = False,
        texts: bool = False,
        fields: Sequence[str] = (),
    ) -> Sequence[Page | None]:
        def read_page(request: RangeRead) -> Page | None:
            if request.keys.table not in self.tables:
                return None
            page = self._query(request.keys, limit=request.limit, ascending=ascending, consistent=consistent)
            if fields:
                return replace(
                    page, columns=ItemColumns.of([keep_fields(item, fields, request.keys.index) for item in page.items])
                )
            are_plain = all(item.keys() <= {"pk", "sk", "at", "data"} for item in page.items)
            if not texts or request.keys.index is not None or not are_plain:
                return page
            contents = [encode_json(item["data"]).decode() for item in page.items]
            return replace(page, columns=page.columns._replace(contents=contents))

        return [read_page(read) for read in reads]

    def query_fields(
        self, reads: Sequence[RangeRead], fields: Sequence[str], *, consistent: bool = False
    ) -> Sequence[FieldPage | None]:
        projected = () if KINDS in fields else fields
        pages = self.query_many(reads, ascending=True, consistent=consistent, fields=projected)
        return [None if page is None else make_field_page(page, fields) for page in pages]

    def scan_partitions(self, table: str) -> Iterator[tuple[Sequence[str], float]]:
        yield list(dict.fromkeys(key.pk for key in self._table(table))), 1.0

    def get(self, table: str, key: Key) -> Item | None:
        return self._table(table).get(key)

    def _table(self, name: str, *, consistent: bool = True) -> dict[Key, Item]:
        if name not in self.tables:
            raise TableMissing(name)
        return self.tables[name] if consistent or self.stale is None else self.stale.get(name, {})


def find_page(
    held: Mapping[Key, Item], keys: KeyRange, names: Sequence[str], limit: int, *, ascending: bool
) -> tuple[list[Item], bool]:
    """Find the first ``limit`` items of a range, in the order of ``names``, and whether there are more."""
    pk, sk = "pk" if keys.index is None else keys.index.pk, names[0]

    def place(item: Item) -> tuple[Any, ...]:
        return tuple(item[name] for name in names)

    if keys.index is None:
        # The key of an item is faster than its attribute.
        items = [item for key, item in held.items() if key[0] == keys.pk]
    else:
        items = [item for item in held.values() if item.get(pk) == keys.pk]
    items = [item for item in items if sk in item and (not keys.prefix or item[sk].startswith(keys.prefix))]
    items = [item for item in items if keys.low is None or item[sk] >= keys.low]
    items = sorted((item for item in items if keys.high is None or item[sk] <= keys.high), key=place)
    if not ascending:
        items.reverse()
    after, start = keys.after, None if keys.start is None else place(keys.start)
    if after is not None:
        items = [item for item in items if (item[sk] > after if ascending else item[sk] < after)]
    if start is not None:
        items = [item for item in items if (place(item) > start if ascending else place(item) < start)]
    return items[:limit], limit < len(items)


def make_field_page(page: Page, fields: Sequence[str]) -> FieldPage:
    """Make columns of the items of a page."""
    others = [item for item in page.items if "z" in item or "out" in item]
    items = [item for item in page.items if "z" not in item and "out" not in item]
    datas = [item.get("data", {}) for item in items]
    values: list[Any] = [_list_plain(datas, field) for field in fields]
    if KINDS in fields:
        shapes = [(tuple(data), tuple(map(type, data.values()))) for data in datas]
        kinds = {shape: frozenset(zip(shape[0], map(name_kind, shape[1]), strict=True)) for shape in set(shapes)}
        values[fields.index(KINDS)] = [kinds[shape] for shape in shapes]
    sks = [item["sk"] for item in items]
    return FieldPage(sks, values, others, page.more, page.units, page.last, page.read)


def _list_plain(datas: Sequence[dict[str, Any]], field: str) -> list[Any]:
    """The plain values of a field."""
    values = [data.get(field) for data in datas]
    # Most fields are not nested, and a simulation reads millions of values.
    if "." in field or not {dict, list}.isdisjoint(map(type, values)):
        return [find_plain(data, field) for data in datas]
    return values


def passes_filters(item: Item, keys: KeyRange) -> bool:
    """Whether an item passes a range's filters."""
    if keys.times is not None and not keys.times[0] <= item["sk"] <= keys.times[1]:
        return False
    if keys.skip_oldest is not None and keys.skip_oldest[0] <= item.get("oldest", "") <= keys.skip_oldest[1]:
        return False
    data = item.get("data", {})
    return "z" in item or "out" in item or all(condition.holds(data) for condition in keys.conditions)


def keep_fields(item: Item, fields: Sequence[str], index: Index | None) -> Item:
    """Reduce the data of an item to these fields."""
    tops = {field.partition(".")[0] for field in fields}
    root = index.copy if index is not None and index.project else "data"
    others = {name: value for name, value in item.items() if name != root}
    return {**others, root: {name: value for name, value in item.get(root, {}).items() if name in tops}}


def project(item: Item, index: Index | None) -> Item:
    """The attributes of an item that an index holds."""
    if index is None or index.project is None:
        return item
    return {name: item[name] for name in ("pk", "sk", index.pk, index.sk, index.copy) if name in item}


def holds(guard: Guard | None, put: Put, stored: Item | None) -> bool:
    """Whether the condition of a put holds."""
    match guard:
        case None:
            return True
        case "absent":
            return stored is None
        case "newer":
            return stored is None or "at" not in stored or stored["at"] <= put.item["at"]
        case version:
            return stored is not None and stored.get("version") == version


class FakeValues:
    """The bucket of large values. With ``refuses`` it is unreachable; ``strike`` is called after each request."""

    def __init__(self, now: Callable[[], datetime] = lambda: EPOCH, strike: Callable[[], None] = lambda: None) -> None:
        self._now = now
        self._strike = strike
        self.blobs: dict[str, Blob] = {}
        self.written: dict[str, datetime] = {}
        self.refuses = False
        self._drawn = 0

    def draw_name(self) -> str:
        """A name for an object; the same names in each run."""
        self._drawn += 1
        return f"object-{self._drawn - 1}"

    def put(self, blob: Blob) -> bool:
        if self.refuses:
            return False
        self.blobs[blob.key] = blob
        self.written[blob.key] = self._now()
        self._strike()
        return True

    def get(self, key: str) -> bytes | None:
        self._strike()
        return self.blobs[key].body if key in self.blobs else None

    def stored(self, prefix: str, after: str = "") -> list[Stored]:
        self._strike()
        return [
            Stored(key, len(blob.body), self.written[key])
            for key, blob in sorted(self.blobs.items())
            if key.startswith(prefix) and key > after
        ]

    def folders(self, prefix: str) -> list[str]:
        self._strike()
        names = (key.removeprefix(prefix).partition("/")[0] for key in self.blobs if key.startswith(prefix))
        return sorted(set(names))

    def owner(self, key: str) -> Key | None:
        self._strike()
        return self.blobs[key].owner

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.blobs.pop(key, None)
        self._strike()


def large_values(values: FakeValues) -> LargeValueServices:
    """The services for large values. The names of objects are the same in each run."""
    return LargeValueServices(values, Zstd(), values.draw_name)


def unpacker(store: ChunkStore, values: FakeValues) -> Unpacker:
    """The service that completes items whose data is outside of the item."""
    return Unpacker(store, values, Zstd())


class FakeOverflow:
    """The overflow queue. With ``refuses`` it is unreachable."""

    def __init__(self) -> None:
        self.queued: list[Event] = []
        self.wakes: list[str] = []
        self.refuses = False

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        if self.refuses:
            return events
        self.queued += events
        return []

    def wake(self, stream: str, bodies: Sequence[str]) -> bool:
        self.wakes += bodies
        return not self.refuses
