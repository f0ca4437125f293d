"""Making packs: their events, their keys, and where they are cut."""

import random
from datetime import timedelta
from hashlib import sha256

import pytest

from aws.codec import to_wire
from strict.units import item_size
from tests.packs.table import NOON, SERIAL, SPREAD, TIMELY, ZSTD, PackTable, event
from tidetable.events import Event
from tidetable.keys import Layout, Packing
from tidetable.keys.pack import parse_address
from tidetable.packs import Made, decode_body, make_packs, open_item


def made(*events: Event, layout: Layout = TIMELY, at: int = 5) -> Made:
    return make_packs([layout.item_of(one, at=at) for one in events], layout, ZSTD)


def counts(found: Made) -> list[int]:
    return [one.item["n"] for one in found.packs]


def test_a_pack_is_an_item_under_its_newest_time_and_its_hash() -> None:
    (one,) = made(event(1, "a", "x", v=1), event(0, "b", "y", v=2)).packs
    item = dict(one.item)
    assert isinstance(item.pop("pack"), bytes)
    assert item == {
        "pk": "2026-03-05T12:00:00.000000Z#0",
        "sk": "2026-03-05T12:00:01.000000Z##mJqdp3QXtYHhRcVcTbjB8g",
        "at": 5,
        "n": 2,
        "oldest": "2026-03-05T12:00:00.000000Z",
        "format": 1,
    }
    assert one.address == "2026-03-05T12:00:00.000000Z#0#hgdgnfbsxs#mJqdp3QXtYHhRcVcTbjB8g"
    assert one.members == [1, 0]
    assert parse_address(one.address) == (item["pk"], item["sk"])


def test_the_same_events_are_the_same_item_whenever_and_in_whichever_order_they_come() -> None:
    events = [event(n % 7, f"s{n % 3}", str(n), v=n) for n in range(40)]
    shuffled = random.Random(1).sample(events, 40)
    first, second = made(*events), made(*shuffled, at=9)
    assert {(one.item["pk"], one.item["sk"], one.item["pack"]) for one in first.packs} == {
        (one.item["pk"], one.item["sk"], one.item["pack"]) for one in second.packs
    }


@pytest.mark.parametrize(("seconds", "expected"), [(59.999999, [2]), (60, [1, 1])])
def test_the_events_of_a_pack_are_less_than_the_span_apart(seconds: float, expected: list[int]) -> None:
    assert counts(made(event(0, id="a"), event(seconds, id="b"))) == expected


def test_an_event_at_exactly_the_span_begins_the_next_pack() -> None:
    found = made(*[event(20 * n, id=str(n)) for n in range(7)])
    assert [one.members for one in found.packs] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_bucket_ends_a_pack() -> None:
    found = made(event(3599, id="a"), event(3601, id="b"))
    assert sorted(one.item["pk"] for one in found.packs) == [
        "2026-03-05T12:00:00.000000Z#0",
        "2026-03-05T13:00:00.000000Z#0",
    ]


def test_by_series_a_pack_holds_one_series() -> None:
    found = made(*[event(n, f"s#{n % 2}", str(n)) for n in range(6)], layout=SERIAL)
    assert sorted(one.item["pk"].rpartition("#")[0] for one in found.packs) == ["s%230", "s%231"]
    assert counts(found) == [3, 3]


def test_packs_spread_over_the_suffixes_by_their_hash() -> None:
    table = PackTable(SPREAD)
    for n in range(60):
        table.send([event(n, id=str(n))], at=n)
    assert {pk.rpartition("#")[2] for pk, _ in table.items} == {"0", "1", "2"}


def test_of_one_event_sent_twice_in_a_request_the_last_counts() -> None:
    found = made(event(0, id="a", v=1), event(0, id="b", v=2), event(0, id="a", v=3))
    (one,) = found.packs
    assert one.members == [2, 1]
    assert list(open_item(one.item, TIMELY, ZSTD).values) == ['{"v":3}', '{"v":2}']


def noise(length: int, seed: int = 0) -> str:
    """Text that does not compress below three quarters of its length."""
    chance = random.Random(seed)
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", k=length))


def test_a_pack_stays_below_its_bytes() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 8_192))
    found = made(*[event(n % 9, id=str(n), v=noise(500, n)) for n in range(100)], layout=layout)
    assert not found.alone
    assert sum(counts(found)) == 100
    assert max(len(one.item["pack"]) for one in found.packs) <= 8_192
    assert len(found.packs) <= 10


def largest(most: int) -> int:
    """The greatest length of a text whose event is still in a pack."""
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, most))
    fits = [n for n in range(most, 2 * most) if not made(event(0, v=noise(n)), layout=layout).alone]
    return max(fits)


def test_an_event_that_is_too_large_for_a_pack_stays_alone() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    edge = largest(4_096)
    found = made(event(0, id="a"), event(1, id="b", v=noise(edge + 1)), event(2, id="c"), layout=layout)
    assert found.alone == [1]
    assert [one.members for one in found.packs] == [[0, 2]]
    found = made(event(0, id="b", v=noise(edge)), layout=layout)
    assert not found.alone
    assert 4_000 < len(found.packs[0].item["pack"]) <= 4_096


def test_a_pack_may_have_exactly_its_bytes() -> None:
    one = event(0, v=noise(2_000))
    size = len(made(one).packs[0].item["pack"])
    fitting, short = (Layout("time", 1, "id", 3600, pack=Packing(60, size - less)) for less in (0, 1))
    assert (counts(made(one, layout=fitting)), made(one, layout=fitting).alone) == ([1], [])
    assert (counts(made(one, layout=short)), made(one, layout=short).alone) == ([], [0])


def test_of_events_that_are_all_too_large_there_is_no_pack() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    found = made(*[event(n, id=str(n), v=noise(9_000, n)) for n in range(3)], layout=layout)
    assert (sorted(found.alone), found.packs) == ([0, 1, 2], [])


def test_the_largest_pack_is_an_item_that_dynamodb_takes() -> None:
    layout = Layout("series", 256, "id", pack=Packing(60, 350_000))
    events = [event(n / 10, "é" * 240, f"{n}" + "x" * 400, v=noise(9_000, n)) for n in range(100)]
    found = made(*events, layout=layout)
    assert sum(counts(found)) == 100
    assert 250_000 < max(item_size(to_wire(one.item)) for one in found.packs) <= 400 * 1024


def test_what_was_accepted_at_different_times_stays_so() -> None:
    """A restore packs such events."""
    plain = [TIMELY.item_of(event(n, id=str(n)), at=100 - n) for n in range(3)]
    (one,) = make_packs(plain, TIMELY, ZSTD).packs
    assert one.item["at"] == 100
    assert open_item(one.item, TIMELY, ZSTD).ats == [100, 99, 98]
    (same,) = make_packs([item | {"at": 100} for item in plain], TIMELY, ZSTD).packs
    assert same.item["sk"] != one.item["sk"]


def test_names_may_hold_every_character() -> None:
    events = [event(0, series, id, v=1) for series in ("a#b", "%23", "é\n") for id in ("#", "x%y", "\u2028")]
    for layout in (TIMELY, SERIAL):
        found = make_packs([layout.item_of(one) for one in events], layout, ZSTD)
        places = [place for one in found.packs for place in open_item(one.item, layout, ZSTD).places]
        assert sorted(places) == sorted(layout.key_of(one).sk for one in events)


def test_the_suffix_of_a_hash_is_the_published_one() -> None:
    """docs/inside/suffix.md: the first four bytes of SHA-256 of the text, modulo the shards."""
    (one,) = made(event(0, v=1), layout=SPREAD).packs
    assert int(sha256(one.item["sk"][29:].encode()).hexdigest()[:8], 16) % 3 == 0
    assert one.item["pk"] == "2026-03-05T12:00:00.000000Z#0"


def test_a_day_of_one_a_second_is_cut_at_every_span() -> None:
    layout = Layout("time", 1, "id", 86_400, pack=Packing(3600, 350_000))
    events = [Event("s", NOON.replace(hour=0) + timedelta(seconds=60 * n), "x", {}) for n in range(1440)]
    assert counts(made(*events, layout=layout)) == [60] * 24


def test_two_events_that_are_too_much_together_are_two_packs() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    found = made(event(0, id="a", v=noise(3_000, 1)), event(1, id="b", v=noise(3_000, 2)), layout=layout)
    assert (counts(found), found.alone) == ([1, 1], [])


@pytest.mark.parametrize(("events", "length", "expected"), [(5, 1_500, [3, 2]), (9, 1_400, [3, 3, 3])])
def test_events_that_are_too_much_for_a_pack_are_as_few_packs_as_their_bytes_need(
    events: int, length: int, expected: list[int]
) -> None:
    """Of 5,600 bytes and 9,500 bytes after compression."""
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    found = made(*[event(n, id=str(n), v=noise(length, n)) for n in range(events)], layout=layout)
    assert counts(found) == expected


def test_the_body_of_a_pack_by_series_has_the_series_as_it_was_sent() -> None:
    (one,) = made(event(0, "a#1%", "x"), event(1, "a#1%", "y"), layout=SERIAL).packs
    assert one.item["pk"].startswith("a%231%25#")
    assert decode_body(ZSTD.expand(one.item["pack"])).series == ["a#1%", "a#1%"]
