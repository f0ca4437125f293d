"""The keys of each layout and what they say, written out."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from tidetable.events import Event
from tidetable.layout import Index, Layout, render_number
from tidetable.layout.hierarchy import join_levels, skip_levels

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
# FIPS 180: SHA-256 of "abc" begins with ba7816bf, of this series with 248d6a61.
SERIES = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
TIME = datetime(2026, 3, 5, 13, 47, 31, 250_000, UTC)
STAMP = "2026-03-05T13:47:31.250000Z"
EVENT = Event(SERIES, TIME, "abc", {"n": 1})


@pytest.mark.parametrize(
    ("layout", "pk", "sk"),
    [
        (Layout("series", 1, "id"), f"{SERIES}#0", f"{STAMP}#abc"),
        (Layout("series", 2, "id"), f"{SERIES}#1", f"{STAMP}#abc"),
        (Layout("series", 4, "id"), f"{SERIES}#3", f"{STAMP}#abc"),
        (Layout("series", 4, "series"), f"{SERIES}#1", f"{STAMP}#abc"),
        (Layout("time", 4, "id", 900), "2026-03-05T13:45:00.000000Z#3", f"{STAMP}#{SERIES}#abc"),
        (Layout("time", 4, "series", 21_600), "2026-03-05T12:00:00.000000Z#1", f"{STAMP}#{SERIES}#abc"),
        (Layout("time", 1, "id", 86_400), "2026-03-05T00:00:00.000000Z#0", f"{STAMP}#{SERIES}#abc"),
        # 49,651 seconds after midnight are in the 552nd slice of 90 seconds, and in the 1,656th of 30.
        (Layout("time", 1, "id", 90), "2026-03-05T13:46:30.000000Z#0", f"{STAMP}#{SERIES}#abc"),
        (Layout("time", 1, "id", 30), "2026-03-05T13:47:30.000000Z#0", f"{STAMP}#{SERIES}#abc"),
        (Layout("series", 4, "id", versioned=True), f"{SERIES}#3", f"v0#{STAMP}#abc"),
        (Layout("time", 4, "id", 900, versioned=True), "2026-03-05T13:45:00.000000Z#3", f"v0#{STAMP}#{SERIES}#abc"),
    ],
)
def test_the_key_of_an_event_is_that_of_its_layout(layout: Layout, pk: str, sk: str) -> None:
    assert layout.make_key(EVENT) == (pk, sk)
    assert layout.make_item(EVENT, at=7) == {"pk": pk, "sk": sk, "at": 7, "data": {"n": 1}}
    assert layout.make_partition_key(TIME, SERIES, int(pk[-1])) == pk
    assert layout.make_sort_key(TIME, SERIES, "abc") == sk
    assert layout.parse_names(pk, sk) == (STAMP, SERIES, "abc")
    assert layout.make_edge(TIME) == sk.partition(f"#{SERIES}")[0].removesuffix("#abc")


@pytest.mark.parametrize(
    ("series", "id", "in_key"),
    [("a#b", "c", "a%23b#c"), ("a%b", "c", "a%25b#c"), ("a", "b#c", "a#b%23c"), ("a", "b%c", "a#b%25c")],
)
def test_separators_in_names_are_escaped_in_every_key(series: str, id: str, in_key: str) -> None:
    event = Event(series, TIME, id, {"kind": 1})
    by_time, by_series = Layout("time", 1, "id", 3600), Layout("series", 1, "id")
    for layout, pk, sk in (
        (by_time, "2026-03-05T13:00:00.000000Z#0", f"{STAMP}#{in_key}"),
        (by_series, f"{in_key.partition('#')[0]}#0", f"{STAMP}#{in_key.partition('#')[2]}"),
    ):
        assert layout.make_key(event) == (pk, sk)
        assert layout.make_partition_key(TIME, series, 0) == pk
        assert layout.make_sort_key(TIME, series, id) == sk
        assert layout.parse_names(pk, sk) == (STAMP, series, id)
    found = Index("by_kind", "kind").make_attributes(event)
    assert found == {"pk_by_kind": "1#0", "sk_by_kind": f"{STAMP}#{in_key}"}


def test_the_keys_across_all_series_name_them() -> None:
    by_series = Layout("series", 4, "id")
    assert by_series.find_ordering_layout("a") is by_series
    assert by_series.find_ordering_layout(None).make_sort_key(TIME, "a", "1") == f"{STAMP}#a#1"
    for by_time in (Layout("time", 4, "id", 900), Layout("time", 4, "id", 900, versioned=True)):
        assert by_time.find_ordering_layout(None) is by_time
        assert by_time.find_ordering_layout("a") is by_time


@pytest.mark.parametrize(
    ("start", "end", "minutes"),
    [
        ("13:47:31", "14:00:00", ["13:45"]),
        ("13:45:00", "14:00:00", ["13:45"]),
        ("13:45:00", "14:00:00.000001", ["13:45", "14:00"]),
        ("13:59:59.999999", "14:00:00.000001", ["13:45", "14:00"]),
        ("13:47:31", "14:16:00", ["13:45", "14:00", "14:15"]),
    ],
)
def test_a_range_meets_the_buckets_that_hold_its_times(start: str, end: str, minutes: list[str]) -> None:
    first, last = (datetime.fromisoformat(f"2026-03-05T{time}+00:00") for time in (start, end))
    found = Layout("time", 1, "id", 900).list_buckets(first, last)
    assert found == [f"2026-03-05T{minute}:00.000000Z" for minute in minutes]


def test_indexes_with_the_tables_keys_or_its_partitions_are_told_apart() -> None:
    whole, local, plain = Index("whole", replica=True), Index("near", local=True, sort_by="n"), Index("by_n", "n")
    layout = Layout("series", 1, "id", indexes=(local, plain, whole))
    assert layout.global_indexes == (plain, whole)
    assert layout.replica is whole
    assert replace(layout, indexes=(local, plain)).replica is None
    assert [(index.pk, index.sk) for index in layout.indexes] == [
        ("pk", "sk_near"),
        ("pk_by_n", "sk_by_n"),
        ("pk", "sk"),
    ]
    assert [index.timely for index in layout.indexes] == [False, True, False]
    assert not Index("place", "*", levels=("country",)).timely
    assert whole.make_attributes(EVENT) == {}
    item = layout.make_item(EVENT)
    assert (item["sk_near"], item["pk_by_n"]) == (1, "1#0")
    assert set(item) == {"pk", "sk", "at", "data", "sk_near", "pk_by_n", "sk_by_n"}


def test_a_projection_holds_all_of_its_fields_and_no_other() -> None:
    named = Index("by_status", "status", project=("status", "mag"))
    assert named.holds(["mag", "status"])
    keys = Index("by_status", "status", project=())
    assert keys.holds([])
    assert not keys.holds(["mag"])
    assert "in_by_status" not in keys.make_attributes(Event("a", NOON, "1", {"status": "x", "mag": 1}))


@pytest.mark.parametrize(
    ("value", "partition"),
    [
        ("ok", "ok#3"),
        ("a#b%", "a%23b%25#3"),
        (5, "5#3"),
        (Decimal("1.50"), "1.5#3"),
        (Decimal("1E+3"), "1000#3"),
        (True, "true#3"),
        (False, "false#3"),
        (None, None),
        ([1], None),
        ({"a": 1}, None),
    ],
)
def test_a_plain_value_is_a_partition_of_an_index_and_its_suffix_follows_from_the_id(
    value: Any, partition: str | None
) -> None:
    """ "abc" has the suffix 3 of 4, the series has 1."""
    found = Index("by_state", "place.at.state", 4).make_attributes(
        Event(SERIES, TIME, "abc", {"place": {"at": {"state": value}}})
    )
    assert found.get("pk_by_state") == partition
    assert ("sk_by_state" in found) == (partition is not None)


def test_a_path_that_ends_early_leads_nowhere() -> None:
    index = Index("by_state", "place.state")
    for place in ("state", 5, ["state"], {"other": {"state": 1}}):
        assert index.make_attributes(Event("a", NOON, "1", {"place": place, "state": 1})) == {}


@pytest.mark.parametrize(("size", "problem"), [(2000, False), (2001, True)])
def test_a_value_that_is_too_long_for_an_index_is_named_by_its_field(size: int, problem: bool) -> None:
    """AWS counts bytes: "é" has two."""
    kinds = Index("by_kind", kind="kind", kinds=(("e#", "page"),))
    # The kind with its separator has five bytes: e, %23 and #.
    value = "é" * (size // 2 - 3) + "x" * (size % 2 + 1)
    event = Event("a", NOON, "1", {"kind": "e#", "page": value})
    assert len(f"e%23#{value}".encode()) == size
    wanted = "data.page is indexed, and takes more than 2000 bytes" if problem else None
    assert kinds.find_problem(event) == wanted
    assert ("pk_by_kind" in kinds.make_attributes(event)) is not problem
    assert kinds.find_problem(Event("a", NOON, "1", {"kind": "other", "page": "x" * 3000})) is None


@pytest.mark.parametrize("value", [Decimal("2.5"), 3, -1, 0])
def test_every_number_ranks(value: Any) -> None:
    found = Index("best", "*", sort_by="m.mag").make_attributes(Event("a", NOON, "1", {"m": {"mag": value}}))
    assert found == {"pk_best": "*#0", "sk_best": value}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"), (100, "100"), (-7, "-7"), (Decimal("-0"), "0"), (Decimal("0E+3"), "0"), (Decimal("0.00"), "0"),
        (Decimal("5.0"), "5"), (Decimal("10.50"), "10.5"), (Decimal("1E+3"), "1000"), (Decimal("1E-7"), "0.0000001"),
    ],
)  # fmt: skip
def test_a_number_has_one_text(number: Any, text: str) -> None:
    assert render_number(number) == text


def test_what_follows_the_levels_is_whole_whatever_is_in_it() -> None:
    """A series may have the character that ends a level."""
    order = f"{STAMP}#a\x01b#1"
    assert skip_levels(join_levels(["US", "CA"]) + order, 2) == order
    index = Index("place", "*", levels=("country",))
    found = index.make_attributes(Event("a\x01b", TIME, "1", {"country": "US"}))
    assert found["sk_place"] == f"US\x01{order}"


@pytest.mark.parametrize("index", [Index("again", replica=True), Index("kinds", kind="kind", kinds=(("new", "n"),))])
def test_a_field_whose_name_is_empty_is_no_field_of_an_index_that_names_none(index: Index) -> None:
    assert index.make_attributes(Event("a", NOON, "1", {"kind": "other", "": "x"})) == {}
