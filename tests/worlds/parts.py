"""Items and layouts for the parts of an archive, and a round trip of a part."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
from hypothesis import strategies as st

from aws.archive.chosen_rows import OpenPart
from aws.archive.parquet import Parquet, read_row_groups
from aws.archive.range_read import read_between
from aws.dynamodb.wire import decode_item, encode_items, encode_value, plain
from tests.worlds.places import stored_place
from tidetable.archive.reading import ArchivedEvent, Skipped
from tidetable.events import Event
from tidetable.layout import ATTRIBUTES, Index, Layout
from tidetable.ports import ArchiveRange

START = datetime(2026, 3, 1, tzinfo=UTC)
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
# A layout with hierarchies and with local indexes.
SORTED = Layout(
    "time",
    2,
    "id",
    3600,
    (
        Index("status", "status", 3),
        Index("places", "*", 2, levels=("status", "a.b"), project=("n",)),
        Index("near", local=True, levels=("a", "status")),
        Index("highest", local=True, sort_by="n", project=("status",)),
    ),
)
NUMBERS = ["0", "-1", "3.14", "100", "0.1", "1E+125", "-1E-130", "9007199254740993", "1700000000000000", "2.50"]
TEXTS = ["", "a", 'é#%"\\\n\u2028\x00\x1f\x7f', "😀", "2026-03-01", "2026-03-01T00:00:00Z", '{"S":"x"}', "null", "1"]
text = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(
    st.sampled_from(NUMBERS).map(lambda value: {"N": value}),
    st.integers(-(10**37), 10**37).map(lambda value: {"N": str(value)}),
    st.floats(-1e9, 1e9).map(lambda value: {"N": f"{value:.6f}"}),
    text.map(lambda value: {"S": value}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
    st.sampled_from(["", "AAEC", "/+8="]).map(lambda value: {"B": value}),
)
sets = st.one_of(
    st.sets(st.sampled_from(TEXTS), min_size=1).map(lambda value: {"SS": list(value)}),
    st.sets(st.sampled_from(NUMBERS), min_size=1).map(lambda value: {"NS": list(value)}),
    st.sets(st.sampled_from(["AAEC", "/+8="]), min_size=1).map(lambda value: {"BS": list(value)}),
)
names = st.sampled_from(["a", "b", "status", "time", "Status", "n", "é", "", "a b", 'q"', "pk_x", "data"])


def nested(inner: Any) -> Any:
    return st.lists(inner, max_size=3).map(lambda value: {"L": value}) | st.dictionaries(names, inner, max_size=3).map(
        lambda value: {"M": value}
    )


values = st.recursive(leaves, nested, max_leaves=6)
awkward = st.recursive(leaves | sets, nested, max_leaves=6)


def make_item(
    layout: Layout, series: str, micros: int, id: str, data: dict[str, Any], more: dict[str, Any], version: int = 0
) -> Any:
    """Make an item in DynamoDB JSON: the key of an event, any data, and in ``more`` attributes that no event has."""
    values = {name: plain(value) for name, value in data.items()}
    event = Event(series, START + timedelta(microseconds=micros), id, values)
    keys = {
        name: json.loads(encode_value(value))
        for name, value in layout.make_item(event).items()
        if name in ("pk", "sk") or name.startswith(ATTRIBUTES)
    }
    if layout.versioned and version:
        keys = {
            "pk": keys["pk"],
            "sk": {"S": f"v{version}#{layout.find_place(keys['sk']['S'])}"},
            "version": {"N": str(version)},
        }
    return {**more, **keys, "data": {"M": data}}


def native(item: Any) -> Any:
    """Convert an item to Python values that can be compared: dictionaries and sets are sorted."""
    if isinstance(item, dict):
        return {name: native(item[name]) for name in sorted(item)}
    if isinstance(item, list):
        return [native(value) for value in item]
    return sorted(map(repr, item)) if isinstance(item, set) else item


def list_items(body: bytes, layout: Layout) -> list[Any]:
    """The items of a part."""
    return [decode_item(item) for rows in read_row_groups(body, layout) for item in rows.wire()]


def restored(body: bytes, layout: Layout, start: int) -> list[Any]:
    """The items that a restore writes of the rows from a number on. The keys are those of the rows."""
    found: list[Any] = []
    keys = list_items(body, layout)[start:]
    for batch, odd in Parquet().rows(body, layout, start):
        here = keys[len(found) : len(found) + len(batch.times)]
        items = [
            {"pk": key["pk"], "sk": key["sk"], "at": at, "data": data}
            for key, at, data in zip(here, batch.at, batch.datas, strict=True)  # type: ignore[arg-type]
        ]
        names = [layout.read_names(item) for item in items]
        assert list(zip(batch.times, batch.series, batch.ids, strict=True)) == names
        written = [decode_item(json.loads(text)) for text in encode_items(items)]
        found += [odd.get(number, item) for number, item in enumerate(written)]
    return found


def round_trip(layout: Layout, items: list[Any], columns: dict[str, str], pages: int = 2) -> bytes:
    """Write a part from pages of items, read the part back, and compare everything; return the part."""
    form = Parquet()
    writer = form.writer(layout, columns)
    for start in range(0, len(items), pages):
        writer.add(json.dumps(items[start : start + pages], ensure_ascii=start % 4 == 0).encode())
    body = writer.finish()
    whole = form.page_facts(json.dumps(items).encode())
    assert writer.facts.identity == whole.identity
    assert form.facts(body, layout).identity == whole.identity
    decoded = list_items(body, layout)
    assert sorted(map(native, decoded), key=repr) == sorted(map(native, map(decode_item, items)), key=repr)
    assert list(map(native, restored(body, layout, 0))) == list(map(native, decoded))
    assert list(map(native, restored(body, layout, 1))) == list(map(native, decoded[1:]))
    events = [event for event, _ in read_part(body, ArchiveRange("", "", "~"), layout)]
    places = sorted(layout.find_place(item["sk"]["S"]) for item in items)
    shown = [stored_place(layout.partition_by, event.time, event.series, event.id) for event in events]
    # Events of several series come by time, then by series, also if their table is by series.
    assert shown == places if layout.partition_by == "time" else sorted(shown) == places
    return body


def read_part(body: bytes, keys: ArchiveRange, layout: Layout, *, ascending: bool = True) -> Iterator[ArchivedEvent]:
    """Read the events of a range of a part, without the numbers of skipped rows."""
    rows = read_between(OpenPart(pq.ParquetFile(BytesIO(body))), keys, layout, ascending=ascending)
    return (row for row in rows if not isinstance(row, Skipped))
