"""Definitions and cells: what is written is what is read, and merging cells is adding their events."""

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aws.sketches import DDSketches
from tests.worlds.cells import add_event
from tests.worlds.rolled import EVERYTHING, HOURS, MINUTES, START
from tidetable.events import Event
from tidetable.exact_json import canonical_json, decode_json
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns, name_kind
from tidetable.layout import find_plain
from tidetable.packs.numbers import settle_text
from tidetable.ports import Mark
from tidetable.rollup_model import bounds
from tidetable.rollup_model.cells import (
    Bucket,
    Cell,
    GroupState,
    is_removed,
    make_id,
    make_removed_cell,
    parse_cell,
    parse_names,
)
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.group_values import make_group_value
from tidetable.rollup_model.numbers import Numbers

SKETCHES = DDSketches()


def bucket_of(definition: Definition, *events: tuple[str, str, dict[str, Any]]) -> Bucket:
    bucket = Bucket(definition, SKETCHES)
    for series, place, data in events:
        add_event(bucket, series, place, data)
    return bucket


def test_a_cell_says_what_its_events_say() -> None:
    bucket = bucket_of(
        MINUTES,
        ("a", "2026-03-02T00:00:02.000000Z#a#2", {"kind": "x", "mag": Decimal("0.2")}),
        ("a", "2026-03-02T00:00:01.000000Z#a#1", {"kind": "x", "mag": Decimal("0.1"), "note": None}),
        ("a", "2026-03-02T00:00:03.000000Z#a#3", {"kind": "x", "mag": "none", "tags": [1]}),
    )
    cell, names = bucket.make_events(START)
    assert (cell.series, cell.time, cell.id) == ("a", START, f'{MINUTES.key}["x"]')
    assert cell.data["by"] == {"kind": "x"}
    assert cell.data["count"] == 3
    assert cell.data["first_at"] == "2026-03-02T00:00:01.000000Z"
    assert cell.data["last_at"] == "2026-03-02T00:00:03.000000Z"
    numbers = cell.data["fields"]["mag"]
    assert {name: numbers[name] for name in numbers if name != "sketch"} == {
        "count": 2,
        "sum": "0.3",
        "min": Decimal("0.1"),
        "max": Decimal("0.2"),
        "first": [Decimal("0.1"), "2026-03-02T00:00:01.000000Z#a#1"],
        "last": [Decimal("0.2"), "2026-03-02T00:00:02.000000Z#a#2"],
        "first_at": "2026-03-02T00:00:01.000000Z",
        "last_at": "2026-03-02T00:00:02.000000Z",
    }
    assert (names.series, names.id) == ("*", "fields")
    assert names.data == {
        "names": {"kind": ["string"], "mag": ["number", "string"], "note": ["null"], "tags": ["array"]}
    }


GROUPS = [
    ("text", "x", '["x"]'),
    ("text that looks like a number", "1", '["1"]'),
    ("a number", 1, "[1]"),
    ("the same number in another form", Decimal("1.0"), "[1]"),
    ("a small number", Decimal("1E-7"), "[0.0000001]"),
    ("truth", True, "[true]"),
    ("nothing", None, "[null]"),
]


@pytest.mark.parametrize(("name", "value", "wanted"), GROUPS, ids=[case[0] for case in GROUPS])
def test_the_id_of_a_cell_tells_groups_apart_as_aggregates_do(name: str, value: Any, wanted: str) -> None:
    assert make_id(HOURS, [value]) == HOURS.key + wanted


def test_what_is_no_plain_value_is_grouped_as_nothing() -> None:
    assert [make_group_value(value) for value in ([1], {"a": 1}, None)] == [("nothing", None)] * 3


def test_a_long_id_is_a_hash() -> None:
    long, other = make_id(HOURS, ["x" * 200]), make_id(HOURS, ["x" * 201])
    assert long != other
    assert long[8] == "~"
    assert len(long) == 8 + 1 + 22
    assert make_id(HOURS, ["x" * 197])[8] == "~"
    assert make_id(HOURS, ["x" * 196]) == f'{HOURS.key}["{"x" * 196}"]'
    # A sort key is measured in bytes: 99 times two of them are more than 197.
    assert make_id(HOURS, ["é" * 98]) == f'{HOURS.key}["{"é" * 98}"]'
    assert make_id(HOURS, ["é" * 99])[8] == "~"


def test_cells_of_another_definition_are_none() -> None:
    (cell, _) = bucket_of(HOURS, ("a", "1", {"kind": "x"})).make_events(START)
    assert parse_cell(HOURS, cell, SKETCHES, ()) is not None
    assert parse_cell(replace(HOURS, by=()), cell, SKETCHES, ()) is None


def test_the_data_of_a_cell_has_its_groups_at_their_paths() -> None:
    """A path within a value that is plain is nothing, and hides that value from no condition."""
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"series": "a", "kind": "x"}, {"kind": "x"}),
        ({"place.state": "CA", "place.city": "LA"}, {"place": {"state": "CA", "city": "LA"}}),
        ({"place": "here", "place.state": None}, {"place": "here"}),
        ({"place": None, "place.state": "CA"}, {"place": {"state": "CA"}}),
        ({"count": 0, "kind": False}, {"count": 0, "kind": False}),
    ]
    for by, data in cases:
        assert Cell(START, by, GroupState()).data == data


def test_numbers_keep_their_first_and_last_when_they_are_merged_with_numbers_that_keep_neither() -> None:
    """An earlier definition of the finer rollup kept other statistics."""
    numbers = Numbers(1, Decimal(2), 2, 2, 2, 2, None, "2#a#2", "2#a#2")
    numbers.merge(Numbers(1, Decimal(3)), SKETCHES)
    assert numbers == Numbers(2, Decimal(5), 2, 2, 2, 2, None, "2#a#2", "2#a#2")
    bare = Numbers(1, Decimal(3))
    bare.merge(Numbers(1, Decimal(2), 2, 2, 2, 2, None, "2#a#2", "2#a#2"), SKETCHES)
    assert bare == numbers


def test_a_removed_group_is_no_cell() -> None:
    cell, names = bucket_of(HOURS, ("a", "1", {"kind": "x"})).make_events(START)
    gone = make_removed_cell(cell)
    assert gone.data == {"by": {"kind": "x"}, "count": 0, "fields": {}}
    assert parse_cell(HOURS, gone, SKETCHES, ()) is None
    assert [is_removed(item) for item in (cell, names, gone, make_removed_cell(names))] == [False, False, True, True]
    assert parse_names(HOURS, make_removed_cell(names)) == {}


def test_names_of_shorter_buckets_are_not_those_of_a_longer_one() -> None:
    """A rollup of ten minutes became one of an hour: nobody keeps the names at 00:10 any more."""
    (_, names) = bucket_of(MINUTES, ("a", "1", {"mag": 1})).make_events(START + timedelta(minutes=10))
    assert parse_names(MINUTES, names) == {"mag": ["number"]}
    assert parse_names(HOURS, names) == {}


def test_the_first_thousand_names_are_kept() -> None:
    bucket = bucket_of(HOURS, *[("a", str(n), {f"f{n % 5000:04d}": 1}) for n in range(9_000, 0, -1)])
    names = bucket.make_events(START)[-1].data["names"]
    assert list(names) == [f"f{n:04d}" for n in range(1_000)]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["x", "y", None, True, 1]),
        st.none() | st.decimals(-1000, 1000, places=3) | st.sampled_from([0, Decimal("1E-130"), 10**30]),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.integers(0, 2**32))
def test_merged_cells_are_the_cells_of_all_events(drawn: list[tuple[str, Any, Any]], seed: int) -> None:
    """In any order, whatever finer bucket each event is in, and through the JSON that tables hold."""
    events = [
        (series, f"{n:03d}#{series}#{n}", {"kind": kind, **({} if mag is None else {"mag": mag})})
        for n, (series, kind, mag) in enumerate(drawn)
    ]
    whole = bucket_of(HOURS, *events).make_events(START)
    chance = random.Random(seed)
    chance.shuffle(events)
    finer = [bucket_of(MINUTES, *events[n::3]) for n in range(3)]
    merged = Bucket(HOURS, SKETCHES)
    for bucket in finer:
        for cell in bucket.make_events(START):
            held = Event(cell.series, cell.time, cell.id, decode_json(canonical_json(cell.data)))
            merged.merge_names(parse_names(MINUTES, held))
            read = parse_cell(MINUTES, held, SKETCHES, HOURS.fields)
            if read is not None:
                merged.merge(read)
    # As tables hold them: of 0 and 0.000 either may be the least.
    texts = [sorted((cell.id, settle_text(cell.data)) for cell in some) for some in (whole, merged.make_events(START))]
    assert texts[0] == texts[1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e12, 1e12), max_size=60), st.lists(st.sampled_from([0.0, 1e-9, -5.0, 1e100]), max_size=5))
def test_a_sketch_that_was_dumped_is_the_same_sketch(some: list[float], others: list[float]) -> None:
    whole, left, right = SKETCHES.new(), SKETCHES.new(), SKETCHES.new()
    for number in (*some, *others):
        whole.add(number)
    for number in some:
        left.add(number)
    for number in others:
        right.add(number)
    merged = SKETCHES.new()
    merged.merge(SKETCHES.load(right.dump()))
    merged.merge(SKETCHES.load(left.dump()))
    assert merged.dump() == whole.dump()
    assert [merged.quantile(share) for share in (0.0, 0.1, 0.5, 0.99, 1.0)] == [
        whole.quantile(share) for share in (0.0, 0.1, 0.5, 0.99, 1.0)
    ]


def test_a_sketch_takes_little_room() -> None:
    """RESEARCH measured 169 bytes for 1,000 values in the library's own form, compressed."""
    sketch, chance = SKETCHES.new(), random.Random(1)
    for _ in range(1_000):
        sketch.add(chance.lognormvariate(0, 1))
    assert len(sketch.dump()) < 800


def test_a_sketch_of_another_accuracy_is_refused() -> None:
    with pytest.raises(ValueError, match="relative error"):
        SKETCHES.load(b"\x94\xcb?\x94z\xe1G\xae\x14{\x00\x90\x90")


def test_a_sketch_of_half_a_bin_is_refused() -> None:
    """Of each bin a sketch has the step to its key, and its count."""
    assert SKETCHES.load(b"\x94\xcb?\x84z\xe1G\xae\x14{\x00\x92\x00\x07\x90").quantile(0.5) > 0
    for half in (b"\x91\x00\x90", b"\x90\x91\x00"):
        with pytest.raises(ValueError, match="shorter"):
            SKETCHES.load(b"\x94\xcb?\x84z\xe1G\xae\x14{\x00" + half)


def test_a_definition_is_told_by_what_decides_its_cells() -> None:
    assert replace(HOURS, fields=("a", "b")).key == replace(HOURS, fields=("b", "a"), max_groups=5).key
    different = [replace(HOURS, by=()), replace(HOURS, every=timedelta(hours=2)), replace(HOURS, stats=("count",))]
    assert len({HOURS.key, *(definition.key for definition in different)}) == 4
    assert HOURS.parse_former(replace(HOURS, by=()).text) == replace(HOURS, by=(), stats=tuple(sorted(EVERYTHING)))


FEEDS = [
    ("finer, and of more groups", MINUTES, HOURS, True),
    ("as fine", HOURS, HOURS, False),
    ("coarser", HOURS, MINUTES, False),
    ("no divisor", replace(MINUTES, every=timedelta(minutes=25)), HOURS, False),
    ("without a group", replace(MINUTES, by=("series",)), HOURS, False),
    ("without a field", replace(MINUTES, fields=()), HOURS, False),
    ("without a statistic", replace(MINUTES, stats=("count", "sum")), HOURS, False),
    ("percentiles keep extremes", replace(MINUTES, stats=("percentiles",)), replace(HOURS, stats=("min", "max")), True),
]


@pytest.mark.parametrize(("name", "finer", "coarser", "wanted"), FEEDS, ids=[case[0] for case in FEEDS])
def test_a_rollup_is_made_of_a_finer_one_that_has_what_it_needs(
    name: str, finer: Definition, coarser: Definition, wanted: bool
) -> None:
    assert finer.can_feed(coarser) is wanted


def test_the_bounds_follow_from_what_writers_may_take() -> None:
    """Against the time-outs of the functions that write, which infra sets."""
    assert timedelta(seconds=90) == bounds.WRITER_LIFE
    assert timedelta(seconds=120) == bounds.MARKED_AFTER
    end = START + timedelta(minutes=10)
    assert not bounds.can_seal(end, end + timedelta(seconds=210))
    assert bounds.can_seal(end, end + timedelta(seconds=210.001))
    assert not bounds.needs_mark(START, START + timedelta(seconds=120))
    assert bounds.needs_mark(START, START + timedelta(seconds=120.001))
    millis = bounds.to_millis(START)
    mark = Mark(START, millis, timedelta(minutes=1), millis)
    assert not bounds.can_reseal(mark, START + timedelta(seconds=120))
    assert bounds.can_reseal(mark, START + timedelta(seconds=120.001))
    assert bounds.choose_lease_length(timedelta(seconds=300)) == timedelta(seconds=335)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([Decimal("1.50"), Decimal("-0.1"), "x", "1", [1], {"deep": 2}]),
)
DATAS = st.dictionaries(st.sampled_from(["kind", "mag", "place", "note"]), VALUES)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), DATAS), max_size=12),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from(["data", "text", "columns"]),
    st.sampled_from([(), ("series",), ("series", "kind", "place.deep")]),
)
def test_events_that_are_added_together_make_the_cells_of_events_that_are_added_one_by_one(
    drawn: list[tuple[str, Any]], length: int, ends: bool, form: str, by: tuple[str, ...]
) -> None:
    """In columns of any length, of data, its JSON or the needed fields; with and without statistics of the order of time."""
    stats = EVERYTHING if ends else ("sum", "min", "max")
    definition = replace(MINUTES, by=by, fields=("mag", "place.deep"), stats=stats)
    events = [(series, f"2026-03-02T00:00:{n:02}.000000Z", f"{n}", data) for n, (series, data) in enumerate(drawn)]
    single = bucket_of(definition, *((series, f"{time}#{series}#{id}", data) for series, time, id, data in events))
    together = Bucket(definition, SKETCHES)
    for first in range(0, len(events), length):
        names, times, ids, datas = zip(*events[first : first + length], strict=True)
        values: dict[str, list[Any]] = {DATA: list(datas)}
        if form == "text":
            values = {DATA: [canonical_json(data).decode() for data in datas]}
        elif form == "columns":
            kinds = [frozenset((name, name_kind(type(value))) for name, value in data.items()) for data in datas]
            values = {path: [find_plain(data, path) for data in datas] for path in ("kind", "mag", "place.deep")}
            values[KINDS] = kinds
        together.add(FieldColumns(times, names, values, lambda ids=ids: ids))  # type: ignore[misc]
    # A cell's fields have no order.
    added, expected = (
        sorted(canonical_json((each.series, each.id, each.data)) for each in bucket.make_events(START))
        for bucket in (together, single)
    )
    assert added == expected


def test_numbers_do_not_wait_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Decimal takes 104 bytes: they are folded as soon as there are many."""
    monkeypatch.setattr("tidetable.rollup_model.cells._MOST_JOINED", 2)
    monkeypatch.setattr("tidetable.rollup_model.cells._MOST_WAITING", 3)
    bucket = Bucket(replace(MINUTES, by=(), stats=("sum",)), SKETCHES)
    folded = []
    for second in range(6):
        columns = {DATA: [{"mag": second}]}
        bucket.add(FieldColumns([f"2026-03-02T00:00:0{second}.000000Z"], ["a"], columns, lambda: ["i"]))
        folded.append(sum(state.fields["mag"].count for state in bucket.groups.values() if state.fields))
    assert folded == [0, 0, 0, 4, 4, 4]
    assert bucket.make_events(START)[0].data["fields"]["mag"] == {"count": 6, "sum": "15"}
