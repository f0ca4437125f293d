"""The format of an archive: every item comes back exactly as it was, by whichever way it went."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.between import between
from aws.archive.parquet import Parquet, ParquetWriter
from aws.wire import item_of, plain, value_text
from tidetable.archive import Facts
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.keys import ATTRIBUTES, Index, Layout
from tidetable.large.forms import stem
from tidetable.ports import ArchiveRange

START = datetime(2026, 3, 1, tzinfo=UTC)
BY_TIME = Layout("time", 4, "id", 21_600)
BY_SERIES = Layout("series", 16, "id")
INDEXED = Layout("time", 2, "id", 3600, (Index("status", "status", 3), Index("deep", "a.b")))
RANKED = Layout(
    "series",
    2,
    "id",
    0,
    (
        Index("status", "status", 3, project=("n", "a")),
        Index("ranking", "*", 2, "n"),
        Index("kinds", kind="status", kinds=(("new", "n"), ("x", "a.b")), project=()),
        Index("again", replica=True),
    ),
)
INDEXED_SERIES = Layout("series", 2, "id", 0, (Index("status", "status", 3),))
KEPT = Layout("time", 2, "id", 3600, (Index("status", "status", 3),), versioned=True)
KEPT_SERIES = Layout("series", 2, "id", 0, (Index("status", "status", 3),), versioned=True)
LAYOUTS = [BY_TIME, BY_SERIES, INDEXED, INDEXED_SERIES, RANKED, KEPT, KEPT_SERIES]

NUMBERS = ["0", "-1", "3.14", "100", "0.1", "1E+125", "-1E-130", "9007199254740993", "1700000000000000", "2.50"]
NUMBERS += ["12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"]
TEXTS = ["", "a", 'é#%"\\\n\u2028\x00\x1f\x7f', "😀", "2026-03-01", "2026-03-01T00:00:00Z", '{"S":"x"}', "null", "1"]
text = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(
    st.sampled_from(NUMBERS).map(lambda one: {"N": one}),
    st.integers(-(10**37), 10**37).map(lambda one: {"N": str(one)}),
    st.floats(-1e9, 1e9).map(lambda one: {"N": f"{one:.6f}"}),
    text.map(lambda one: {"S": one}),
    st.booleans().map(lambda one: {"BOOL": one}),
    st.just({"NULL": True}),
    st.sampled_from(["", "AAEC", "/+8="]).map(lambda one: {"B": one}),
)
sets = st.one_of(
    st.sets(st.sampled_from(TEXTS), min_size=1).map(lambda one: {"SS": list(one)}),
    st.sets(st.sampled_from(NUMBERS), min_size=1).map(lambda one: {"NS": list(one)}),
    st.sets(st.sampled_from(["AAEC", "/+8="]), min_size=1).map(lambda one: {"BS": list(one)}),
)
names = st.sampled_from(["a", "b", "status", "time", "Status", "n", "é", "", "a b", 'q"', "pk_x", "data"])


def nested(inner: Any) -> Any:
    return st.lists(inner, max_size=3).map(lambda one: {"L": one}) | st.dictionaries(names, inner, max_size=3).map(
        lambda one: {"M": one}
    )


values = st.recursive(leaves, nested, max_leaves=6)
awkward = st.recursive(leaves | sets, nested, max_leaves=6)
datas = st.dictionaries(names, values, max_size=4) | st.fixed_dictionaries(
    {"n": st.sampled_from(NUMBERS).map(lambda one: {"N": one}), "status": text.map(lambda one: {"S": one})}
)
accepted = st.fixed_dictionaries({}, optional={"at": st.integers(0, 2 * 10**12).map(lambda one: {"N": str(one)})})
extras = st.tuples(st.dictionaries(st.sampled_from(["note", "ttl"]), awkward, max_size=1), accepted).map(
    lambda both: {**both[0], **both[1]}
)
hexes = st.integers(0, 16**32 - 1).map(lambda one: f"{one:032x}")


def made(
    layout: Layout, series: str, micros: int, id: str, data: dict[str, Any], more: dict[str, Any], version: int = 0
) -> Any:
    """An item in DynamoDB JSON: the key of an event, any data, and attributes that no event has."""
    values = {name: plain(value) for name, value in data.items()}
    event = Event(series, START + timedelta(microseconds=micros), id, values)
    keys = {
        name: json.loads(value_text(value))
        for name, value in layout.item_of(event).items()
        if name in ("pk", "sk") or name.startswith(ATTRIBUTES)
    }
    if layout.versioned and version:
        keys = {"pk": keys["pk"], "sk": {"S": f"v{version}#{stem(keys['sk']['S'])}"}, "version": {"N": str(version)}}
    return {**more, **keys, "data": {"M": data}}


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
    return layout, [made(layout, *one) for one in draw(st.lists(row, min_size=1, max_size=12))]


DECLARED = {"n": "decimal(20,4)", "a": "string", "b": "integer"}


def native(item: Any) -> Any:
    """The item in an order of its own, sets too."""
    if isinstance(item, dict):
        return {name: native(item[name]) for name in sorted(item)}
    if isinstance(item, list):
        return [native(one) for one in item]
    return sorted(map(repr, item)) if isinstance(item, set) else item


def round_trip(layout: Layout, items: list[Any], columns: dict[str, str], pages: int = 2) -> bytes:
    """Write the items in pages, and check all that can be checked of the part."""
    form = Parquet()
    writer = form.writer(layout, columns)
    for start in range(0, len(items), pages):
        writer.add(json.dumps(items[start : start + pages], ensure_ascii=start % 4 == 0).encode())
    body = writer.finish()
    whole = form.page_facts(json.dumps(items).encode())
    assert writer.facts.same == whole.same
    assert form.facts(body, layout).same == whole.same
    held = list(form.items(body, layout))
    assert sorted(map(native, held), key=repr) == sorted(map(native, map(item_of, items)), key=repr)
    assert [item["sk"] for item in held] == sorted(item["sk"]["S"] for item in items)
    events = [event for event, _ in between(BytesIO(body), ArchiveRange("", "", "~"), layout)]
    places = [item["sk"] for item in held]
    if layout.versioned:
        places = [f"v0#{stem(place)}" for place in places]
    assert [layout.sort_key(one.time, one.series, one.id) for one in events] == places
    return body


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
        made(
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
    assert Parquet().facts(writer.finish(), BY_TIME).same == writer.facts.same


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
        made(BY_TIME, "s", n, f"i{n}", {"by": {"M": {f"user {n}-{k}": {"N": "1"} for k in range(50)}}}, {})
        for n in range(60)
    ]
    writer = ParquetWriter(BY_TIME, {})
    for item in items:
        writer.add(json.dumps([item]).encode())
    assert len(writer._names) <= 4
    round_trip(BY_TIME, items, {}, pages=7)


def test_only_the_row_groups_of_the_range_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [made(BY_TIME, "s", n * 1_000_000, f"i{n}", {}, {}) for n in range(60_000)]
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
    events = list(between(BytesIO(body), ArchiveRange("", low, high), BY_TIME))
    assert read == [1]
    assert len(events) == 20_000
    later = ArchiveRange("", "2026-03-02T00:00:00.000000Z", "2026-03-03T00:00:00.000000Z")
    assert list(between(BytesIO(body), later, BY_TIME)) == []
    assert read == [1]


@given(st.permutations(regular(8)), st.integers(0, 7))
def test_the_digest_knows_no_order_but_every_item(shuffled: list[Any], index: int) -> None:
    def digest(items: list[Any]) -> tuple[int, int, Any]:
        return Parquet().page_facts(json.dumps(items).encode()).same

    whole = digest(regular(8))
    assert digest(shuffled) == whole
    other = json.loads(json.dumps(shuffled))
    other[index]["data"]["M"]["state"] = {"S": "OK"}
    assert digest(other) != whole
    assert digest(shuffled[:index] + shuffled[index + 1 :]) != whole
    assert digest([*shuffled, shuffled[index]]) != whole
    halves = Facts()
    for half in (shuffled[:index], shuffled[index:]):
        halves.join(Parquet().page_facts(json.dumps(half).encode()))
    assert halves.same == whole


@pytest.mark.parametrize("at", ["-1", "1.5", "01", "9999999999999999"])
def test_a_time_of_acceptance_that_no_event_has_is_refused(at: str) -> None:
    item = {**regular(1)[0], "at": {"N": at}}
    with pytest.raises(ArchiveFailed, match="at is no time"):
        Parquet().writer(BY_TIME, {}).add(json.dumps([item]).encode())
