"""The format of an archive: every item comes back unchanged, whichever way it was read."""

import json
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.parquet import Parquet
from aws.archive.part_writer import ParquetWriter
from tests.worlds.parts import (
    NUMBERS,
    RANKED,
    SORTED,
    awkward,
    make_item,
    names,
    read_part,
    round_trip,
    text,
    values,
)
from tidetable.archive.digest import join_digests
from tidetable.errors import ArchiveFailed
from tidetable.layout import Index, Layout
from tidetable.ports import ArchiveRange

BY_TIME = Layout("time", 4, "id", 21_600)
BY_SERIES = Layout("series", 16, "id")
INDEXED = Layout("time", 2, "id", 3600, (Index("status", "status", 3), Index("deep", "a.b")))
INDEXED_SERIES = Layout("series", 2, "id", 0, (Index("status", "status", 3),))
KEPT = Layout("time", 2, "id", 3600, (Index("status", "status", 3),), versioned=True)
KEPT_SERIES = Layout("series", 2, "id", 0, (Index("status", "status", 3),), versioned=True)
LAYOUTS = [BY_TIME, BY_SERIES, INDEXED, INDEXED_SERIES, RANKED, SORTED, KEPT, KEPT_SERIES]

NUMBERS += ["12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"]


datas = st.dictionaries(names, values, max_size=4) | st.fixed_dictionaries(
    {"n": st.sampled_from(NUMBERS).map(lambda value: {"N": value}), "status": text.map(lambda value: {"S": value})}
)
accepted = st.fixed_dictionaries({}, optional={"at": st.integers(0, 2 * 10**12).map(lambda value: {"N": str(value)})})
extras = st.tuples(st.dictionaries(st.sampled_from(["note", "ttl"]), awkward, max_size=1), accepted).map(
    lambda both: {**both[0], **both[1]}
)
hexes = st.integers(0, 16**32 - 1).map(lambda value: f"{value:032x}")


@st.composite
def tables(draw: Any, values: Any, ids: Any) -> tuple[Layout, list[Any]]:
    layout = draw(st.sampled_from(LAYOUTS))
    row = st.tuples(
        st.sampled_from(["s", "s#1", "100%", "é\n"]),
        st.integers(0, 86_399_999_999),
        ids,
        values,
        st.just({}) | accepted | extras,
        st.sampled_from([0, 0, 1, 12]),
    )
    return layout, [make_item(layout, *row) for row in draw(st.lists(row, min_size=1, max_size=12))]


DECLARED = {"n": "decimal(20,4)", "a": "string", "b": "integer"}


@settings(max_examples=150, deadline=None)
@given(tables(datas, text.filter(bool)), st.booleans())
def test_items_of_any_data_come_back_as_they_were(table: tuple[Layout, list[Any]], declared: bool) -> None:
    round_trip(*table, DECLARED if declared else {})


@settings(max_examples=100, deadline=None)
@given(tables(st.dictionaries(names, awkward, max_size=3), hexes), st.booleans())
def test_sets_and_binaries_come_back_as_they_were(table: tuple[Layout, list[Any]], declared: bool) -> None:
    round_trip(*table, DECLARED if declared else {})


def regular(count: int) -> list[Any]:
    return [
        make_item(
            BY_TIME,
            f"sensor-{n % 5}",
            n * 40_000_000,
            f"{n * 7919:032x}",
            {"temperature": {"N": f"{n / 8:g}"}, "state": {"S": "ok"}, "on": {"BOOL": n % 2 == 0}},
            {},
        )
        for n in range(count)
    ]


def test_a_page_without_items_adds_nothing() -> None:
    writer = ParquetWriter(BY_TIME, {})
    for page in ([], regular(3), []):
        writer.add(json.dumps(page).encode())
    assert writer.facts.items == 3
    assert Parquet().facts(writer.finish(), BY_TIME).identity == writer.facts.identity


def test_plain_fields_are_typed_columns_and_nothing_is_left_over() -> None:
    body = round_trip(BY_TIME, regular(1000), {"temperature": "decimal(9,3)"}, pages=300)
    table = pq.read_table(BytesIO(body))
    types = {field.name: str(field.type) for field in table.schema}
    assert types["temperature"] == "decimal128(9, 3)"
    assert (types["state"], types["on"], types["time"]) == ("string", "bool", "timestamp[us, tz=UTC]")
    assert set(table.column("data").to_pylist()) == {"{}"}
    assert table.column("attributes").null_count == 1000
    assert table.column("id").null_count == 1000, "hexadecimal ids are packed"


def test_a_value_that_its_column_cannot_say_is_kept_beside_it() -> None:
    items = regular(3)
    items[1]["data"]["M"]["temperature"] = {"N": "0.12345678901234567890123456789012345678"}
    items[2]["data"]["M"]["temperature"] = {"S": "cold"}
    table = pq.read_table(BytesIO(round_trip(BY_TIME, items, {}, pages=3)))
    assert table.column("temperature").to_pylist() == [0.0, 0.12345678901234568, None]
    assert table.column("data").to_pylist() == [
        "{}",
        '{"temperature":{"N":"0.12345678901234567890123456789012345678"}}',
        '{"temperature":{"S":"cold"}}',
    ]


def test_maps_whose_names_are_data_do_not_become_columns() -> None:
    items = [
        make_item(BY_TIME, "s", n, f"i{n}", {"by": {"M": {f"user {n}-{k}": {"N": "1"} for k in range(50)}}}, {})
        for n in range(60)
    ]
    writer = ParquetWriter(BY_TIME, {})
    for item in items:
        writer.add(json.dumps([item]).encode())
    assert len(writer._names) <= 4
    round_trip(BY_TIME, items, {}, pages=7)


def test_only_the_row_groups_of_the_range_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [make_item(BY_TIME, "s", n * 1_000_000, f"i{n}", {}, {}) for n in range(60_000)]
    writer = ParquetWriter(BY_TIME, {})
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    read: list[int] = []
    whole = pq.ParquetFile.read_row_group

    def noting(file: Any, group: int, columns: Any = None) -> Any:
        read.append(group)
        return whole(file, group, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noting)
    low, high = "2026-03-01T06:00:00.000000Z", "2026-03-01T06:10:00.000000Z"
    events = list(read_part(body, ArchiveRange("", low, high), BY_TIME))
    assert read == [1]
    assert len(events) == 601
    later = ArchiveRange("", "2026-03-02T00:00:00.000000Z", "2026-03-03T00:00:00.000000Z")
    assert list(read_part(body, later, BY_TIME)) == []
    assert read == [1]


@given(st.permutations(regular(8)), st.integers(0, 7))
def test_the_digest_knows_no_order_but_every_item(shuffled: list[Any], index: int) -> None:
    def digest(items: list[Any]) -> tuple[int, int, Any]:
        return Parquet().page_facts(json.dumps(items).encode()).identity

    whole = digest(regular(8))
    assert digest(shuffled) == whole
    other = json.loads(json.dumps(shuffled))
    other[index]["data"]["M"]["state"] = {"S": "OK"}
    assert digest(other) != whole
    assert digest(shuffled[:index] + shuffled[index + 1 :]) != whole
    assert digest([*shuffled, shuffled[index]]) != whole
    halves = [Parquet().page_facts(json.dumps(half).encode()) for half in (shuffled[:index], shuffled[index:])]
    assert sum(half.items for half in halves) == whole[0]
    assert int(join_digests(half.hex for half in halves), 16) == whole[1]
    assert halves[0].partitions + halves[1].partitions == whole[2]


@pytest.mark.parametrize("more", [{}, {"tags": {"SS": ["a"]}}], ids=["as a page", "item by item"])
@pytest.mark.parametrize(
    "at", [*({"N": text} for text in ("-1", "1.5", "01", "9999999999999999")), {"S": "1"}, {"M": {}}]
)
def test_a_time_of_acceptance_that_no_event_has_is_refused(at: Any, more: dict[str, Any]) -> None:
    items = regular(2)
    for beside in ([], items[:1], [{**items[0], "at": {"N": "1"}}]):
        page = [*beside, {**items[1], "at": at, **more}]
        with pytest.raises(ArchiveFailed, match="at is not a time"):
            Parquet().writer(BY_TIME, {}).add(json.dumps(page).encode())
