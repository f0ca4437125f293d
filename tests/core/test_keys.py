"""Keys: the event determines its key, and the item determines its event."""

import json
from base64 import urlsafe_b64encode
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.items import read_event
from tidetable.errors import InvalidRef
from tidetable.events import Event
from tidetable.layout import (
    MAX_NAME_BYTES,
    Index,
    Key,
    Layout,
    Ref,
    compute_suffix,
    encode_refs,
    escape,
    is_plain,
    unescape,
)
from tidetable.periods import Kind, find_containing

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.sampled_from(
    ["#", "%23", "a#b%"]
)
instants = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
events = st.builds(Event, series=names, time=instants, id=names, data=st.just({"x": 1}))
layouts = st.builds(
    Layout, st.just("time"), st.integers(1, 256), st.sampled_from(["id", "series"]), st.just(900)
) | st.builds(Layout, st.just("series"), st.integers(1, 256), st.just("id"))


@given(names)
def test_escaping_is_undone_and_leaves_no_separator(name: str) -> None:
    assert unescape(escape(name)) == name
    assert "#" not in escape(name)


@given(events, layouts)
def test_an_event_comes_back_from_its_item(event: Event, layout: Layout) -> None:
    assert read_event(layout, layout.make_item(event)) == event


@given(events, events, layouts)
def test_sort_keys_order_by_time_first(one: Event, other: Event, layout: Layout) -> None:
    if one.time < other.time:
        assert layout.make_key(one).sk < layout.make_key(other).sk


@given(events, st.sampled_from([60, 900, 3600, 21_600, 86_400]))
def test_a_bucket_holds_its_event_and_lies_within_its_period(event: Event, bucket: int) -> None:
    start = Layout("time", 1, "id", bucket).find_bucket(event.time)
    assert start <= event.time < start + timedelta(seconds=bucket)
    assert find_containing(start, Kind.DAY) == find_containing(event.time, Kind.DAY)


def test_the_longest_names_fit_into_dynamodbs_keys() -> None:
    event = Event("#" * (MAX_NAME_BYTES // 3), datetime(2026, 1, 1, tzinfo=UTC), "é" * (MAX_NAME_BYTES // 2), {})
    for layout in (Layout("time", 256, "id", 900), Layout("series", 256, "id")):
        key = layout.make_key(event)
        assert len(key.sk.encode()) <= 1024
        assert len(key.pk.encode()) <= 2048


# FIPS 180: SHA-256 of "abc" begins with ba7816bf, of "" with e3b0c442, of the 448-bit example with 248d6a61.
VECTORS = [
    ("abc", 0xBA7816BF),
    ("", 0xE3B0C442),
    ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 0x248D6A61),
]


@pytest.mark.parametrize(("text", "first"), VECTORS)
def test_the_suffix_is_the_first_four_bytes_of_sha_256_as_a_big_endian_number(text: str, first: int) -> None:
    for shards in (1, 2, 3, 10, 16, 256):
        assert compute_suffix(text, shards) == first % shards
    assert (compute_suffix("abc", 256), compute_suffix("", 256), compute_suffix("abc", 10)) == (191, 66, 9)


@pytest.mark.parametrize(("length", "indexed"), [(2_000, True), (2_001, False)])
def test_a_value_too_long_for_a_partition_key_is_not_put_into_an_index(length: int, indexed: bool) -> None:
    """AWS: a partition key has 2,048 bytes at the most, also an index's; the suffix takes some of them. A longer key
    makes DynamoDB refuse the item.
    """
    layout = Layout("series", 2, "id", 0, (Index("by_kind", "kind", 256),))
    event = Event("a", datetime(2026, 1, 1, tzinfo=UTC), "1", {"kind": "x" * length})
    item = layout.make_item(event)
    assert ("pk_by_kind" in item, "sk_by_kind" in item) == (indexed, indexed)
    assert item["data"] == event.data
    if indexed:
        assert len(item["pk_by_kind"].encode()) <= 2_048


def test_patterned_ids_spread_evenly_over_the_suffixes() -> None:
    for pattern in ("device-{}", "{}", "{:08d}00", "x{:b}"):
        counts = Counter(compute_suffix(pattern.format(number), 16) for number in range(16_000))
        assert len(counts) == 16
        assert max(counts.values()) < 1200


@given(events, layouts)
def test_a_ref_says_where_its_event_is(event: Event, layout: Layout) -> None:
    ref = Ref("s", find_containing(event.time, Kind.DAY), layout.make_key(event))
    assert Ref.decode(ref.encode()) == ref
    assert ref.encode().replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        *[("", True), ("a~ #%", True), ("é", True), ('a"', False), ("a\\", False), ("a\n", False), ("\x7f", False)],
        *[('é"', False), ("é\\", False), ("é\x00", False)],
    ],
)
def test_what_stands_in_json_as_it_is_has_no_quote_backslash_or_control_character(text: str, plain: bool) -> None:
    assert is_plain(text) is plain


def test_refs_that_are_encoded_together_are_each_events_own() -> None:
    pks, sks = ["p#0"] * 3, ["t#a#1", "t#a#22", "t#a#333"]
    head = "WzEsInMiLCIyMDI2LTAxLTAxIiwicCMwIiwg"
    assert encode_refs("s", "2026-01-01", pks, sks) == [
        f"{head}InQjYSMxIl0g",
        f"{head}InQjYSMyMiJd",
        f"{head}InQjYSMzMzMiXSAg",
    ]
    assert encode_refs("s", "2026-01-01", [], []) == []


@given(st.lists(st.tuples(events, layouts), max_size=5))
def test_a_ref_does_not_depend_on_the_refs_beside_it(placed: list[tuple[Event, Layout]]) -> None:
    day = find_containing(datetime(2026, 1, 1, tzinfo=UTC), Kind.DAY)
    refs = [Ref("s", day, layout.make_key(event)) for event, layout in placed]
    texts = encode_refs("s", day.label, [ref.key.pk for ref in refs], [ref.key.sk for ref in refs])
    assert [Ref.decode(text) for text in texts] == refs
    assert texts == [ref.encode() for ref in refs]


@pytest.mark.parametrize(
    "text", ["", "a", "abc", "é", "WzEsMiwzXQ", "W10", "A" * 5000, "WzIsInMiLCIyMDI2IiwiYSIsImIiXQ"]
)
def test_what_is_no_ref_is_refused(text: str) -> None:
    with pytest.raises(InvalidRef):
        Ref.decode(text)


def make_ref(version: int, pk: str, sk: str) -> str:
    """A ref as docs/inside/suffix.md writes it, by hand."""
    return urlsafe_b64encode(json.dumps([version, "s", "2026-01-30", pk, sk]).encode()).decode().rstrip("=")


def test_a_ref_of_another_version_or_of_a_key_that_no_item_has_is_refused() -> None:
    """AWS: 2,048 bytes of partition key, 1,024 of sort key, and neither is empty."""
    assert Ref.decode(make_ref(1, "a#0", "x")).key == Key("a#0", "x")
    assert Ref.decode(make_ref(1, "p" * 2048, "s" * 1024)).key == Key("p" * 2048, "s" * 1024)
    for other in (
        make_ref(2, "a#0", "x"),
        make_ref(0, "a#0", "x"),
        make_ref(1, "a#0", "s" * 1025),
        make_ref(1, "p" * 2049, "x"),
        make_ref(1, "a#0", "é" * 513),
        make_ref(1, "", "x"),
        make_ref(1, "a#0", ""),
    ):
        with pytest.raises(InvalidRef):
            Ref.decode(other)


EVENT = Event("s", datetime(2026, 3, 5, 12, 0, 1, tzinfo=UTC), "a", {})


@pytest.mark.parametrize("newest", ["v0", "v1", "v12"])
def test_every_versions_sort_key_says_its_events_names(newest: str) -> None:
    for layout, series in (
        (Layout("time", 1, "id", 3600, versioned=True), "#s"),
        (Layout("series", 1, "id", versioned=True), ""),
    ):
        key = Key("s#0", f"{newest}#2026-03-05T12:00:01.000000Z{series}#a")
        assert layout.parse_names(*key) == ("2026-03-05T12:00:01.000000Z", "s", "a")


def test_an_index_sorted_by_a_number_has_no_truth_values() -> None:
    """Python takes True for 1; DynamoDB refuses a BOOL where an index's key is a number."""
    index = Index("best", "*", sort_by="mag")
    attributes = [index.make_attributes(replace(EVENT, data={"mag": mag})) for mag in (True, False, 0, 1)]
    assert attributes == [{}, {}, {"pk_best": "*#0", "sk_best": 0}, {"pk_best": "*#0", "sk_best": 1}]


def test_an_index_holds_fields_that_are_empty_zero_or_false_too() -> None:
    data = {"n": 0, "text": "", "ok": False, "none": None, "list": [], "map": {}}
    index = Index("narrow", "*", project=(*data, "missing"))
    assert index.make_attributes(replace(EVENT, data=data))["in_narrow"] == data
