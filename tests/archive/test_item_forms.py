"""Items of unusual forms: a part keeps what no column can say, and an item that is not an event is refused."""

import json
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aws.archive.parquet import Parquet
from aws.archive.render import escape_json
from tests.worlds.parts import RANKED, make_item, round_trip
from tidetable.errors import ArchiveFailed
from tidetable.layout import Index, Layout

BY_SERIES = Layout("series", 2, "id")
INDEXED = Layout("series", 2, "id", 0, (Index("status", "status", 3),))
# A ranking by a field inside a map.
DEEP = Layout("series", 2, "id", 0, (Index("deep", "*", 2, "place.depth", project=("kind",)),))
ONE, A_SET = {"N": "1"}, {"SS": ["a"]}


def read_part(body: bytes) -> Any:
    return pq.read_table(BytesIO(body))


@pytest.mark.parametrize("more", [{}, {"tags": A_SET}], ids=["as a page", "item by item"])
def test_index_attributes_that_do_not_follow_from_the_data_come_back(more: dict[str, Any]) -> None:
    """Somebody has changed or removed an attribute of each item but the first."""
    changes: list[tuple[str, Any]] = [
        ("", None),
        *((name, None) for name in ("pk_ranking", "sk_ranking", "in_status")),
        ("pk_ranking", {"S": "by hand"}),
        ("sk_ranking", {"N": "6"}),
        ("in_status", {"M": {"z": ONE}}),
    ]
    items = []
    for number, (name, value) in enumerate(changes):
        item = make_item(RANKED, "s", number, f"id{number}", {"n": {"N": "5"}, "status": {"S": "new"}, **more}, {})
        item.pop(name, None)
        if value is not None:
            item[name] = value
        items.append(item)
    table = read_part(round_trip(RANKED, items, {}, pages=9))
    kept = [json.loads(text).keys() if text else set() for text in table.column("attributes").to_pylist()]
    assert not kept[0], "what follows from the data is not kept"
    # A partition key has a column of its own, whatever it says.
    assert [bool(names) for names in kept[1:]] == [True, True, True, False, True, True]


@pytest.mark.parametrize("more", [{}, {"tags": A_SET}], ids=["as a page", "item by item"])
def test_a_ranking_by_a_field_in_a_map_is_derived(more: dict[str, Any]) -> None:
    rows: list[dict[str, Any]] = [
        {"place": {"M": {"depth": {"N": "1.50"}}}, "kind": {"S": "a"}},
        {"place": {"M": {"depth": {"S": "no number"}}}},
        {"place": {"S": "no map"}, "kind": {"S": "b"}},
        {},
    ]
    items = [make_item(DEEP, "s", number, f"id{number}", {**data, **more}, {}) for number, data in enumerate(rows)]
    assert ["pk_deep" in item for item in items] == [True, False, False, False]
    assert items[0]["sk_deep"] == {"N": "1.50"}
    table = read_part(round_trip(DEEP, items, {}, pages=4))
    assert table.column("attributes").null_count == 4


def test_keys_have_suffixes_of_three_digits_and_versions_of_nine() -> None:
    """A stream has at most 256 suffixes."""
    wide = Layout("series", 256, "id")
    items = [make_item(wide, "a", number, f"i{number}", {}, {}) for number in range(300)]
    assert max(read_part(round_trip(wide, items, {}, pages=300)).column("shard").to_pylist()) > 199
    kept = Layout("series", 2, "id", versioned=True)
    items = [make_item(kept, "a", 1, "i", {}, {}, version) for version in (0, 100, 999_999_999)]
    assert sorted(read_part(round_trip(kept, items, {})).column("version").to_pylist()) == [0, 100, 999_999_999]


def test_every_character_that_json_escapes_comes_back() -> None:
    texts = [chr(code) for code in range(32)] + ['"', "\\", "\x7f", '\\"\n\\n']
    items = [
        make_item(BY_SERIES, "a", number, f"i{number}", {"x": {"S": text}, "deep": {"M": {"y": {"S": text}}}}, {})
        for number, text in enumerate(texts)
    ]
    assert read_part(round_trip(BY_SERIES, items, {}, pages=99)).column("x").to_pylist() == texts


def test_each_character_is_escaped_in_a_page_without_others() -> None:
    """A page is searched as a whole for what must be escaped."""
    short = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r", 34: r"\"", 92: "\\\\"}
    for code in range(128):
        expected = short.get(code, f"\\u{code:04x}" if code < 32 else chr(code))
        assert escape_json(pa.array([chr(code), ""])).to_pylist() == [expected, ""]


def test_the_digest_of_a_set_does_not_depend_on_its_order() -> None:
    pages = []
    for tags in (["a", "b", "c"], ["c", "a", "b"]):
        data = {"x": {"SS": tags}, "y": {"M": {"z": {"SS": tags}}}, "l": {"L": [{"SS": tags}]}}
        pages.append(json.dumps([make_item(BY_SERIES, "a", 1, "i", data, {})]).encode())
    assert Parquet().page_facts(pages[0]).hex == Parquet().page_facts(pages[1]).hex


def test_a_part_says_when_events_were_accepted_and_that_its_rows_are_in_order() -> None:
    """For readers outside of the project, such as Athena."""
    items = [make_item(BY_SERIES, "a", n, f"i{n}", {}, {"at": {"N": "1772366400250"}} if n else {}) for n in range(2)]
    body = round_trip(BY_SERIES, items, {})
    accepted = read_part(body).column("accepted_at")
    assert str(accepted.type) == "timestamp[ms, tz=UTC]"
    assert accepted.to_pylist() == [None, datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)]
    order = pq.ParquetFile(BytesIO(body)).metadata.row_group(0).sorting_columns
    assert [(column.column_index, column.descending) for column in order] == [(1, False), (0, False)]


@pytest.mark.parametrize("more", [{}, {"tags": A_SET}], ids=["as a page", "item by item"])
def test_an_item_without_data_is_refused(more: dict[str, Any]) -> None:
    event = make_item(BY_SERIES, "a", 1, "i", {}, more)
    without = {name: value for name, value in event.items() if name != "data"}
    for page in ([without], [event, without], [without, event]):
        with pytest.raises(ArchiveFailed, match="an item without data, which is not an event"):
            Parquet().writer(BY_SERIES, {}).add(json.dumps(page).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [("sk_status", {"S": "2026-03-01T00:00:00.000001Z#a#other"}), ("sk_status", None), ("pk_status", None)],
)
def test_an_item_whose_key_in_an_index_is_not_an_events_is_refused(name: str, value: Any) -> None:
    item = make_item(INDEXED, "a", 1, "i", {"status": {"S": "new"}}, {})
    del item[name]
    item |= {name: value} if value is not None else {}
    with pytest.raises(ArchiveFailed, match="key in the index status is not an event's"):
        Parquet().writer(INDEXED, {}).add(json.dumps([item]).encode())
