"""Columns of an archive, compared with a dictionary: any data, layout and conditions, pages that end anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aws.archive import column_read
from aws.archive.chosen_rows import OpenPart
from aws.archive.parquet import Parquet
from tests.worlds.codec import to_wire
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.wire import (
    decode_columns,
    decode_whole_request,
    encode_columns,
    encode_whole_request,
)
from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.events import Event
from tidetable.layout import Layout, escape
from tidetable.ports import ArchiveColumns, WholeRange
from tidetable.times import to_text

START = datetime(2026, 3, 1, tzinfo=UTC)
LAYOUTS = {
    "time": Layout("time", 2, "id", 3_600),
    "series": Layout("series", 2, "id"),
    "versioned": Layout("series", 1, "id", versioned=True),
}
COLUMNS = {"n": "integer", "mag": "decimal(9,2)", "kind": "string", "on": "boolean"}
VALUE = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        [Decimal("1.5"), Decimal("0.00000015"), 2**70, "a", "1", 'é"\\\n', "", True, None, [1], {"b": 2}, {"b": "x"}]
    ),
)
EVENT = st.tuples(
    st.sampled_from([0, 0.000001, 1, 60, 3599, 3600, 4000]),
    st.sampled_from(["s", "s!", "t#", 'é%"']),
    st.sampled_from(["a", "a!", "b#", "0123456789abcdef", "fedcba9876543210"]),
    st.dictionaries(st.sampled_from(["n", "mag", "kind", "on", "deep", "x"]), VALUE, max_size=4),
)
NAMES = st.sampled_from(
    [ANY, ANY, NameConditions(series=("s", "t#")), NameConditions(series_prefix="é"), NameConditions(ids=("a",)),
     NameConditions(id_prefix="0")]
)  # fmt: skip
CONDITIONS = st.sampled_from(
    [(), (), (Condition("n", "ge", ("1",)),), (Condition("kind", "ne", ("a",)),), (Condition("deep.b", "eq", ("2", "x")),),
     (Condition("on", "eq", ("true",)), Condition("mag", "lt", ("2",)))]
)  # fmt: skip


def write_parts(layout: Layout, items: Sequence[Any], parts: int) -> dict[str, bytes]:
    """Write every so many-th item into a part of its own."""
    bodies = {}
    for number in range(parts):
        mine = items[number::parts]
        if mine:
            writer = Parquet().writer(layout, COLUMNS)
            writer.add(json.dumps([to_wire(item) for item in mine]).encode())
            bodies[f"part {number}"] = writer.finish()
    return bodies


def make_manifest(layout: Layout, bodies: dict[str, bytes], items: Sequence[Any]) -> Manifest:
    parts = []
    for number, (key, body) in enumerate(bodies.items()):
        sks = sorted(item["sk"] for item in items[number :: len(bodies)])
        parts.append(
            Part(
                key=key, events=len(sks), size=len(body), sha256="", digest="", partitions=1, first=sks[0], last=sks[-1]
            )
        )
    return Manifest(
        stream="s", period="2026-03-01", table="t", layout=layout, events=len(items), size=0, digest="", columns={},
        written_at="", parts=tuple(parts),
    )  # fmt: skip


def read_pages(
    keys: WholeRange, manifest: Manifest, bodies: dict[str, bytes], most_bytes: int = 10**9
) -> Iterator[ArchiveColumns]:
    """Read all pages of a range, each over the wire."""
    for _ in range(300):
        sent = decode_whole_request(json.loads(json.dumps(encode_whole_request(keys))))
        assert sent == keys
        text, events = column_read.read_page(
            keys, manifest, lambda part: OpenPart(pq.ParquetFile(BytesIO(bodies[part.key]))), most_bytes=most_bytes
        )
        page = decode_columns(json.loads(json.dumps(encode_columns(text))))
        assert len(page.times) == events
        yield page
        if page.reached is None:
            return
        assert (page.reached, page.skip) > (keys.start, keys.skip if page.reached == keys.start else -1)
        keys = replace(keys, start=page.reached, skip=page.skip)
    raise AssertionError("the pages have no end")


def find(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return None if isinstance(data, dict | list) else data


def show(time: str, series: str, values: list[Any]) -> str:
    """A text that does not depend on the order of members."""
    return repr(
        (time, series, [sorted(value.items(), key=repr) if isinstance(value, dict) else value for value in values])
    )


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(EVENT, max_size=12),
    st.integers(1, 3),
    st.sampled_from([1, 2, 20_000]),
    st.sampled_from([1, 3, 100_000]),
    st.sampled_from([1, 200, 10**9]),
    st.sampled_from([(0, 5000), (0, 3600), (0.000001, 3599), (60, 60.000001), (9000, 9001)]),
    NAMES,
    CONDITIONS,
    st.sampled_from([(), ("n",), ("mag", "kind", "deep.b"), ("on", "x"), ("",), ("", "n")]),
    st.booleans(),
)
def test_pages_have_each_event_that_is_chosen_once_and_exactly(
    by: str, sent: Any, parts: int, group: int, most: int, most_bytes: int, bounds: tuple[float, float],
    names: NameConditions, conditions: tuple[Condition, ...], fields: tuple[str, ...], ids: bool,
) -> None:  # fmt: skip
    layout = LAYOUTS[by]
    held = {(START + timedelta(seconds=seconds), series, id): data for seconds, series, id, data in sent}
    items = [layout.make_item(Event(series, time, id, data), at=1) for (time, series, id), data in held.items()]
    if layout.versioned:
        items += [item | {"sk": item["sk"].replace("v0#", "v1#"), "data": {"n": 3, "kind": "b"}} for item in items[:4]]
    low, high = (to_text(START + timedelta(seconds=seconds)) for seconds in bounds)
    keys = WholeRange("m", low, high, fields, ids, names, conditions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aws.archive.part_file._GROUP_EVENTS", group)
        patch.setattr(column_read, "_MOST_EVENTS", most)
        bodies = write_parts(layout, items, parts)
        pages = list(read_pages(keys, make_manifest(layout, bodies, items), bodies, most_bytes))
    expected = {
        (to_text(time), series, id): [data if not path else find(data, path) for path in fields]
        for (time, series, id), data in held.items()
        if low <= to_text(time) < high and names.hold(series, id) and all(each.holds(data) for each in conditions)
    }
    found = []
    for page in pages:
        assert list(page.times) == sorted(page.times)
        assert page.reached is None or not page.times or page.times[-1] <= page.reached
        named = page.ids if ids else [""] * len(page.times)
        if ids:
            # The statistics first and last take the ends of a page.
            places = [
                (time, escape(series), escape(id))
                for time, series, id in zip(page.times, page.series, named, strict=True)
            ]
            assert ["#".join(place) for place in places] == sorted(map("#".join, places))
        for number, (time, series, id) in enumerate(zip(page.times, page.series, named, strict=True)):
            found.append((time, series, id, [page.values[path][number] for path in fields]))
    if ids:
        assert len(found) == len(expected)
        assert {tuple(row[:3]): row[3] for row in found} == expected
        assert [type(value) for row in sorted(found, key=lambda row: row[:3]) for value in row[3]] == [
            type(value) if not isinstance(value, int) or isinstance(value, bool) else int
            for _, values in sorted(expected.items()) for value in values
        ]  # fmt: skip
    else:
        assert sorted(show(row[0], row[1], row[3]) for row in found) == sorted(
            show(time, series, values) for (time, series, _), values in expected.items()
        )
    looked = sum(low <= to_text(time) < high for time, *_ in held)
    # Row groups that cannot have an event of the conditions or of the series are not looked at.
    read = sum(page.read for page in pages)
    assert read == looked or ((conditions or names.series or names.series_prefix) and read <= looked)


def test_only_needed_columns_of_row_groups_that_may_match_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, fetched = LAYOUTS["series"], []
    datas = [{"n": n, "mag": Decimal("1.5"), "kind": "a", "x": [n]} for n in range(6)]
    items = [
        layout.make_item(Event("s", START + timedelta(seconds=n), f"id{n}", data), at=1) for n, data in enumerate(datas)
    ]
    whole = pq.ParquetFile.read_row_group

    def note(file: Any, group: int, columns: Any = None) -> Any:
        fetched.append((group, columns))
        return whole(file, group, columns=columns)

    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", 2)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", note)
    bodies = write_parts(layout, items, 1)
    keys = WholeRange("m", to_text(START), to_text(START + timedelta(seconds=4)), ("kind",), ids=False)
    (page,) = read_pages(keys, make_manifest(layout, bodies, items), bodies)
    assert (list(page.series), page.values["kind"], list(page.ids), page.read) == (["s"] * 4, ["a"] * 4, [], 4)
    assert fetched == [(group, ["time", "series", "kind", "data"]) for group in (0, 1)]


@pytest.mark.parametrize("most", [7, 100_000])
def test_a_page_of_many_events_of_one_time_is_divided(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors that report at the full hour: a page may end among events of one time, and memory is bounded by a page."""
    monkeypatch.setattr(column_read, "_MOST_EVENTS", most)
    layout = LAYOUTS["time"]
    items = [layout.make_item(Event(f"s{n % 5}", START, f"{n}", {"n": n}), at=1) for n in range(50)]
    bodies = write_parts(layout, items, 3)
    keys = WholeRange("m", to_text(START), to_text(START + timedelta(hours=1)), ("n",), ids=True)
    pages = list(read_pages(keys, make_manifest(layout, bodies, items), bodies))
    assert sorted(n for page in pages for n in page.values["n"]) == list(range(50))
    assert max(len(page.times) for page in pages) == min(most, 50)


def test_of_large_events_no_more_are_read_than_a_page_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, read = LAYOUTS["time"], []
    items = [
        layout.make_item(Event("s", START + timedelta(seconds=n), f"{n}", {"text": f"{n:04d}" * 1_000}), at=1)
        for n in range(100)
    ]
    bodies = write_parts(layout, items, 2)
    render = column_read._write_json

    def note(facts: Any, keys: WholeRange, table: Any = None) -> str:
        read.append(len(table))
        return render(facts, keys, table)

    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", 10)
    monkeypatch.setattr(column_read, "_write_json", note)
    sizes: list[int] = []
    read_group = column_read._read_group

    def note_size(*of: Any) -> Any:
        found = read_group(*of)
        sizes.append(len(found[0]))
        return found

    monkeypatch.setattr(column_read, "_read_group", note_size)
    keys = WholeRange("m", to_text(START), to_text(START + timedelta(hours=1)), ("",), ids=True)
    pages = list(read_pages(keys, make_manifest(layout, bodies, items), bodies, 40_000))
    assert [id for page in pages for id in page.ids] == [f"{n}" for n in range(100)]
    assert max(read) <= 10, "an event has 4,000 bytes"
    assert sum(sizes) < 300, "few events are read twice"


@pytest.mark.parametrize("by", ["time", "series"])
def test_events_of_one_time_come_in_the_order_of_all_events(by: str) -> None:
    """The statistics first and last take the ends of a page.

    ``!`` sorts before the separator of names, and a separator inside of a name after it.
    """
    layout = LAYOUTS[by]
    names = [("t", "a"), ("s", "b"), ("s!", "c"), ("s", "a!"), ("s", "a"), ("%", "x"), ("s#", "d")]
    items = [layout.make_item(Event(series, START, id, {"n": 1}), at=1) for series, id in names]
    bodies = write_parts(layout, items, 3)
    keys = WholeRange("m", to_text(START), to_text(START + timedelta(seconds=1)), ("n",), ids=True)
    (page,) = read_pages(keys, make_manifest(layout, bodies, items), bodies)
    assert list(zip(page.series, page.ids, strict=True)) == [
        ("%", "x"),
        ("s!", "c"),
        ("s", "a"),
        ("s", "a!"),
        ("s", "b"),
        ("s#", "d"),
        ("t", "a"),
    ]
