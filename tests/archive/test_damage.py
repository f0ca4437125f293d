"""Archives that are damaged, or that lose or change an event: the comparison finds them."""

from collections import Counter
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aws.archive.part_writer import ParquetWriter
from tests.worlds.archives import World, some
from tidetable.archive import ItemsDigest
from tidetable.catalog import State
from tidetable.errors import ArchiveFailed, ArchiveMismatch


def test_one_damaged_byte_is_seen_and_nothing_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    get = world.get
    monkeypatch.setattr(world, "get", lambda key: get(key)[:-20] + b"?" + get(key)[-19:])
    with pytest.raises(ArchiveMismatch):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_part_that_another_run_wrote_in_another_form_is_not_the_part_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has the same events: a manifest with the size and the hash of other bytes would be of no archive."""
    world = World(some(100))
    put = world.put

    def put_otherwise(key: str, body: bytes) -> None:
        if key.endswith(".parquet"):
            other = BytesIO()
            pq.write_table(pq.read_table(BytesIO(body)), other, compression="none")
            assert other.getvalue() != body
            body = other.getvalue()
        put(key, body)

    monkeypatch.setattr(world, "put", put_otherwise)
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_part_that_went_away_before_the_manifest_is_seen_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    sizes = world.sizes
    monkeypatch.setattr(
        world, "sizes", lambda prefix: {key: size for key, size in sizes(prefix).items() if "00001" not in key}
    )
    with pytest.raises(ArchiveMismatch, match="did not hold"):
        world.archive()
    monkeypatch.undo()
    world.archive()
    assert world.state is State.ARCHIVED


def test_a_part_of_another_size_is_seen_before_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run wrote it again after it was checked."""
    world = World(some(100))
    sizes = world.sizes
    monkeypatch.setattr(world, "sizes", lambda prefix: {key: size + 1 for key, size in sizes(prefix).items()})
    with pytest.raises(ArchiveMismatch, match="did not hold"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_format_that_loses_an_event_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    whole = ParquetWriter.finish
    monkeypatch.setattr(ParquetWriter, "finish", lambda self: lossy(self))

    def lossy(writer: ParquetWriter) -> bytes:
        writer._pages = [page.slice(1) for page in writer._pages]
        return whole(writer)

    with pytest.raises(ArchiveMismatch, match="read back but"):
        world.archive()


def test_a_format_that_changes_one_value_is_seen_though_the_count_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    whole = ParquetWriter.finish

    def changing(writer: ParquetWriter) -> bytes:
        page = writer._pages[0]
        column = page.column_names.index("field n")
        values = page.column("field n").to_pylist()
        writer._pages[0] = page.set_column(column, "field n", pa.array(["999", *values[1:]]))
        return whole(writer)

    monkeypatch.setattr(ParquetWriter, "finish", changing)
    with pytest.raises(ArchiveMismatch, match="digests differ"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_facts_tell_partitions_apart_that_hold_as_many_items() -> None:
    one, other = ItemsDigest(), ItemsDigest()
    one.add([b"x"], Counter(["a"]), "1", "1")
    other.add([b"x"], Counter(["b"]), "1", "1")
    assert (one.items, one.digest) == (other.items, other.digest)
    assert one.identity != other.identity


@pytest.mark.parametrize(
    ("pk", "sk", "more"),
    [
        ("2026-03-01T00:00:00.000000Z#0", "by#hand", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b#c", {}),
        ("2026-03-01T06:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-99-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b", {"data": {"S": "text"}}),
        # A set is read item by item.
        (
            "2026-03-01T00:00:00.000000Z#0",
            "2026-03-01T00:00:00.000000Z#a#b",
            {"data": {"S": "text"}, "tags": {"SS": ["a"]}},
        ),
    ],
)
def test_an_item_that_no_event_would_give_stops_the_archive(pk: str, sk: str, more: dict[str, Any]) -> None:
    world = World(some(3))
    world.items["t"].append({"pk": {"S": pk}, "sk": {"S": sk}, "data": {"M": {}}} | more)
    with pytest.raises(ArchiveFailed, match="not an event"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_missing_table_is_no_empty_archive() -> None:
    world = World([])
    del world.items["t"]
    with pytest.raises(ArchiveFailed, match="does not exist"):
        world.archive()
