"""The packed form, compared with a dictionary: random histories, in which copies of events lie in packs of other suffixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.history import EVENT_DATA, REQUEST, SECONDS, SPAN, History, Identity
from tests.packs.table import NOON, ZSTD
from tests.worlds.places import stored_partition, stored_time
from tidetable.conditions import NameConditions
from tidetable.events import Item
from tidetable.forms import pack_unit
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns
from tidetable.forms.pack_unit import PackUnit
from tidetable.forms.packed import open_item
from tidetable.layout import Layout, Packing
from tidetable.packs import decode_body, encode_body
from tidetable.packs.body import DamagedPack
from tidetable.packs.partial import PartialPack


def find_expected(data: Any, path: str) -> Any:
    """The plain value at a path; lists and objects are none."""
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return None if isinstance(data, list | dict) else data


def refuse_damage(item: Item) -> None:
    raise AssertionError(item)


def read_unit(
    unit: PackUnit, items: Sequence[Item], edges: Sequence[str | None], ats: dict[Identity, int] | None = None
) -> Iterator[tuple[Identity, dict[str, Any] | Item]]:
    """Give items to a unit in the order of their keys, some before each edge, and read what it settles.

    ``ats`` gets the times when the events were accepted.
    """
    ordered = sorted(items, key=lambda item: item["sk"])
    given_items = 0
    last = ""
    for edge in edges:
        while given_items < len(ordered) and (edge is None or ordered[given_items]["sk"] < edge):
            unit.hold([ordered[given_items]])
            given_items += 1
        moment = datetime.fromisoformat(edge) - timedelta(seconds=SPAN) if edge is not None else None
        for opened, end in unit.settle_before(None if moment is None else stored_time(moment)):
            assert end >= last
            for each in opened:
                names = zip(each.columns.times, each.columns.series, each.columns.ids, each.list_ats(), strict=True)
                for number, (time, series, id, at) in enumerate(names):
                    assert last <= time < end
                    values = {path: column[number] for path, column in each.columns.values.items()}
                    yield (datetime.fromisoformat(time), series, id), values if each.item is None else each.item
                    if ats is not None:
                        ats[datetime.fromisoformat(time), series, id] = at
            last = end


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([("time", "id"), ("time", "series"), ("series", "id")]),
    st.sampled_from([1, 3]),
    st.sampled_from([65_536, 150]),
    st.lists(REQUEST, max_size=8),
    SECONDS,
    SECONDS,
    st.lists(SECONDS, max_size=3),
    st.sampled_from([1, 4, 200_000]),
    st.booleans(),
)
def test_each_event_comes_once_in_the_copy_that_was_accepted_last(
    by: Any,
    shards: int,
    size: int,
    requests: Any,
    one: float,
    other: float,
    steps: list[float],
    together: int,
    restored: bool,
) -> None:
    """Restored: the table also has packs of the events that count, which were accepted at different times."""
    layout = Layout(by[0], shards, by[1], 3600 if by[0] == "time" else 0, pack=Packing(SPAN, size))
    history = History(layout, requests)
    if restored:
        history.restore()
    start, end = (NOON + timedelta(seconds=seconds) for seconds in (min(one, other), max(one, other)))
    edges = [stored_time(NOON + timedelta(seconds=seconds)) for seconds in sorted(steps)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_unit, "_OPENED_TOGETHER", together)
        for logical in history.table.logicals():
            items = [item for (pk, _), item in history.table.items.items() if pk.rpartition("#")[0] == logical]
            expected = {
                identity: data
                for identity, (_, data) in history.counting.items()
                if stored_partition(by[0], layout.bucket, *identity[:2]) == logical and start <= identity[0] < end
            }
            bounds = stored_time(start), stored_time(end)
            fields = ("a", "a.b", "c")
            unit = PackUnit(layout, SPAN, *bounds, fields, ZSTD, refuse_damage, lambda: None)
            ats: dict[Identity, int] = {}
            found = list(read_unit(unit, items, [*edges, None], ats))
            assert ats == {identity: history.counting[identity][0] for identity in expected}
            assert sorted(identity for identity, _ in found) == sorted(expected)
            for identity, values in found:
                data = values.get("data")
                shown = values if data is None else {path: find_expected(data, path) for path in fields}
                wanted = {path: find_expected(expected[identity], path) for path in fields}
                # 1 and True are equal, and so are the kinds of the values that count.
                assert [(type(value) is bool, value) for value in shown.values()] == [
                    (type(value) is bool, value) for value in wanted.values()
                ]


@settings(deadline=None, max_examples=200)
@given(st.lists(EVENT_DATA, min_size=1, max_size=24), st.sampled_from(["", "short", "f" * 32]))
def test_the_columns_of_a_pack_are_those_of_its_events(datas: list[dict[str, Any]], id: str) -> None:
    times = [stored_time(NOON + timedelta(seconds=number)) for number in range(len(datas))]
    ids = [f"{id[:-2]}{number:02x}" for number in range(len(datas))]
    body = encode_body(times, ["s"] * len(datas), ids, datas)
    pack, whole = PartialPack(body, 1), decode_body(body)
    assert (list(pack.times), list(pack.series), list(pack.ids)) == (times, ["s"] * len(datas), ids)
    assert list(pack.texts) == list(whole.texts)
    for path in ("a", "a.b", "c", "none"):
        assert list(pack.read_field(path)) == [find_expected(data, path) for data in datas]
    assert pack.has_columns is (None not in decode_shapes(body))
    if pack.has_columns:
        assert list(pack.list_kinds()) == [{(name, name_expected(data[name])) for name in data} for data in datas]


def test_a_pack_that_keeps_rows_has_whole_data_instead_of_kinds() -> None:
    """Events that have few names in common are kept as rows."""
    layout = Layout("time", 1, "id", 3600, pack=Packing(SPAN, 65_536))
    for names in ("a", "aabb", "abc"):
        events = [(float(number), "s", f"{number}", {name: number}) for number, name in enumerate(names)]
        (item,) = History(layout, [(events, False, False)]).table.items.values()
        opened = open_item(item, ("a", KINDS), layout, ZSTD)
        assert opened is not None
        values = {path: list(column) for path, column in opened.columns.values.items()}
        if names == "abc":
            assert values == {DATA: [f'{{"{name}":{number}}}' for number, name in enumerate(names)]}
        else:
            kinds = [{(name, "number")} for name in names]
            assert values == {"a": [0, 1, None, None][: len(names)], KINDS: kinds}


def decode_shapes(body: bytes) -> list[Any]:
    shapes: list[Any] = msgspec.msgpack.decode(body)[9]
    return shapes


def name_expected(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    named = {str: "string", dict: "object", list: "array"}
    return next((name for kind, name in named.items() if isinstance(value, kind)), "number")


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=3), st.booleans())
def test_a_damaged_body_is_damaged_whatever_is_needed(at: int, bytes_: bytes, cuts: bool) -> None:
    """If the whole body cannot be decoded, no part of it is read: an answer's gaps do not depend on its fields."""
    datas = [{"a": number, "c": f"v{number}"} for number in range(9)] + [{"b": 1}] * 9
    times = [stored_time(NOON + timedelta(seconds=number)) for number in range(len(datas))]
    body = encode_body(times, ["s", "t"] * 9, [f"{number:032x}" for number in range(18)], datas)
    at %= len(body)
    damaged = body[:at] + bytes_ + (b"" if cuts else body[at + len(bytes_) :])
    try:
        decode_body(damaged)
    except DamagedPack:
        with pytest.raises(DamagedPack):
            PartialPack(damaged, 1)
    else:
        PartialPack(damaged, 1)


def test_a_column_with_another_number_of_values_than_lines_is_damaged() -> None:
    times = [stored_time(NOON), stored_time(NOON + timedelta(seconds=1))]
    parts = msgspec.msgpack.decode(encode_body(times, ["s", "s"], ["a", "b"], [{"a": "x"}, {"a": "y"}]))
    parts[11] = [b'"x"\n"y","z"']
    with pytest.raises(DamagedPack):
        PartialPack(msgspec.msgpack.encode(parts), 2).read_field("a")


def test_a_damaged_pack_is_noted_and_the_others_are_read() -> None:
    history = History(
        Layout("time", 1, "id", 3600, pack=Packing(SPAN, 65_536)),
        [([(1.0, "s", "a", {"a": 1})], False, False), ([(2.0, "s", "b", {"a": 2})], False, False)],
    )
    first, second = sorted(history.table.items.values(), key=lambda item: item["sk"])
    damaged: list[Item] = []
    bounds = stored_time(NOON), stored_time(NOON + timedelta(hours=1))
    unit = PackUnit(history.table.layout, SPAN, *bounds, (DATA,), ZSTD, damaged.append, lambda: None)
    found = list(read_unit(unit, [first | {"pack": b"nothing"}, second], [None]))
    assert [item["sk"] for item in damaged] == [first["sk"]]
    assert [(identity[2], values) for identity, values in found] == [("b", {DATA: '{"a":2}'})]


def test_names_are_held_without_making_ids() -> None:
    body = encode_body([stored_time(NOON)] * 2, ["s", "t"], ["a", "b"], [{"a": 1}, {"a": 2}])
    pack = PartialPack(body, 1)

    def refuse() -> Sequence[str]:
        raise AssertionError("ids cost a hash each")

    columns = FieldColumns(pack.times, pack.series, {"a": pack.read_field("a")}, refuse)
    assert list(columns.select(NameConditions(series_prefix="t")).values["a"]) == [2]


def test_a_pack_whose_newest_event_is_at_the_edge_is_settled_after_it() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(SPAN, 65_536))
    history = History(
        layout, [([(59.0, "s", "a", {"a": 1})], False, False), ([(60.0, "s", "b", {"a": 2})], False, False)]
    )
    bounds = stored_time(NOON), stored_time(NOON + timedelta(hours=1))
    unit = PackUnit(layout, SPAN, *bounds, ("a",), ZSTD, refuse_damage, lambda: None)
    items = list(history.table.items.values())
    # All packs up to two minutes were read, so the events before the first minute are settled.
    found = list(read_unit(unit, items, [stored_time(NOON + timedelta(seconds=120)), None]))
    assert [(identity[2], values) for identity, values in found] == [("a", {"a": 1}), ("b", {"a": 2})]
