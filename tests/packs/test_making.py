"""Making packs: their events, their keys, and where they are cut."""

import random
from bisect import bisect_left
from datetime import timedelta
from hashlib import sha256

import pytest

from strict.units import measure_item
from tests.packs.table import NOON, SERIAL, SPREAD, TIMELY, ZSTD, PackTable, event
from tests.worlds.codec import to_wire
from tests.worlds.packing import make_packs
from tidetable.batch import Batch
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout, Packing
from tidetable.layout.pack import parse_address
from tidetable.packs import PackSet, decode_body, open_item
from tidetable.ports import Put


def pack_up(*events: Event, layout: Layout = TIMELY, at: int = 5) -> PackSet:
    return make_packs([layout.make_item(event, at=at) for event in events], layout, ZSTD)


def counts(made_packs: PackSet) -> list[int]:
    return [pack.item["n"] for pack in made_packs.packs]


def test_a_pack_is_an_item_under_its_newest_time_and_its_hash() -> None:
    (pack,) = pack_up(event(1, "a", "x", v=1), event(0, "b", "y", v=2)).packs
    item = dict(pack.item)
    assert isinstance(item.pop("pack"), bytes)
    assert item == {
        "pk": "2026-03-05T12:00:00.000000Z#0",
        "sk": "2026-03-05T12:00:01.000000Z##hkiKZIyTNdNnmQR_83pBrQ",
        "at": 5,
        "n": 2,
        "oldest": "2026-03-05T12:00:00.000000Z",
        "format": 2,
    }
    assert pack.address == "2026-03-05T12:00:00.000000Z#0#hgdgnfbsxs#hkiKZIyTNdNnmQR_83pBrQ"
    assert pack.members == [1, 0]
    assert parse_address(pack.address) == (item["pk"], item["sk"])


def test_the_same_events_are_the_same_item_whenever_and_in_whichever_order_they_come() -> None:
    events = [event(n % 7, f"s{n % 3}", str(n), v=n) for n in range(40)]
    shuffled = random.Random(1).sample(events, 40)
    first, second = pack_up(*events), pack_up(*shuffled, at=9)
    assert {(pack.item["pk"], pack.item["sk"], pack.item["pack"]) for pack in first.packs} == {
        (pack.item["pk"], pack.item["sk"], pack.item["pack"]) for pack in second.packs
    }


@pytest.mark.parametrize(("seconds", "expected"), [(59.999999, [2]), (60, [1, 1])])
def test_the_events_of_a_pack_are_less_than_the_span_apart(seconds: float, expected: list[int]) -> None:
    assert counts(pack_up(event(0, id="a"), event(seconds, id="b"))) == expected


def test_an_event_at_exactly_the_span_begins_the_next_pack() -> None:
    result = pack_up(*[event(20 * n, id=str(n)) for n in range(7)])
    assert [pack.members for pack in result.packs] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_bucket_ends_a_pack() -> None:
    result = pack_up(event(3599, id="a"), event(3601, id="b"))
    assert sorted(pack.item["pk"] for pack in result.packs) == [
        "2026-03-05T12:00:00.000000Z#0",
        "2026-03-05T13:00:00.000000Z#0",
    ]


def test_if_suffixes_follow_from_the_series_a_request_makes_a_pack_per_suffix_and_span() -> None:
    """FIPS 180: SHA-256 of "abc" begins with ba7816bf, of the long series with 248d6a61."""
    long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
    layout = Layout("time", 4, "series", 3600, pack=Packing(60, 65_536))
    events = [event(number, ["abc", long][number % 2], str(number), v=number) for number in range(80)]
    result = pack_up(*events, layout=layout)
    packs = [(pack.item["pk"][-2:], pack.item["oldest"][17:19], pack.item["n"]) for pack in result.packs]
    assert sorted(packs) == [("#1", "01", 10), ("#1", "01", 30), ("#3", "00", 10), ("#3", "00", 30)]
    # A separator in a name is escaped in keys. The suffix is that of the name itself: SHA-256 of "#" begins with 334359b9.
    (pack,) = pack_up(event(0, "#"), layout=layout).packs
    assert pack.item["pk"] == "2026-03-05T12:00:00.000000Z#1"
    assert parse_address(pack.address).pk == pack.item["pk"]


@pytest.mark.parametrize("until", ["", "#"])
def test_all_events_of_a_pack_have_the_suffix_of_their_own_names(until: str) -> None:
    """Keys escape the names; the suffix is that of the name before."""
    layout = Layout("time", 4, "series", 3600, pack=Packing(60, 65_536), shard_until=until)
    series = [f"m{number % 9}#{number}%" for number in range(40)]
    packs = pack_up(*[event(0, name, str(number)) for number, name in enumerate(series)], layout=layout).packs
    found = {name: pack.item["pk"][-1] for pack in packs for name in decode_body(ZSTD.expand(pack.item["pack"])).series}
    heads = {name: name.partition("#")[0] if until else name for name in series}
    assert found == {name: str(int(sha256(heads[name].encode()).hexdigest()[:8], 16) % 4) for name in series}
    # Nine heads are in three of the suffixes.
    assert len(packs) == (3 if until else 4)


def test_a_large_event_is_alone_in_the_suffix_of_its_series() -> None:
    layout = Layout("time", 4, "series", 3600, pack=Packing(60, 65_536))
    large = event(0, "abc", x=random.Random(1).randbytes(90_000).hex())
    batch, form = Batch.of([large], 5), choose_form(layout)
    puts = form.make_puts(batch, [0], "table", ZSTD, lambda item: Put("table", item))
    assert [(put.item["pk"], put.item["at"]) for put in puts.puts] == [("2026-03-05T12:00:00.000000Z#3", 5)]
    assert puts.pks == ["2026-03-05T12:00:00.000000Z#3"]


def test_by_series_a_pack_holds_one_series() -> None:
    result = pack_up(*[event(n, f"s#{n % 2}", str(n)) for n in range(6)], layout=SERIAL)
    assert sorted(pack.item["pk"].rpartition("#")[0] for pack in result.packs) == ["s%230", "s%231"]
    assert counts(result) == [3, 3]


def test_packs_spread_over_the_suffixes_by_their_hash() -> None:
    table = PackTable(SPREAD)
    for n in range(60):
        table.send([event(n, id=str(n))], at=n)
    assert {pk.rpartition("#")[2] for pk, _ in table.items} == {"0", "1", "2"}


def test_of_one_event_sent_twice_in_a_request_the_last_counts() -> None:
    result = pack_up(event(0, id="a", v=1), event(0, id="b", v=2), event(0, id="a", v=3))
    (pack,) = result.packs
    assert pack.members == [2, 1]
    assert list(open_item(pack.item, TIMELY, ZSTD).values) == ['{"v":3}', '{"v":2}']


def noise(length: int, seed: int = 0) -> str:
    """Text that does not compress below three quarters of its length."""
    chance = random.Random(seed)
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", k=length))


def test_a_pack_stays_below_its_bytes() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 8_192))
    result = pack_up(*[event(n % 9, id=str(n), v=noise(500, n)) for n in range(100)], layout=layout)
    assert not result.alone
    assert sum(counts(result)) == 100
    assert max(len(pack.item["pack"]) for pack in result.packs) <= 8_192
    assert len(result.packs) <= 10


def largest(most: int) -> int:
    """The greatest length of a text whose event is still in a pack."""
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, most))

    def is_alone(length: int) -> bool:
        return bool(pack_up(event(0, v=noise(length)), layout=layout).alone)

    # A longer text may compress a little better, so the lengths around the first that is found are looked at one by one.
    near = bisect_left(range(2 * most), True, lo=most, key=is_alone)
    return max(length for length in range(near - 40, near + 40) if not is_alone(length))


def test_an_event_that_is_too_large_for_a_pack_stays_alone() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    edge = largest(4_096)
    result = pack_up(event(0, id="a"), event(1, id="b", v=noise(edge + 1)), event(2, id="c"), layout=layout)
    assert result.alone == [1]
    assert [pack.members for pack in result.packs] == [[0, 2]]
    result = pack_up(event(0, id="b", v=noise(edge)), layout=layout)
    assert not result.alone
    assert 4_000 < len(result.packs[0].item["pack"]) <= 4_096


def test_a_pack_may_have_exactly_its_bytes() -> None:
    sample = event(0, v=noise(2_000))
    size = len(pack_up(sample).packs[0].item["pack"])
    fitting, short = (Layout("time", 1, "id", 3600, pack=Packing(60, size - less)) for less in (0, 1))
    assert (counts(pack_up(sample, layout=fitting)), pack_up(sample, layout=fitting).alone) == ([1], [])
    assert (counts(pack_up(sample, layout=short)), pack_up(sample, layout=short).alone) == ([], [0])


def test_of_events_that_are_all_too_large_there_is_no_pack() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    result = pack_up(*[event(n, id=str(n), v=noise(9_000, n)) for n in range(3)], layout=layout)
    assert (sorted(result.alone), result.packs) == ([0, 1, 2], [])


def test_the_largest_pack_is_an_item_that_dynamodb_takes() -> None:
    layout = Layout("series", 256, "id", pack=Packing(60, 350_000))
    events = [event(n / 10, "é" * 240, f"{n}" + "x" * 400, v=noise(9_000, n)) for n in range(100)]
    result = pack_up(*events, layout=layout)
    assert sum(counts(result)) == 100
    assert 250_000 < max(measure_item(to_wire(pack.item)) for pack in result.packs) <= 400 * 1024


def test_what_was_accepted_at_different_times_stays_so() -> None:
    """A restore packs such events."""
    plain = [TIMELY.make_item(event(n, id=str(n)), at=100 - n) for n in range(3)]
    (pack,) = make_packs(plain, TIMELY, ZSTD).packs
    assert pack.item["at"] == 100
    assert open_item(pack.item, TIMELY, ZSTD).ats == [100, 99, 98]
    (same,) = make_packs([item | {"at": 100} for item in plain], TIMELY, ZSTD).packs
    assert same.item["sk"] != pack.item["sk"]


def test_names_may_hold_every_character() -> None:
    events = [event(0, series, id, v=1) for series in ("a#b", "%23", "é\n") for id in ("#", "x%y", "\u2028")]
    for layout in (TIMELY, SERIAL):
        result = make_packs([layout.make_item(event) for event in events], layout, ZSTD)
        places = [place for pack in result.packs for place in open_item(pack.item, layout, ZSTD).places]
        assert sorted(places) == sorted(layout.make_key(event).sk for event in events)


def test_the_suffix_of_a_hash_is_the_published_one() -> None:
    """docs/inside/suffix.md: the first four bytes of SHA-256 of the text, modulo the shards."""
    (pack,) = pack_up(event(0, v=1), layout=SPREAD).packs
    assert int(sha256(pack.item["sk"][29:].encode()).hexdigest()[:8], 16) % 3 == 1
    assert pack.item["pk"] == "2026-03-05T12:00:00.000000Z#1"


def test_a_day_of_one_a_second_is_cut_at_every_span() -> None:
    layout = Layout("time", 1, "id", 86_400, pack=Packing(3600, 350_000))
    events = [Event("s", NOON.replace(hour=0) + timedelta(seconds=60 * n), "x", {}) for n in range(1440)]
    assert counts(pack_up(*events, layout=layout)) == [60] * 24


def test_two_events_that_are_too_much_together_are_two_packs() -> None:
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    result = pack_up(event(0, id="a", v=noise(3_000, 1)), event(1, id="b", v=noise(3_000, 2)), layout=layout)
    assert (counts(result), result.alone) == ([1, 1], [])


@pytest.mark.parametrize(("events", "length", "expected"), [(5, 1_500, [3, 2]), (9, 1_400, [3, 3, 3])])
def test_events_that_are_too_much_for_a_pack_are_as_few_packs_as_their_bytes_need(
    events: int, length: int, expected: list[int]
) -> None:
    """Of 5,600 bytes and 9,500 bytes after compression."""
    layout = Layout("time", 1, "id", 3600, pack=Packing(60, 4_096))
    result = pack_up(*[event(n, id=str(n), v=noise(length, n)) for n in range(events)], layout=layout)
    assert counts(result) == expected


def test_the_body_of_a_pack_by_series_has_the_series_as_it_was_sent() -> None:
    (pack,) = pack_up(event(0, "a#1%", "x"), event(1, "a#1%", "y"), layout=SERIAL).packs
    assert pack.item["pk"].startswith("a%231%25#")
    assert decode_body(ZSTD.expand(pack.item["pack"])).series == ["a#1%", "a#1%"]
