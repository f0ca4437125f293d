"""Bodies that are damaged in every way say so, and what was sent as raw JSON is what was sent as values."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from aws.zstd import Zstd
from tests.packs.table import write_lines
from tests.worlds.packing import make_packs
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.ingest.verdicts import hash_content
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item
from tidetable.packs.body import DamagedPack, decode_body, encode_body

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = "2026-03-01T12:00:00.000000Z"
LAYOUT = Layout("series", 2, "id", pack=Packing(60, 65_536))
# The places of fields in the array that a body is.
SERIES_NUMBERS, ID_KIND, SHAPES, COLUMNS = 4, 5, 9, 11


def body_of(datas: list[dict[str, Any]]) -> bytes:
    count = len(datas)
    return encode_body([TIME] * count, ["a"] * count, [f"id {n}" for n in range(count)], datas)


@pytest.mark.parametrize(
    ("field", "value"),
    [(SERIES_NUMBERS, [7]), (ID_KIND, 9), (COLUMNS, []), (COLUMNS, "text"), (ID_KIND, "text")],
    ids=["a number of no series", "ids of no kind", "no columns", "no list of columns", "a kind that is no number"],
)
def test_a_body_that_cannot_be_read_is_damaged(field: int, value: Any) -> None:
    parts = msgspec.msgpack.decode(body_of([{"n": 1}]))
    parts[field] = value
    with pytest.raises(DamagedPack, match="its body cannot be read"):
        decode_body(msgspec.msgpack.encode(parts))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90"])
def test_what_is_no_body_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedPack, match="its body cannot be read"):
        decode_body(body)


@pytest.mark.parametrize(
    ("kinds", "count", "shapes"), [(8, 16, 8), (9, 18, 1), (8, 15, 1), (1, 1, 1)], ids=["8", "9", "few of each", "1"]
)
def test_events_of_more_than_eight_kinds_or_few_of_each_are_rows(kinds: int, count: int, shapes: int) -> None:
    """A retry must make the same bytes, whichever version made the first."""
    datas = [{f"field {n % kinds}": n} for n in range(count)]
    body = body_of(datas)
    kept = msgspec.msgpack.decode(body)[SHAPES]
    assert len(kept) == shapes
    assert (kept == [None]) == (kinds > shapes)
    assert [decode_json(text) for text in decode_body(body).texts] == datas


def test_an_id_follows_from_series_time_and_data_and_from_null_without_a_time() -> None:
    texts = [f'["s","{TIME}",{{"a":1}}]', '["s",null,{"a":1}]']
    wanted = [sha256(text.encode()).hexdigest()[:32] for text in texts]
    assert [hash_content("s", time, {"a": 1}) for time in (TIME, None)] == wanted


def test_a_pack_that_does_not_say_its_format_is_damaged() -> None:
    (pack,) = make_packs([LAYOUT.make_item(Event("a", NOW, "id", {"n": 1}), at=1)], LAYOUT, Zstd()).packs
    assert open_item(pack.item, LAYOUT, Zstd()).problem is None
    item = {name: value for name, value in pack.item.items() if name != "format"}
    opened = open_item(item, LAYOUT, Zstd())
    assert opened.problem is not None
    assert "the format 0" in opened.problem


def test_of_two_events_with_one_key_the_last_is_in_the_pack() -> None:
    items = [LAYOUT.make_item(Event("a", NOW, "id", {"n": n}), at=1) for n in (1, 2)]
    (pack,) = make_packs(items, LAYOUT, Zstd()).packs
    assert (pack.members, list(open_item(pack.item, LAYOUT, Zstd()).values)) == ([1], ['{"n":2}'])


def test_numbers_are_written_as_dynamodb_answers_them() -> None:
    texts = ["1.50", "1E3", "-0", "2.0", "0.0000001", "10"]
    wanted = b"1.5\n1000\n0\n2\n0.0000001\n10\n"
    assert write_lines([decode_json(text) for text in texts]) == wanted
    assert write_lines([decode_json("2.0"), decode_json("10.50")]) == b"2\n10.5\n"
    assert write_lines(["a", decode_json("1.50")]) == b'"a"\n1.5\n'
