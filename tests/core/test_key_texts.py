"""Keys and their texts at their edges, written out."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any

import pytest

from tidetable.errors import InvalidRef
from tidetable.events import Event
from tidetable.layout import Index, Key, Layout, Packing, Ref, encode_ref_tails, encode_refs
from tidetable.layout.hierarchy import make_level, make_text_level
from tidetable.layout.pack import (
    PackName,
    find_key_range,
    is_address,
    make_address,
    parse_address,
    parse_sort_key,
    shift_time,
)
from tidetable.periods import parse_label

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
PACKING = Packing(60, 65_536)


def test_a_series_has_one_suffix_only_where_suffixes_follow_from_the_series() -> None:
    """device-0 has suffix 2 of 16: the first four bytes of its SHA-256, modulo 16."""
    assert list(Layout("time", 16, "series", 3600).list_suffixes(["device-0"], ["a"])) == [2]
    assert list(Layout("time", 16, "series", 3600).list_suffixes()) == list(range(16))
    assert list(Layout("time", 16, "id", 3600).list_suffixes(["device-0"])) == list(range(16))
    assert list(Layout("time", 16, "id", 3600).list_suffixes(["a"], ["device-0", "device-0"])) == [2]
    # The suffix of a pack follows from its series, or from the content of the whole pack.
    by_series, by_content = (
        Layout("time", 16, "series", 3600, pack=PACKING),
        Layout("time", 16, "id", 3600, pack=PACKING),
    )
    assert list(by_series.list_suffixes(["device-0", "abc", "device-0"], ["a"])) == [2, 15]
    assert list(by_series.list_suffixes((), ["a"])) == list(range(16))
    assert list(by_content.list_suffixes(["device-0"], ["device-0"])) == list(range(16))


def test_a_suffix_follows_from_the_series_or_the_id() -> None:
    assert Layout("time", 16, "id", 3600).compute_suffix("a", "device-0") == 2
    assert Layout("time", 16, "series", 3600).compute_suffix("device-0", "a") == 2
    assert Layout("time", 1, "id", 3600).compute_suffix("a", "device-0") == 0


def test_an_index_without_a_projection_holds_every_field() -> None:
    assert Index("all", "*").holds(["mag", "place"])
    named = Index("by_status", "status", project=("status", "mag"))
    assert named.holds(["mag"])
    assert named.holds([])
    assert not named.holds(["mag", "place"])


def test_the_partition_of_an_index_of_kinds_begins_with_the_kind() -> None:
    index = Index("by_kind", kind="kind", kinds=(("click", "page"), ("sale", "shop")))
    assert index.make_attributes(Event("a", NOON, "1", {"kind": "click", "page": "ho#me", "shop": "x"})) == {
        "pk_by_kind": "click#ho%23me#0",
        "sk_by_kind": "2026-03-05T12:00:00.000000Z#a#1",
    }
    assert index.make_attributes(Event("a", NOON, "1", {"kind": "view", "page": "home"})) == {}


@pytest.mark.parametrize(
    ("text", "level"),
    [("", "\x02\x02"), ("ab", "ab"), ("a\x00b", "a\x02\x04b"), ("a\x01b", "a\x02\x05b"), ("a\x02b", "a\x02\x06b")],
)
def test_a_level_has_no_text_that_ends_or_marks_a_level(text: str, level: str) -> None:
    """Two different texts would have one level: that of the empty text is a mark twice."""
    assert make_text_level(text) == level


def test_only_the_sort_key_of_a_pack_names_a_pack() -> None:
    assert parse_sort_key("2026-03-05T12:00:00.000000Z#a#1") is None
    found = parse_sort_key("2026-03-05T12:00:00.000000Z##0123456789012345678901")
    assert found is not None
    assert (found.newest, found.hash) == ("2026-03-05T12:00:00.000000Z", "0123456789012345678901")


@pytest.mark.parametrize("number", ["é", "²", "zzzzzzzzzzzzzzzz"])
def test_an_address_whose_time_is_no_time_names_no_pack(number: str) -> None:
    with pytest.raises(InvalidRef, match="does not name a pack"):
        parse_address(f"a#0#{number}#0123456789012345678901")


def test_the_packs_of_a_range_lie_up_to_a_span_behind_it_and_never_before_1970() -> None:
    end = datetime(2026, 3, 5, 13, tzinfo=UTC)
    assert find_key_range(NOON, end, 60) == ("2026-03-05T12:00:00.000000Z", "2026-03-05T13:01:00.000000Z")
    early = datetime(1960, 1, 1, tzinfo=UTC)
    assert find_key_range(early, end, 60)[0] == "1970-01-01T00:00:00.000000Z"
    assert shift_time("1970-01-01T00:00:30.000000Z", -60) == "1970-01-01T00:00:00.000000Z"
    assert shift_time("1970-01-01T00:01:30.000000Z", -60) == "1970-01-01T00:00:30.000000Z"


URL_SAFE = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "sks",
    [
        # Of each length there is another filling; "~" and "?" become the digits that are written otherwise in addresses.
        ["~?~?~?", "~?~?~?~", "~?~?~?~?", " ", "~", "?>~"],
        ['"', "\\", "a\x00b", "\x7f"],
        ["é?", "a", "😀~~"],
        ["x" * 1022, "x" * 1023, "x" * 1024, "y"],
    ],
)
def test_a_ref_is_url_safe_base64_of_json(sks: list[str]) -> None:
    texts = encode_refs("s", "2026-03-05", ["p#0"] * len(sks), sks)
    assert [json.loads(urlsafe_b64decode(text)) for text in texts] == [[1, "s", "2026-03-05", "p#0", sk] for sk in sks]
    assert set("".join(texts)) <= URL_SAFE
    assert [Ref.decode(text).key.sk for text in texts] == sks


@pytest.mark.parametrize("text", ["a#0#1_0#0123456789012345678901", "a#0#10#01234567890123456789012"])
def test_an_address_has_a_plain_number_and_a_hash_of_22_characters(text: str) -> None:
    with pytest.raises(InvalidRef, match="does not name a pack"):
        parse_address(text)


@pytest.mark.parametrize("label", ["", "x", "2026-13-45", "2026-03-05#"])
def test_a_ref_of_no_period_is_refused(label: str) -> None:
    with pytest.raises(InvalidRef, match="this is not a ref"):
        Ref.decode(urlsafe_b64encode(json.dumps([1, "s", label, "a#0", "x"]).encode()).decode().rstrip("="))


def test_no_keys_have_no_refs() -> None:
    for plain in (True, False):
        assert encode_ref_tails([], plain=plain) == []


def test_a_boolean_is_a_level_of_its_own() -> None:
    assert [make_level(True), make_level(False)] == ["\x02\x03true", "\x02\x03false"]


def test_a_kind_begins_the_partition_of_its_index() -> None:
    index = Index("by_kind", shards=4, kind="type", kinds=(("a#b", "order"),))
    assert index.make_partition_key("7#1", 3, "a#b") == "a%23b#7%231#3"
    assert Index("all", "*", shards=4).make_partition_key("", 3) == "*#3"


def test_the_ref_of_an_event_in_a_pack_names_its_series() -> None:
    layout = Layout("series", 4, "id", pack=Packing(60, 65_536))
    names = layout.parse_names("a%23b#3#hgdgnfbsxs#mJqdp3QXtYHhRcVcTbjB8g", "2026-03-05T12:00:00.000000Z#x%25")
    assert names == ("2026-03-05T12:00:00.000000Z", "a#b", "x%")


@pytest.mark.parametrize(
    "parts",
    [
        [1, "s", "2026-03-05", "p", 5],
        [1, "s", "2026-03-05", None, "k"],
        [1, 7, "2026-03-05", "p", "k"],
        [1, "s", "2026-03-05", "p"],
        [1, "s", "2026-03-05", "p", "k", "more"],
        [1, "s", "soon", "p", "k"],
        [2, "s", "2026-03-05", "p", "k"],
        ["1", "s", "2026-03-05", "p", "k"],
        [1, "s", "2026-03-05", "", "k"],
        [1, "s", "2026-03-05", "p", ""],
        [1, "s", "2026-03-05", "p" * 2049, "k"],
        [1, "s", "2026-03-05", "p", "é" * 513],
        {"stream": "s"},
    ],
)
def test_what_looks_like_a_ref_and_is_none_is_refused(parts: Any) -> None:
    text = urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")
    with pytest.raises(InvalidRef, match="this is not a ref"):
        Ref.decode(text)


def test_the_longest_keys_that_dynamodb_takes_are_in_a_ref() -> None:
    ref = Ref("s", parse_label("2026-03-05"), Key("p" * 2048, "é" * 512))
    assert Ref.decode(ref.encode()) == ref


def test_series_with_one_head_have_one_suffix_and_a_prefix_that_holds_the_head_has_it_too() -> None:
    """device-0 has suffix 2 of 16, "abc" has 15: the first four bytes of SHA-256, modulo 16."""
    for pack in (None, PACKING):
        layout = Layout("time", 16, "series", 3600, pack=pack, shard_until="/")
        assert [layout.compute_suffix(series, "a") for series in ("abc", "abc/1", "abc/2/3", "device-0/1")] == [
            15,
            15,
            15,
            2,
        ]
        assert layout.make_key(Event("abc/1", NOON, "x", {})).pk == "2026-03-05T12:00:00.000000Z#15"
        assert list(layout.list_suffixes(["abc/1", "device-0", "abc/2"])) == [2, 15]
        assert list(layout.list_suffixes((), (), "abc/")) == [15]
        assert list(layout.list_suffixes((), ["x"], "abc/1/2")) == [15]
        # Other heads begin with these letters, too.
        assert list(layout.list_suffixes((), (), "abc")) == list(range(16))
        assert list(layout.list_suffixes(["device-0/1"], (), "abc/")) == [2]
        whole = Layout("time", 16, "series", 3600, pack=pack)
        assert list(whole.list_suffixes((), (), "abc/")) == list(range(16))
    by_id = Layout("time", 16, "id", 3600)
    assert list(by_id.list_suffixes((), ["device-0"], "abc/")) == [2]


PACK = "2026-03-05T12:00:00.000000Z#0"
HASH = "mJqdp3QXtYHhRcVcTbjB8g"


def test_an_address_names_a_pack_by_its_newest_time_and_its_hash() -> None:
    """The time is a number of base 36: the microseconds since 1970."""
    name = PackName("2026-03-05T12:00:01.000000Z", HASH)
    assert make_address(PACK, name) == f"{PACK}#hgdgnfbsxs#{HASH}"
    assert parse_address(f"{PACK}#hgdgnfbsxs#{HASH}") == Key(PACK, f"2026-03-05T12:00:01.000000Z##{HASH}")
    assert make_address("s#0", PackName("1970-01-01T00:00:00.000000Z", HASH)) == f"s#0#0#{HASH}"
    assert [is_address(text) for text in (f"{PACK}#hgdgnfbsxs#{HASH}", PACK, f"{PACK}#hgdgnfbsxs")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"s#0#0#{HASH}x",
        f"s#0#0#{HASH[1:]}",
        f"s#0##{HASH}",
        f"s#0#-1#{HASH}",
        f"s#0#{'z' * 40}#{HASH}",
        f"s#0#é#{HASH}",
        f"s#0#{HASH}",
        f"s#0#0#0#{HASH}",
    ],
)
def test_another_text_is_no_address(text: str) -> None:
    with pytest.raises(InvalidRef, match="this ref does not name a pack"):
        parse_address(text)


def test_no_time_is_moved_out_of_the_calendar() -> None:
    assert shift_time("1970-01-01T00:00:05.000000Z", -10) == "1970-01-01T00:00:00.000000Z"
    assert shift_time("9998-12-30T23:59:59.000000Z", 86_400) == "9998-12-31T00:00:00.000000Z"
