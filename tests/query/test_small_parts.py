"""The small parts of a query's way, each at its edges: what is kept, cut, counted, shown and left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes import FakeStore
from tests.worlds.days import STREAM, Days
from tests.worlds.packed import STREAMS as PACKED_STREAMS
from tests.worlds.packed import items_of
from tidetable.catalog import Entry, State
from tidetable.conditions import NameConditions
from tidetable.copies.reader import Copies
from tidetable.errors import TableMissing
from tidetable.events import Event
from tidetable.layout import Index, Key, Layout, Packing, Ref
from tidetable.periods import Kind, find_containing
from tidetable.ports import ArchivePage, EventVersion, ItemColumns, KeyRange, Page, RangeRead
from tidetable.problems import ProblemError
from tidetable.query import find_latest, page
from tidetable.query import gather as gathering
from tidetable.query.earlier import make_archive_rows
from tidetable.query.gather import Nearest, gather_events
from tidetable.query.get import get_event
from tidetable.query.index_scans import GatherScan
from tidetable.query.model import EVERYTHING
from tidetable.query.packs.scan import PackScan
from tidetable.query.packs.walk import find_event_in_pack
from tidetable.query.rows import Row, Rows, count_escaped_bytes
from tidetable.values import count_item_bytes

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LAYOUT = Layout("time", 1, "id", 86_400)
NOON = START + DAY / 2


def entry(day: int = 0, layout: Layout = LAYOUT, kind: Kind = Kind.DAY, state: State = State.OPEN) -> Entry:
    return Entry("s", find_containing(START + day * DAY, kind), f"t{day}", layout, state, START)


# Gathering


def placed(place: str, id: str = "1", size: int = 0) -> Any:
    item = {"pk": "p", "sk": id, "data": {"x": "y" * size}}
    return "p", id, item, place


def test_an_event_under_two_values_is_kept_once_and_takes_the_room_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one: Any = placed("5")[2]
    monkeypatch.setattr(gathering, "KEPT_BYTES", count_item_bytes(one) + 1)
    nearest = Nearest(ascending=True)
    for place in ("5", "6", "5", "4"):
        nearest.add(placed(place))
    assert [kept[-1] for kept in nearest.list_entries()] == ["4"]
    assert not nearest.cut


@pytest.mark.parametrize(("ascending", "kept"), [(True, ["1"]), (False, ["3"])])
def test_the_first_event_is_kept_whatever_it_takes(
    ascending: bool, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "KEPT_BYTES", 100)
    nearest = Nearest(ascending=ascending)
    for place in ("2", "1", "3"):
        nearest.add(placed(place, place, 500))
    assert ([own[-1] for own in nearest.list_entries()], nearest.cut) == (kept, True)
    alone = Nearest(ascending=ascending)
    alone.add(placed("2", "2", 500))
    assert ([own[-1] for own in alone.list_entries()], alone.cut) == (["2"], False)


def test_after_a_cut_the_kept_events_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events come from the farthest on. There is room for five, and the first cut is at more than ten."""
    size = count_item_bytes(placed("10", "10", 500)[2])
    monkeypatch.setattr(gathering, "KEPT_BYTES", 5 * size)
    nearest = Nearest(ascending=True)
    for number in range(40, 25, -1):
        nearest.add(placed(str(number), str(number), 500))
        assert len(vars(nearest)["_entries"]) <= 10, "memory holds at most twice the limit"
    assert ([own[-1] for own in nearest.list_entries()], nearest.cut) == (["26", "27", "28", "29", "30"], True)


def test_nothing_behind_an_event_that_was_left_out_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pass begins behind the last event that was kept: what lies between would be lost."""
    monkeypatch.setattr(gathering, "KEPT_BYTES", 1_000)
    nearest = Nearest(ascending=True)
    for place, size in (("1", 300), ("2", 300), ("5", 1_500), ("9", 10), ("0", 10)):
        nearest.add(placed(place, place, size))
    assert ([own[-1] for own in nearest.list_entries()], nearest.cut) == (["0", "1", "2"], True)


def test_ranges_are_read_again_for_what_did_not_fit_and_the_time_is_looked_at_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three events, of which one fits: three passes, of two pages each. The names' event of another series is none."""
    monkeypatch.setattr(gathering, "KEPT_BYTES", 100)
    items = [{"pk": "p", "sk": f"{n}#a#{n}", "at": f"{n}", "data": {"x": "y" * 500}} for n in (3, 1, 2)]
    items.append({"pk": "p", "sk": "0#b#0", "at": "0", "data": {}})
    halves = [Page(ItemColumns.of(items[:2]), more=True, last={"pk": "p"}), Page(ItemColumns.of(items[2:]), more=False)]
    calls: list[str] = []

    def fetch(reads: Any) -> list[Page]:
        calls.append("read on" if reads[0].keys.start else "read")
        return [halves[bool(reads[0].keys.start)]]

    scan: Any = SimpleNamespace(
        index=SimpleNamespace(levels=(), sk="at"),
        entry=SimpleNamespace(layout=SimpleNamespace(parse_names=lambda _, sk: sk.split("#"))),
        after=None,
        holds=lambda place, after, *, ascending: after is None or (place > after) is ascending,
    )
    reads = [RangeRead(KeyRange("t", "p", None, None), 10)]
    merged = gather_events(
        scan,
        reads,
        [halves[0]],
        fetch,
        NameConditions(series=("a",)),
        ascending=True,
        check_time=lambda: calls.append("time"),
    )
    assert [(placed.order, edge) for placed, edge in merged] == [
        (["1"], "1"),
        (["2"], "2"),
        (["3"], None),
    ]
    assert calls == ["time", "read on", *["time", "read", "time", "read on"] * 2]


@pytest.mark.parametrize(
    ("place", "after", "ascending", "held"),
    [
        ("1", None, True, True),
        ("0", None, True, False),
        ("5", None, True, False),
        ("2", "2", True, False),
        ("2", "2", False, False),
        ("3", "2", True, True),
        ("3", "2", False, False),
        ("1", "2", False, True),
    ],
)
def test_a_gathered_event_lies_within_the_range_and_after_the_place(
    place: str, after: str | None, ascending: bool, held: bool
) -> None:
    scan = GatherScan(
        entry=entry(),
        start=START,
        end=START + DAY,
        keys=KeyRange("t0", "", None, None),
        index=Index("by_kind", "kind", 1),
        first="1",
        last="5",
        after=None,
    )
    assert scan.holds(place, after, ascending=ascending) is held


# Packs and refs


PACKED = Layout("time", 1, "id", 86_400, pack=Packing(3600, 65_536))
EVENT = Event("a", NOON, "1", {"n": 1})


def test_an_event_is_found_in_its_pack_and_damage_is_said() -> None:
    (pack,) = items_of([EVENT, Event("a", NOON, "2", {})], PACKED, 0)
    place = PACKED.make_sort_key(NOON, "a", "1")
    found = find_event_in_pack(pack, place, PACKED, Zstd())
    assert found.item is not None
    assert (found.item["sk"], found.damaged) == (place, False)
    assert find_event_in_pack(pack, PACKED.make_sort_key(NOON, "a", "3"), PACKED, Zstd()) == (None, False)
    damaged: Any = {name: b"x" if isinstance(value, bytes) else value for name, value in pack.items()}
    assert find_event_in_pack(damaged, place, PACKED, Zstd()) == (None, True)


@pytest.mark.parametrize(("count", "shards", "packs"), [(1, 1, 2), (2000, 1, 2), (2001, 1, 3), (9000, 3, 5)])
def test_of_each_range_the_packs_of_a_thousand_events_are_read_first(count: int, shards: int, packs: int) -> None:
    layout = Layout("time", shards, "id", 86_400, pack=Packing(60, 65_536))
    scan = PackScan.of(entry(layout=layout), START, START + DAY, ["p"])
    assert PackScan.count_first(scan, count) == packs


def ref(event: Event, kind: Kind = Kind.DAY, stream: str = "s") -> str:
    return Ref(stream, find_containing(event.time, kind), LAYOUT.make_key(event)).encode()


def test_an_event_is_looked_for_in_the_period_of_its_ref() -> None:
    """The stream had tables by the hour, and has them by the day: the hour's is listed, too."""
    days = Days()
    days.add_table(find_containing(NOON, Kind.HOUR), LAYOUT, [])
    days.add_table(find_containing(NOON, Kind.DAY), LAYOUT, [LAYOUT.make_item(EVENT)])
    assert get_event(STREAM, ref(EVENT), days.reader)["data"] == {"n": 1}
    with pytest.raises(ProblemError, match="404 unknown_event"):
        get_event(STREAM, ref(EVENT, Kind.HOUR), days.reader)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (ref(EVENT, stream="other"), "400 bad_ref: .*'other'"),
        ("no ref", "400 bad_ref"),
        (ref(EVENT._replace(id="9") if hasattr(EVENT, "_replace") else Event("a", NOON, "9", {})), "404 unknown_event"),
        (ref(Event("a", NOON + 9 * DAY, "1", {})), "404 unknown_event"),
    ],
)
def test_a_ref_of_nothing_is_refused(text: str, refusal: str) -> None:
    days = Days()
    days.add_table(find_containing(NOON, Kind.DAY), LAYOUT, [LAYOUT.make_item(EVENT)])
    with pytest.raises(ProblemError, match=refusal):
        get_event(STREAM, text, days.reader)


@pytest.mark.parametrize("layout", [LAYOUT, PACKED], ids=["items", "packs"])
def test_an_event_that_an_archive_lacks_is_unknown(layout: Layout) -> None:
    days, period = Days(), find_containing(NOON, Kind.DAY)
    days.add_archive(period, layout, [EVENT])
    refs = [Ref("s", period, layout.make_key(Event("a", NOON, id, {}))).encode() for id in ("1", "9")]
    assert get_event(STREAM, refs[0], days.reader)["data"] == {"n": 1}
    with pytest.raises(ProblemError, match="404 unknown_event: there is no event of this ref"):
        get_event(STREAM, refs[1], days.reader)


def test_a_ref_of_another_partition_finds_no_archived_event() -> None:
    days, period = Days(), find_containing(NOON, Kind.DAY)
    days.add_archive(period, LAYOUT, [EVENT])
    key = LAYOUT.make_key(EVENT)
    other = Ref("s", period, Key(key.pk.replace("#0", "#1"), key.sk)).encode()
    with pytest.raises(ProblemError, match="404 unknown_event: there is no event of this ref"):
        get_event(STREAM, other, days.reader)


@pytest.mark.parametrize("pack", [None, Packing(3_600, 65_536)], ids=["items", "packs"])
def test_the_latest_event_of_a_table_that_has_gone_is_looked_for_in_older_tables(pack: Packing | None) -> None:
    days, layout = Days(), Layout("series", 2, "id", pack=pack)
    days.add_table(
        find_containing(NOON - DAY, Kind.DAY), layout, items_of([Event("a", NOON - DAY, "0", {})], layout, 0)
    )
    days.add_table(find_containing(NOON, Kind.DAY), layout, [])
    del days.store.tables["tidetable-t.s.2026-03-01"]
    latest = find_latest(PACKED_STREAMS["series"], {"series": ["a"]}, days.reader, NOON, lambda: 100.0)
    assert latest.events["a"]["id"] == "0"
    assert latest.searched == START - DAY


@pytest.mark.parametrize("pack", [None, Packing(3_600, 65_536)], ids=["items", "packs"])
def test_a_reader_does_not_look_for_the_latest_event_behind_a_table_that_has_gone(pack: Packing | None) -> None:
    """The origin may have a later event than the older tables."""
    days, layout = Days(), Layout("series", 2, "id", pack=pack)
    days.add_table(
        find_containing(NOON - DAY, Kind.DAY), layout, items_of([Event("a", NOON - DAY, "0", {})], layout, 0)
    )
    days.add_table(find_containing(NOON, Kind.DAY), layout, [])
    del days.store.tables["tidetable-t.s.2026-03-01"]
    days.reader.copies = Copies("eu-west-1", "us-east-1")
    with pytest.raises(ProblemError, match="503 no_copy: the table of s's period 2026-03-01 has no copy in eu-west-1"):
        find_latest(PACKED_STREAMS["series"], {"series": ["a"]}, days.reader, NOON, lambda: 100.0)


def test_an_event_of_a_table_that_has_gone_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days()
    days.add_table(find_containing(NOON, Kind.DAY), LAYOUT, [])

    def gone(*_: Any) -> Any:
        raise TableMissing("t")

    monkeypatch.setattr(days.store, "get", gone)
    with pytest.raises(ProblemError, match="404 unknown_event"):
        get_event(STREAM, ref(EVENT), days.reader)


def test_a_reader_that_finds_no_table_twice_does_not_know_if_there_is_an_event() -> None:
    days = Days()
    days.add_table(find_containing(NOON, Kind.DAY), LAYOUT, [])
    days.store.tables.clear()
    days.reader.copies = Copies("eu-west-1", "us-east-1")
    with pytest.raises(ProblemError, match="503 no_copy: the table of s's period 2026-03-01 has no copy in eu-west-1"):
        get_event(STREAM, ref(EVENT), days.reader)


@pytest.mark.parametrize("layout", [Layout("series", 2, "id"), Layout("series", 2, "id", pack=Packing(3_600, 65_536))])
@pytest.mark.parametrize("consistent", ["true", "false"])
def test_the_latest_event_is_read_as_consistently_as_the_request_wants(
    layout: Layout, consistent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days, query_many, reads = Days(), FakeStore.query_many, list[bool]()
    days.add_table(find_containing(NOON, Kind.DAY), layout, items_of([EVENT], layout, 0))

    def note(*given: Any, **options: Any) -> Any:
        reads.append(options["consistent"])
        return query_many(days.store, *given, **options)

    monkeypatch.setattr(days.store, "query_many", note)
    parameters = {"series": ["a"], "consistent": [consistent]}
    assert find_latest(PACKED_STREAMS["series"], parameters, days.reader, NOON, lambda: 100.0).events["a"]["id"] == "1"
    assert reads == [consistent == "true"]


# Rows


def test_what_an_archives_page_had_no_room_for_is_the_oldest() -> None:
    versions = [EventVersion(3, 9, newest=True), EventVersion(2, 8, newest=False), EventVersion(1, 7, newest=True)]
    events = [EVENT, EVENT, Event("a", NOON, "2", {})]
    first, second = make_archive_rows(ArchivePage(events, more=False, versions=versions), entry(), EVERYTHING)
    assert ([row.version.number for row in first.earlier if row.version], first.left_out) == ([2], 1)
    assert (second.earlier, second.left_out) == ((), 0)
    assert [row.left_out for row in make_archive_rows(ArchivePage(events, more=False), entry(), EVERYTHING)] == [
        0,
        0,
        0,
    ]


def test_the_versions_that_fit_are_kept_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    def row() -> Row:
        return Row(entry(), {"pk": "p", "sk": LAYOUT.make_sort_key(NOON, "a", "1"), "data": {}})

    own = row()
    size = own.measure_own_size()
    for room, kept in ((3 * size, 2), (3 * size - 1, 1), (0, 0)):
        own.earlier, own.left_out = (row(), row(), row()), 4
        monkeypatch.setattr(page, "MAX_PAGE_BYTES", room)
        page.cut_to_page(own)
        assert (len(own.earlier), own.left_out) == (kept, 4 + 3 - kept)


def test_data_that_is_elsewhere_may_take_twice_its_bytes() -> None:
    """Only its length is known, and every character of it may be a quote, which takes two bytes on its way."""
    item: dict[str, Any] = {"pk": "p", "sk": LAYOUT.make_sort_key(NOON, "a", "1"), "data": {}}
    here, elsewhere = Row(entry(), item), Row(entry(), {**item, "out": {"b": 1_000}}, partial=True)
    assert elsewhere.measure_own_size() - here.measure_own_size() == 2_000


@pytest.mark.parametrize(("text", "size"), [("a", 1), ("é", 2), ('"', 2), ("\\", 2), ('é"\\', 6)])
def test_text_takes_its_bytes_and_one_more_for_what_is_escaped(text: str, size: int) -> None:
    assert count_escaped_bytes(text) == size


def test_members_that_plain_events_do_not_have_are_shown_when_they_say_something() -> None:
    item = {"pk": "p#0", "sk": LAYOUT.make_sort_key(NOON, "a", "1"), "data": {}}
    assert Row(entry(), item).write_members() == ""
    row = Row(entry(), item, EVERYTHING, EventVersion(2, 1000, newest=True), incomplete=True, left_out=3)
    assert row.write_members() == (
        ',"version":2,"newest":true,"accepted":"1970-01-01T00:00:01.000000Z","incomplete":true,"versions_left_out":3'
    )
    assert Rows.of_rows([row, row], entry()).cut_to(1).count == 1
