"""A bucket in memory, and a fast format for parts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aws.archive.render import render_canonical
from aws.dynamodb.wire import decode_item
from tests.fakes.archive import choose_page, sort_events
from tests.fakes.items import read_event
from tidetable.archive import ItemsDigest
from tidetable.archive.manifest import Bounds, Manifest, Part
from tidetable.archive.ports import ArchivedRows
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.batch import Batch
from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, WholeRange
from tidetable.times import to_text
from tidetable.versions.shown import read_version

# The number is small, so a read of one event decodes few other events; but it decodes some events outside of the range.
ROWS_PER_GROUP = 16
_USUAL = {"pk", "sk", "at", "data"}


class FakeBucket:
    """A bucket in memory. It calls ``strike`` before each request; ``strike`` may raise an error."""

    def __init__(self, strike: Callable[[], None] = lambda: None) -> None:
        self.objects: dict[str, bytes] = {}
        self._strike = strike

    def put(self, key: str, body: bytes) -> None:
        self._strike()
        self.objects[key] = body

    def get(self, key: str) -> bytes:
        self._strike()
        return self.objects[key]

    def find(self, key: str) -> bytes | None:
        self._strike()
        return self.objects.get(key)

    def sizes(self, prefix: str) -> Mapping[str, int]:
        self._strike()
        return {key: len(body) for key, body in self.objects.items() if key.startswith(prefix)}

    def clear(self, prefix: str) -> None:
        for key in self.sizes(prefix):
            self._strike()
            del self.objects[key]


def count_into(facts: ItemsDigest, items: bytes) -> None:
    """Add the facts of a page of items."""
    decoded = json.loads(items)
    if decoded:
        keys = sorted(item["sk"]["S"] for item in decoded)
        facts.add(map(render_canonical, decoded), Counter(item["pk"]["S"] for item in decoded), keys[0], keys[-1])


class FakeWriter:
    """Keeps the items of a part."""

    def __init__(self) -> None:
        self.facts = ItemsDigest()
        self.size = 0
        self.untyped: Mapping[str, int] = {}
        self.is_full = False
        self._items: list[Any] = []

    def add(self, items: bytes) -> None:
        self.size += len(items)
        self._items += json.loads(items)
        count_into(self.facts, items)

    def finish(self) -> bytes:
        return json.dumps(sorted(self._items, key=lambda item: str(item["sk"]["S"]))).encode()

    def find_bounds(self) -> Bounds | None:
        return None


class FakeFormat:
    """A format that stores the items of a part as JSON, without columns or compression."""

    def writer(self, layout: Layout, columns: Mapping[str, str]) -> FakeWriter:
        return FakeWriter()

    def page_facts(self, items: bytes) -> ItemsDigest:
        facts = ItemsDigest()
        count_into(facts, items)
        return facts

    def facts(self, part: bytes, layout: Layout) -> ItemsDigest:
        return self.page_facts(part)

    def pages(self, parts: Sequence[bytes], layout: Layout) -> Iterator[bytes]:
        return iter(parts)

    def items(self, part: bytes, layout: Layout) -> Iterator[Item]:
        return map(decode_item, json.loads(part))

    def rows(self, part: bytes, layout: Layout, start: int) -> Iterator[ArchivedRows]:
        items = list(self.items(part, layout))[start:]
        for some in (items[first : first + ROWS_PER_GROUP] for first in range(0, len(items), ROWS_PER_GROUP)):
            events = [read_event(layout, item) for item in some]
            odd = {number: item for number, item in enumerate(some) if layout.versioned or item.keys() != _USUAL}
            batch = Batch.of(events, 0)
            batch.at, batch.large = [int(item.get("at", 0)) for item in some], ()
            batch.datas = [{} if number in odd else event.data for number, event in enumerate(events)]
            yield ArchivedRows(batch, odd)


class _Group:
    """Some rows of a part, with the text of their first and last time."""

    def __init__(self, events: Sequence[ArchivedEvent]) -> None:
        self.events = events
        times = [event.time for event, _ in events]
        self._first, self._last = to_text(min(times)), to_text(max(times))

    def overlaps(self, low: str, high: str) -> bool:
        """Whether the group may hold an event between two sort keys. A sort key begins with a time."""
        return self._first <= high and low[: len(self._last)] <= self._last


class FakeBucketReader:
    """Reads archives from a FakeBucket, and keeps the parts that it has decoded, by their bytes.

    Like the reader of Parquet, it yields whole groups of rows. It skips groups whose times are all outside the range.
    """

    def __init__(self, bucket: FakeBucket) -> None:
        self._bucket = bucket
        self._parts: dict[bytes, list[_Group]] = {}
        self._manifests: dict[bytes, Manifest] = {}

    def manifest(self, key: str) -> Manifest:
        body = self._bucket.objects[key]
        if body not in self._manifests:
            self._manifests[body] = Manifest.decode(body)
        return self._manifests[body]

    def _open(self, part: Part, layout: Layout) -> list[_Group]:
        body = self._bucket.objects[part.key]
        if body not in self._parts:
            items = FakeFormat().items(body, layout)
            events = [(read_event(layout, item), read_version(item) if layout.versioned else None) for item in items]
            self._parts[body] = [
                _Group(events[at : at + ROWS_PER_GROUP]) for at in range(0, len(events), ROWS_PER_GROUP)
            ]
        return self._parts[body]

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        manifest = self.manifest(keys.manifest)
        groups = [group for part in manifest.parts for group in self._open(part, manifest.layout)]
        rows = [row for group in groups for row in group.events]
        return choose_page([event for event, version in rows if version is None or version.newest], keys, 1_000)

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        low, high = layout.find_place(keys.low), layout.find_place(keys.high)
        groups = [group for group in self._open(part, layout) if group.overlaps(low, high)]
        yield from sort_events((row for group in groups for row in group.events), keys, layout, ascending=ascending)

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        return read_archive(keys, self, limit=limit, ascending=ascending)
