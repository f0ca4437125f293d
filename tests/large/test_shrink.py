"""Shrinking and completing large events: whatever the policy, an event comes back unchanged."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.dynamodb.codes import find_outage
from aws.dynamodb.wire import decode_item, encode_item
from aws.large.pages import complete_page
from aws.zstd import Zstd
from tests.fakes import FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.items import read_event
from tests.fakes.noise import noise
from tests.worlds.large import make_entry
from tidetable.errors import ArchiveFailed, StoreUnavailable, TableThrottled, TidetableError
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.large.forms import MAX_EVENT_BYTES, derive_version, list_chunk_keys
from tidetable.large.shrink import Shrinker
from tidetable.large.table_names import name_chunks_table
from tidetable.large.unpack import group_items
from tidetable.layout import Index, Layout
from tidetable.ports import Blob, Put
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes
from tidetable.versions.writing import make_first_version

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "tidetable-t.s.2026-03-01"
PLAIN = Layout("time", 4, "id", 21_600)
WITH_PARTS = Layout("time", 4, "id", 21_600, parts=True)
VERSIONED = Layout("series", 2, "id", versioned=True, parts=True)
LAYOUTS = st.sampled_from([PLAIN, WITH_PARTS, VERSIONED])


texts = st.builds(lambda length, seed: noise(length, seed), st.sampled_from([0, 60, 1500, 30_000]), st.integers(0, 5))
numbers = st.integers(-(10**30), 10**30) | st.decimals(-1000, 1000, places=3) | st.just(Decimal("1.50"))
values = st.recursive(
    texts | numbers | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
datas = st.dictionaries(st.sampled_from(["a", "raw", "z", "out", "cold", "b#"]), values, max_size=4)


class World:
    """A period's two tables and a bucket."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.entry = make_entry(layout)
        self.store = FakeStore(FakeCatalog())
        self.store.tables = {TABLE: {}, name_chunks_table(TABLE): {}}
        self.values = FakeValues()
        self.unpacker = unpacker(self.store, self.values)
        self.numbers = count()

    def shrinker(self, above: int | None, beyond: str, *cold: str) -> Shrinker:
        return Shrinker(above, beyond, cold, Zstd(), lambda: str(next(self.numbers)))

    def item(self, data: dict[str, Any]) -> Item:
        item = self.layout.make_item(Event("se#ries", TIME, "id", data), at=7)
        return make_first_version(item, data) if self.layout.versioned else item

    def write(self, put: Put) -> Item:
        """Write a put, and read its item as DynamoDB gives it."""
        for part in put.outside:
            if isinstance(part, Blob):
                assert self.values.put(part)
            else:
                assert not self.store.write([part]).unwritten
        self.store.write([put])
        return decode_item(decode_json(encode_item(self.store.tables[TABLE][put.key])))


def same(one: Any, other: Any) -> bool:
    """Equal, though a whole number may be an int or a Decimal."""
    return bool(one == other)


@settings(max_examples=150, deadline=None)
@given(datas, LAYOUTS, st.sampled_from([None, 1024, 5000]), st.sampled_from(["refuse", "chunks", "s3"]), st.booleans())
def test_what_is_packed_is_whole_again(
    data: dict[str, Any], layout: Layout, above: int | None, beyond: str, cold: bool
) -> None:
    world = World(layout)
    item = world.item(data)
    put = world.shrinker(above, beyond, *(["raw"] if cold else [])).shrink_item(item, world.entry)
    assert put is not None, "this is below the limit"
    read = world.write(put)
    wholes = world.unpacker.complete_items([read], TABLE, cold=True)
    assert not wholes.missing
    assert same(wholes.items[0]["data"], data)
    assert read_event(world.layout, wholes.items[0]).data == data
    plain = world.unpacker.complete_items([read], TABLE, cold=False).items[0]["data"]
    hidden = {"raw"} if cold and layout.parts else set()
    assert plain == {name: value for name, value in data.items() if name not in hidden}
    assert "z" not in put.item or -(-count_item_bytes(put.item) // 1024) < -(-count_item_bytes(item) // 1024)


@settings(max_examples=100, deadline=None)
@given(datas, LAYOUTS, st.sampled_from([None, 1024]), st.sampled_from(["chunks", "s3"]), st.booleans(), st.booleans())
def test_an_archive_holds_the_same_wherever_the_data_was_and_after_a_restore(
    data: dict[str, Any], layout: Layout, above: int | None, beyond: str, cold: bool, large: bool
) -> None:
    """The scan of a restored table equals the first scan, byte for byte."""
    world = World(layout)
    data = {**data, "big": noise(900_000)} if large else data
    put = world.shrinker(above, beyond, *(["raw"] if cold else [])).shrink_item(world.item(data), world.entry)
    if put is None:
        assert beyond == "chunks"
        assert not layout.parts
        return
    world.write(put)

    def scanned() -> bytes:
        page = f"[{','.join(encode_item(item) for item in world.store.tables[TABLE].values())}]".encode()
        return complete_page(world.unpacker, page, TABLE)

    before = scanned()
    (whole,) = map(decode_item, decode_json(before))
    assert whole["data"] == data
    world.store.tables = {TABLE: {}, name_chunks_table(TABLE): {}}
    world.values.blobs.clear()
    world.write(world.shrinker(None, "refuse").shrink_archived_item(whole, world.entry))
    assert decode_json(scanned()) == decode_json(before)


@pytest.mark.parametrize("beyond, layout", [("chunks", WITH_PARTS), ("s3", PLAIN), ("chunks", VERSIONED)])
@pytest.mark.parametrize("length", [420_000, 1_000_000, 2_000_000])
def test_what_is_larger_than_an_item_is_kept_beside_it(beyond: str, layout: Layout, length: int) -> None:
    world = World(layout)
    data = {"text": noise(length), "n": Decimal("1.50")}
    put = world.shrinker(None, beyond).shrink_item(world.item(data), world.entry)
    assert put is not None
    assert count_item_bytes(put.item) <= MAX_ITEM_BYTES
    assert all(count_item_bytes(part.item) <= MAX_ITEM_BYTES for part in put.outside if isinstance(part, Put))
    read = world.write(put)
    assert world.unpacker.complete_items([read], TABLE, cold=False).items[0]["data"] == data


@pytest.mark.parametrize(
    "layout, beyond, length", [(PLAIN, "refuse", 420_000), (PLAIN, "chunks", 900_000), (PLAIN, "s3", MAX_EVENT_BYTES)]
)
def test_what_no_remedy_fits_is_refused(layout: Layout, beyond: str, length: int) -> None:
    """Chunks need a table that this period does not have, and no answer could hold the last event."""
    world = World(layout)
    assert world.shrinker(None, beyond).shrink_item(world.item({"text": noise(length)}), world.entry) is None


def test_what_is_too_large_for_an_item_and_compresses_well_stays_in_it() -> None:
    world = World(PLAIN)
    put = world.shrinker(None, "s3").shrink_item(world.item({"text": "tide " * 200_000}), world.entry)
    assert put is not None
    assert "z" in put.item
    assert put.outside == ()


def test_what_saves_no_unit_is_not_compressed() -> None:
    world = World(PLAIN)
    shrinker = world.shrinker(1024, "refuse")
    dense = shrinker.shrink_item(world.item({"text": noise(1800)}), world.entry)
    loose = shrinker.shrink_item(world.item({"text": "tide " * 500}), world.entry)
    assert dense is not None
    assert loose is not None
    assert "data" in dense.item
    assert "z" in loose.item


def test_a_retry_writes_the_same_parts_and_another_content_others() -> None:
    world = World(WITH_PARTS)
    shrinker = world.shrinker(None, "chunks")
    first, again, other = (
        shrinker.shrink_item(world.item({"text": noise(900_000, seed)}), world.entry) for seed in (1, 1, 2)
    )
    assert first is not None
    assert first == again
    assert other is not None
    assert not {part.key for part in first.outside} & {part.key for part in other.outside}


def test_a_part_that_is_gone_or_damaged_is_told_and_the_others_are_whole() -> None:
    world = World(WITH_PARTS)
    read = []
    for seed in range(3):
        data = {"text": noise(900_000, seed)}
        event = Event("s", TIME, f"id{seed}", data)
        put = world.shrinker(None, "chunks").shrink_item(world.layout.make_item(event), world.entry)
        assert put is not None
        read.append(world.write(put))
    keys = list_chunk_keys(read[0], read[0]["out"])
    parts = world.store.tables[name_chunks_table(TABLE)]
    del parts[next(key for key in parts if key.pk == keys[1])]
    damaged = next(key for key in parts if key.pk == list_chunk_keys(read[2], read[2]["out"])[0])
    parts[damaged] = {**parts[damaged], "b": b"x" + parts[damaged]["b"][1:]}
    wholes = world.unpacker.complete_items(read, TABLE, cold=False)
    assert wholes.missing.keys() == {0, 2}
    assert wholes.items[1]["data"] == {"text": noise(900_000, 1)}


@pytest.mark.parametrize(
    ("beyond", "parts", "marker"),
    [("refuse", False, "o"), ("refuse", True, "v"), ("s3", False, "o"), ("chunks", True, "v"), ("chunks", False, "o")],
)
@pytest.mark.parametrize("length", [101_000, 399_000])
def test_a_version_beyond_100_kb_keeps_its_data_outside_of_the_item(
    beyond: str, parts: bool, marker: str, length: int
) -> None:
    """A transaction of two such items would exceed what one partition can write in a second."""
    world = World(Layout("series", 2, "id", versioned=True, parts=parts))
    data = {"text": noise(length)}
    put = world.shrinker(None, beyond).shrink_item(world.item(data), world.entry)
    assert put is not None
    assert count_item_bytes(put.item) <= 100_000
    if length > 200_000:
        # A shorter text is small enough once it is compressed.
        assert marker in put.item["out"]
    read = world.write(put)
    assert world.unpacker.complete_items([read], TABLE, cold=False).items[0]["data"] == data


def test_a_version_beyond_400_kb_is_refused_where_the_policy_says_so() -> None:
    world = World(Layout("series", 2, "id", versioned=True))
    assert world.shrinker(None, "refuse").shrink_item(world.item({"text": noise(420_000)}), world.entry) is None


def test_a_version_whose_copies_in_indexes_are_too_large_to_be_superseded_is_refused() -> None:
    index = Index("copy", "*", project=("text",))
    world = World(Layout("series", 2, "id", 0, (index,), versioned=True))
    assert world.shrinker(None, "s3").shrink_item(world.item({"text": noise(170_000)}), world.entry) is None
    assert world.shrinker(None, "s3").shrink_item(world.item({"text": noise(120_000)}), world.entry) is not None


def test_the_versions_of_payloads_are_told_apart_and_are_the_same_for_the_same_bytes() -> None:
    """FIPS 180: SHA-256 of "abc"; its first 96 bits."""
    assert derive_version(b"abc") == "ba7816bf8f01cfea414140de"
    assert len({derive_version(str(number).encode()) for number in range(2_000)}) == 2_000


def test_data_is_fetched_in_groups_of_16_megabytes() -> None:
    sizes = (8_000_000, 8_000_000, 1, 20_000_000, 15_999_999)
    items: list[Item] = [{"pk": "a#0", "sk": str(size), "out": {"o": "x", "b": size}} for size in sizes]
    assert [[item["out"]["b"] for item in group] for group in group_items(items, cold=False)] == [
        [8_000_000, 8_000_000],
        [1],
        [20_000_000],
        [15_999_999],
    ]


@pytest.mark.parametrize(
    "code, error",
    [
        ("ProvisionedThroughputExceededException", TableThrottled),
        ("throttled", TableThrottled),
        ("AccessDeniedException", ArchiveFailed),
    ],
)
def test_an_export_waits_for_chunks_that_are_throttled_and_fails_for_other_refusals(
    code: str, error: type[TidetableError], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(WITH_PARTS)
    put = world.shrinker(None, "chunks").shrink_item(world.item({"text": noise(900_000)}), world.entry)
    assert put is not None
    world.write(put)

    def refuse(*_: Any) -> Any:
        raise StoreUnavailable(find_outage(code), "not now", code)

    monkeypatch.setattr(world.store, "get_chunks", refuse)
    with pytest.raises(error):
        complete_page(world.unpacker, f"[{encode_item(put.item)}]".encode(), TABLE)


def test_an_export_whose_table_of_chunks_is_gone_fails_and_says_which_table_is_not_complete() -> None:
    world = World(WITH_PARTS)
    put = world.shrinker(None, "chunks").shrink_item(world.item({"text": noise(900_000)}), world.entry)
    assert put is not None
    world.write(put)
    del world.store.tables[name_chunks_table(TABLE)]
    with pytest.raises(ArchiveFailed, match=f"^{TABLE} is not complete: "):
        complete_page(world.unpacker, f"[{encode_item(put.item)}]".encode(), TABLE)
