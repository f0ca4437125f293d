"""The threshold walk: every event comes once, in order, as the copy that counts, and no pack is read in vain."""

from itertools import islice

import pytest

from tests.packs.table import NOON, SERIAL, TIMELY, ZSTD, PackTable, event, rows
from tests.worlds.packing import make_packs
from tidetable.events import Event
from tidetable.layout.pack import find_key_range
from tidetable.packs import OpenedItem, Walk, open_item, walk_packs
from tidetable.times import EPOCH, to_text

BUCKET = "2026-03-05T12:00:00.000000Z"


def place(seconds: float, series: str = "s", id: str = "a") -> str:
    return TIMELY.make_key(event(seconds, series, id)).sk


def values(table: PackTable, *, ascending: bool = False) -> list[tuple[str, object]]:
    return [(place, copy.value) for place, copy in table.read(BUCKET, ascending=ascending)]


@pytest.mark.parametrize("ascending", [False, True])
def test_the_same_batch_twice_is_one_pack(ascending: bool) -> None:
    table = PackTable(TIMELY)
    batch = [event(n, id=str(n), v=n) for n in range(3)]
    table.send(batch, at=1)
    table.send(batch, at=2)
    assert len(table.items) == 1
    assert [copy.at for _, copy in table.read(BUCKET, ascending=ascending)] == [2, 2, 2]


@pytest.mark.parametrize("ascending", [False, True])
def test_a_batch_that_is_cut_differently_when_it_is_repeated_counts_once(ascending: bool) -> None:
    table = PackTable(TIMELY)
    batch = [event(n, id=str(n), v=n) for n in range(6)]
    table.send(batch, at=1)
    table.send(batch[:4], at=2)
    table.send(batch[4:], at=3)
    assert len(table.items) == 3
    expected = [(place(n, id=str(n)), f'{{"v":{n}}}') for n in range(6)]
    assert values(table, ascending=ascending) == (expected if ascending else expected[::-1])


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("beside", [30, -30])
def test_an_event_that_is_overwritten_by_a_pack_before_or_after_its_own(ascending: bool, beside: int) -> None:
    """The newest event of the overwriting pack places its key before or after the first pack."""
    table = PackTable(TIMELY)
    table.send([event(100, v="old"), event(110, id="b")], at=1)
    table.send([event(100, v="new"), event(100 + beside, id="c")], at=2)
    assert dict(values(table, ascending=ascending))[place(100)] == '{"v":"new"}'
    table.send([event(100, v="old"), event(110, id="b")], at=3)
    assert dict(values(table, ascending=ascending))[place(100)] == '{"v":"old"}'


@pytest.mark.parametrize("ascending", [False, True])
def test_of_copies_accepted_at_the_same_instant_the_greatest_hash_counts(ascending: bool) -> None:
    table = PackTable(TIMELY)
    for n in range(5):
        table.send([event(100, v=n), event(100, id=f"b{n}")], at=1)
    hashes = {sk.rpartition("##")[2] for _, sk in table.items}
    copies = dict(table.read(BUCKET, ascending=ascending))
    assert copies[place(100)].hash == max(hashes)
    assert len(copies) == 6


def test_of_a_pack_and_a_plain_item_the_later_counts_and_of_one_instant_the_pack() -> None:
    table = PackTable(TIMELY)
    plain = TIMELY.make_item(event(100, v="plain"), at=5)
    table.items[plain["pk"], plain["sk"]] = plain
    for at, expected in ((4, '{"v":"plain"}'), (5, '{"v":"packed"}'), (6, '{"v":"packed"}')):
        table.send([event(100, v="packed")], at=at)
        assert values(table) == [(place(100), expected)]


def test_packs_with_one_newest_time_do_not_hide_each_other() -> None:
    table = PackTable(TIMELY)
    for n in range(6):
        table.send([event(100, id=f"x{n}"), event(100 - n, id="y", v=n)], at=n)
    assert len(values(table)) == 12
    assert values(table) == values(table, ascending=True)[::-1]


def test_newest_first_a_page_reads_no_pack_older_than_its_last_event() -> None:
    table = PackTable(TIMELY)
    for n in range(100):
        table.send([event(10 * n + m, id=str(m)) for m in range(5)], at=n)
    page = list(islice(rows(walk_packs(table.range(BUCKET, "", "~", ascending=False), span=60, ascending=False)), 12))
    assert [row[0] for row in page] == [place(10 * n + m, id=str(m)) for n in (99, 98, 97) for m in (4, 3, 2, 1, 0)][
        :12
    ]
    # Three packs hold the twelve events, and the fourth shows that it holds none of them.
    assert table.opened == 4


def test_oldest_first_a_page_reads_the_span_beyond_its_last_event() -> None:
    table = PackTable(TIMELY)
    for n in range(100):
        table.send([event(10 * n + m, id=str(m)) for m in range(5)], at=n)
    page = list(islice(rows(walk_packs(table.range(BUCKET, "", "~", ascending=True), span=60, ascending=True)), 5))
    assert [row[0] for row in page] == [place(m, id=str(m)) for m in range(5)]
    # The last of the five events is of second 4. The pack whose newest event is of second 64 holds only newer events,
    # so it ends the page.
    assert table.opened == 7


@pytest.mark.parametrize("ascending", [False, True])
def test_a_range_is_read_to_the_span_beyond_its_end(ascending: bool) -> None:
    """The event at second 100 is in the last pack that may hold it: its newest event is of second 159.999999."""
    table = PackTable(TIMELY)
    table.send([event(100), event(159.999999, id="b")], at=1)
    table.send([event(160, id="c")], at=2)
    start, end = event(100).time, event(100.000001).time
    keys = find_key_range(start, end, 60)
    assert keys == ("2026-03-05T12:01:40.000000Z", "2026-03-05T12:02:40.000001Z")
    read_items = table.read(BUCKET, ascending=ascending, low=to_text(start), high=to_text(end), keys=keys)
    assert [row[0] for row in read_items] == [place(100)]


def test_a_page_that_ends_inside_a_pack_goes_on_after_its_last_event() -> None:
    table = PackTable(TIMELY)
    table.send([event(n, id=str(n), v=n) for n in range(10)], at=1)
    table.send([event(n, id=str(n), v=-n) for n in range(3, 8)], at=2)
    whole = [row[0] for row in table.read(BUCKET, ascending=False)]
    for n, last in enumerate(whole):
        assert [row[0] for row in table.read(BUCKET, ascending=False, high=last)] == whole[n + 1 :]
        assert [row[0] for row in table.read(BUCKET, ascending=True, low=last + "\0")] == whole[:n][::-1]


def test_a_pack_that_arrives_behind_a_walk_does_not_disturb_it() -> None:
    table = PackTable(TIMELY)
    for n in range(10):
        table.send([event(10 * n, id=str(n), v=1)], at=n)
    walked = rows(walk_packs(table.range(BUCKET, "", "~", ascending=False), span=60, ascending=False))
    first = list(islice(walked, 3))
    table.send([event(0, id="late"), event(59, id="late")], at=99)
    rest = [row[0] for row in walked]
    assert [row[0] for row in first] + rest == [place(10 * n, id=str(n)) for n in range(9, -1, -1)]
    last = first[-1][0]
    assert place(0, id="late") in [row[0] for row in table.read(BUCKET, ascending=False, high=last)]


def test_a_late_event_into_a_bucket_that_is_long_past_is_found_by_its_time() -> None:
    table = PackTable(TIMELY)
    table.send([event(10, id="a")], at=1)
    table.send([event(11, id="late"), event(3605, id="now")], at=2)
    assert [row[0] for row in table.read(BUCKET, ascending=False)] == [place(11, id="late"), place(10)]


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(
    "damage",
    [{"pack": b""}, {"pack": b"no frame"}, {"format": 3}, {"format": 0}, {"sk": "2026-03-05T12:00:30.000000Z#s#x"}],
    ids=["empty", "no frame", "a later format", "no format", "a plain item's key"],
)
def test_a_damaged_pack_costs_itself_and_is_told(damage: dict[str, object], ascending: bool) -> None:
    table = PackTable(TIMELY)
    table.send([event(0, id="a")], at=1)
    table.send([event(30, id="b"), event(31, id="c")], at=2)
    table.send([event(59, id="d")], at=3)
    key = next(key for key, item in table.items.items() if item["n"] == 2)
    table.items[key] = table.items[key] | damage
    runs = list(walk_packs(table.range(BUCKET, "", "~", ascending=ascending), span=60, ascending=ascending))
    assert sorted(place for run in runs for place in run.places) == [place(0), place(59, id="d")]
    (problem,) = [problem for run in runs for problem in run.problems]
    assert problem.startswith("the pack 2026-03-05T12:00:00.000000Z#0, 2026-03-05T12:00:3")


def test_a_flipped_bit_is_noticed() -> None:
    (one,) = make_packs([TIMELY.make_item(event(0, v=1))], TIMELY, ZSTD).packs
    payload = bytearray(one.item["pack"])
    payload[len(payload) // 2] ^= 4
    opened = open_item(one.item | {"pack": bytes(payload)}, TIMELY, ZSTD)
    assert opened.problem is not None
    assert not opened.places


def test_by_series_a_walk_is_of_one_series() -> None:
    table = PackTable(SERIAL)
    table.send([event(n, f"s{n % 2}", str(n), v=n) for n in range(8)], at=1)
    assert table.logicals() == ["s0", "s1"]
    assert [copy.value for _, copy in table.read("s1", ascending=True)] == ['{"v":1}', '{"v":3}', '{"v":5}', '{"v":7}']


def test_plain_items_of_other_forms_pass_through_as_they_are() -> None:
    item = TIMELY.make_item(event(1)) | {"z": b"x"}
    del item["data"]
    opened = open_item(item, TIMELY, ZSTD)
    (run,) = walk_packs([opened], span=60, ascending=True)
    assert run.copies[0].value == item
    assert run.copies[0].address == item["pk"]


def test_a_plain_item_with_fields_elsewhere_keeps_them() -> None:
    """Some of its data is in the item, and the rest in the table beside it."""
    item = TIMELY.make_item(event(1, v=1)) | {"cold": ["raw"]}
    assert list(open_item(item, TIMELY, ZSTD).values) == [item]


def test_nothing_before_noon_is_read_for_what_is_newer() -> None:
    table = PackTable(TIMELY)
    for n in range(50):
        table.send([event(60 * n, id=str(n))], at=n)
    low = to_text(NOON.replace(minute=45))
    read_items = table.read(BUCKET, ascending=False, low=low)
    assert [row[0] for row in read_items] == [place(60 * n, id=str(n)) for n in range(49, 44, -1)]
    assert table.opened == 6


@pytest.mark.parametrize("ascending", [False, True])
def test_an_event_of_the_first_instant_of_1970_comes_once(ascending: bool) -> None:
    """A device without a clock sends this time. The second pack holds a newer copy of the event."""
    table = PackTable(TIMELY)
    for at in (1, 2):
        later = Event("s", EPOCH.replace(second=10 * at), f"later{at}", {})
        table.send([Event("s", EPOCH, "a", {"v": at}), later], at=at)
    copies = table.read("1970-01-01T00:00:00.000000Z", ascending=ascending)
    found = [copy.value for place, copy in copies if place == "1970-01-01T00:00:00.000000Z#s#a"]
    assert found == ['{"v":2}']


def test_a_walk_holds_one_copy_of_each_event_when_requests_are_often_repeated() -> None:
    """Each repetition has packs of another size, so each event waits in five packs."""
    walk = Walk(span=3600, ascending=True)
    places = [f"2026-03-05T12:00:00.000000Z#s#{n:05d}" for n in range(20_000)]
    for at in range(1, 6):
        for start in range(0, 20_000, 100 * at):
            some = places[start : start + 100 * at]
            walk.add_item(OpenedItem("a", some[0], some[0], f"{at}", at, some, ["{}"] * len(some)))
    assert walk.unsettled <= 50_000
    walk.settle_all()
    assert (walk.count, walk.unsettled) == (20_000, 0)
    run = walk.pop_settled()
    assert (list(run.places), set(run.ats), set(run.hashes)) == (places, {5}, {"5"})
    assert not walk.pop_settled().places
