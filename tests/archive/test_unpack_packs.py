"""Reading a table with packs by its events: where a run may go on, how much it reads at once, and what it says that it read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.unpack_packs import SettledScan, _split_wire, open_time_scan
from aws.dynamodb.wire import decode_item, encode_item
from aws.zstd import Zstd
from tests.packs.history import REQUEST, History
from tests.worlds.busy import START, make_stage
from tests.worlds.busy import make_events as make_busy_events
from tests.worlds.packing import make_packs
from tidetable.archive.ports import RawPage, Source, TimeRange
from tidetable.errors import TableThrottled
from tidetable.events import Event
from tidetable.layout import Layout, Packing

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
LAYOUT = Layout("series", 2, "id", pack=Packing(60, 65_536))
COUNT = 60


def make_events(seconds: int) -> list[Event]:
    """Events of three series, one in so many seconds."""
    return [
        Event(f"s{number % 3}", NOON + timedelta(seconds=seconds * number), f"i{number}", {"n": number})
        for number in range(COUNT)
    ]


@dataclass
class Table:
    """A table of packs of three series in memory. Each read takes a unit for each item, and one more."""

    items: list[tuple[str, str, str]] = field(default_factory=list)
    units: float = 0.0
    count: int = 0
    limits: list[int | None] = field(default_factory=list)
    # The numbers of the reads that are refused.
    refused: frozenset[int] = frozenset()
    # How many items a read has at the most.
    most: int = 50
    seconds: int = 20

    def __post_init__(self) -> None:
        events = make_events(self.seconds)
        for at in range(0, COUNT, 6):
            packs = make_packs([LAYOUT.make_item(event, at=at) for event in events[at : at + 6]], LAYOUT, Zstd()).packs
            self.items += [(pack.item["pk"], pack.item["sk"], encode_item(pack.item)) for pack in packs]
        self.items.sort()

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        return self._read(self.items, after, limit)

    def partition(
        self,
        table: str,
        pk: str,
        *,
        low: str | None,
        high: str | None = None,
        after: Mapping[str, Any] | None,
        limit: int | None,
    ) -> RawPage:
        del high
        return self._read([item for item in self.items if item[0] == pk and item[1] >= (low or "")], after, limit)

    def settled(self, layout: Layout) -> Source:
        return SettledScan(self, layout)

    def between(self, layout: Layout, range: TimeRange) -> Source:
        return open_time_scan(self, layout, range)

    def _read(self, items: list[tuple[str, str, str]], after: Mapping[str, Any] | None, limit: int | None) -> RawPage:
        self.limits.append(limit)
        if len(self.limits) in self.refused:
            raise TableThrottled("t")
        if after is not None:
            items = [item for item in items if item[:2] > (after["pk"]["S"], after["sk"]["S"])]
        some = items[: min(limit or self.most, self.most)]
        last = {"pk": {"S": some[-1][0]}, "sk": {"S": some[-1][1]}} if len(some) < len(items) else None
        self.units += len(some) + 1
        self.count += len(some)
        return RawPage(f"[{','.join(text for _, _, text in some)}]".encode(), len(some), len(some) + 1.0, last)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages so small that most end in the middle of a logical partition."""
    monkeypatch.setattr("aws.archive.unpack_packs._PAGE_BYTES", 300)


def read(scan: Source, after: Mapping[str, Any] | None, limit: int | None = None, table: str = "t") -> RawPage:
    return scan.page(table, segment=0, segments=1, after=after, limit=limit)


def read_on(
    scan: Source, after: Mapping[str, Any] | None, limit: int | None = None, table: str = "t"
) -> Iterator[RawPage]:
    """The pages from a position to the end."""
    while True:
        page = read(scan, after, limit, table)
        yield page
        after = page.after
        if after is None:
            return


def read_ids(*pages: RawPage) -> list[str]:
    return [item["sk"]["S"].rpartition("#")[2] for page in pages for item in msgspec.json.decode(page.items)]


def everything() -> list[str]:
    return sorted(f"i{number}" for number in range(COUNT))


def test_every_event_is_read_once_and_all_that_was_read_is_counted() -> None:
    """The pace of an export goes by these units: also those of packs that are read a second time."""
    table = Table()
    pages = list(read_on(table.settled(LAYOUT), None))
    assert sorted(read_ids(*pages)) == everything()
    assert sum(page.units for page in pages) == table.units
    assert sum(page.count for page in pages) == table.count
    # Once by the scan, once in order, and the first of each of the three series once more.
    assert table.count == 2 * len(table.items) + 3


@pytest.mark.parametrize("size", [300, 1_000, 1_000_000])
def test_each_pack_is_counted_once_and_each_event_has_the_key_of_a_plain_item(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event is looked up by the suffix of its own id, though its pack has the suffix of the pack."""
    monkeypatch.setattr("aws.archive.unpack_packs._PAGE_BYTES", size)
    table = Table(seconds=5)
    assert len(table.items) < COUNT, "some packs have several events"
    pages = list(read_on(table.settled(LAYOUT), None))
    assert sum(page.packs for page in pages) == len(table.items)
    held = {item["sk"]["S"]: item["pk"]["S"] for page in pages for item in msgspec.json.decode(page.items)}
    plain = [LAYOUT.make_item(event) for event in make_events(5)]
    assert held == {item["sk"]: item["pk"] for item in plain}
    assert {pk.rpartition("#")[2] for pk in held.values()} == {"0", "1"}


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_a_later_run_goes_on_after_any_page_whatever_the_limit_of_its_reads(limit: int | None) -> None:
    pages = list(read_on(Table().settled(LAYOUT), None))
    assert len(pages) > 8
    for number, page in enumerate(pages[:-1], 1):
        rest = list(read_on(Table().settled(LAYOUT), page.after, limit))
        assert read_ids(*rest) == read_ids(*pages[number:]), page.after


def test_runs_of_a_page_each_read_every_event_once_though_their_limits_differ() -> None:
    """A run may end before it has come to the place where an earlier run, which read more at once, had ended."""
    table, after = Table(), None
    pages: list[RawPage] = []
    while not pages or after is not None:
        # An empty page says how far the scan came; the next run goes on from there.
        pages.append(read(table.settled(LAYOUT), after, None if len(pages) % 5 == 0 else 1))
        after = pages[-1].after
    assert sorted(read_ids(*pages)) == everything()


def test_a_page_may_be_asked_for_again_after_later_pages() -> None:
    """A part that could not be written is begun anew."""
    scan = Table().settled(LAYOUT)
    first = read(scan, None)
    assert first.after is not None
    second = read(scan, first.after)
    assert read_ids(second) != read_ids(first)
    assert read_ids(read(scan, None)) == read_ids(first)
    assert read_ids(read(scan, first.after)) == read_ids(second)


def test_a_read_that_was_throttled_is_made_again() -> None:
    reads = Table()
    list(read_on(reads.settled(LAYOUT), None))
    for number in range(1, len(reads.limits) + 1):
        table = Table(refused=frozenset({number}))
        scan, after = table.settled(LAYOUT), None
        found: list[str] = []
        throttled = 0
        while True:
            try:
                page = read(scan, after)
            except TableThrottled:
                throttled += 1
                continue
            found += read_ids(page)
            after = page.after
            if after is None:
                break
        assert (sorted(found), throttled) == (everything(), 1), number


def test_the_limit_of_a_page_holds_for_the_reads_of_that_page() -> None:
    """The pace changes from page to page. Only the first item of a partition key is always read alone."""
    table = Table()
    scan = table.settled(LAYOUT)
    page, limit = read(scan, None, 3), 3
    assert set(table.limits) <= {1, 3}
    while page.after is not None:
        limit = 5 - limit
        table.limits.clear()
        page = read(scan, page.after, limit)
        assert set(table.limits) <= {1, limit}


def test_data_beside_an_event_counts_for_the_size_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends above a megabyte. Two of these events have 800,000 bytes, and three have more than that."""
    monkeypatch.undo()
    table = Table()
    table.items = []
    for number in range(6):
        item = LAYOUT.make_item(Event("s", NOON + timedelta(seconds=number), f"i{number}", {}), at=1)
        bare = {name: value for name, value in item.items() if name != "data"}
        bare = bare | {"pk": "s#0", "out": {"o": f"large/{number}", "b": 400_000}}
        table.items.append((bare["pk"], bare["sk"], encode_item(bare)))
    scan, after, counts = table.settled(LAYOUT), None, []
    while True:
        page = read(scan, after)
        counts.append(len(msgspec.json.decode(page.items)))
        after = page.after
        if after is None:
            break
    assert [count for count in counts if count] == [3, 3]


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from([("time", "id"), ("time", "series"), ("series", "id")]),
    st.sampled_from([1, 3]),
    st.sampled_from([65_536, 150]),
    st.lists(REQUEST, max_size=8),
    st.sampled_from([1, 300, 1_000_000]),
    st.sampled_from([1, 4, 50_000]),
    st.lists(st.tuples(st.booleans(), st.sampled_from([None, 1, 2])), min_size=1, max_size=7),
)
def test_any_table_is_archived_event_by_event_as_a_dictionary_of_its_events(
    by: Any, shards: int, size: int, requests: Any, page: int, together: int, runs: list[tuple[bool, int | None]]
) -> None:
    """Copies lie in packs of other suffixes and alone; runs end after any page, and have any limit of items."""
    layout = Layout(by[0], shards, by[1], 3600 if by[0] == "time" else 0, pack=Packing(60, size))
    history, table = History(layout, requests), Table()
    table.items = sorted((pk, sk, encode_item(item)) for (pk, sk), item in history.table.items.items())
    packs = sum("pack" in item for item in history.table.items.values())
    pages: list[RawPage] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aws.archive.unpack_packs._PAGE_BYTES", page)
        patch.setattr("aws.archive.unpack_packs._SETTLED_TOGETHER", together)
        scan = table.settled(layout)
        while not pages or pages[-1].after is not None:
            begins_anew, limit = runs[len(pages) % len(runs)]
            scan = table.settled(layout) if begins_anew else scan
            pages.append(read(scan, pages[-1].after if pages else None, limit))
    items = [decode_item(item) for page in pages for item in msgspec.json.decode(page.items)]
    plain = [
        layout.make_item(Event(series, time, id, data), at=at)
        for (time, series, id), (at, data) in history.counting.items()
    ]
    places = {(item["pk"], item["sk"]): (item["at"], item["data"]) for item in plain}
    assert len(items) == len(places)
    assert {(item["pk"], item["sk"]): (item["at"], item["data"]) for item in items} == places
    assert sum(page.packs for page in pages) == packs


@pytest.mark.parametrize(("shards", "most"), [(1, 150), (20, 170), (200, 350)])
def test_shards_cost_a_request_of_a_unit_each_and_no_more(shards: int, most: float) -> None:
    """Each of the 40 packs is read by the scan and in order, and one of them to find the first."""
    stage = make_stage(shards, make_busy_events(20_000), span="1m")
    (entry,) = [entry for entry in stage.catalog.entries("s", consistent=True) if START in entry.period]
    pages = list(read_on(stage.exporter().source.settled(entry.layout), None, table=entry.table))
    assert sum(page.items.count(b'"pk"') for page in pages) == 20_000
    assert sum(page.count for page in pages) == 81
    assert sum(page.units for page in pages) <= most


@pytest.mark.parametrize(
    ("column", "wire"),
    [
        (b"1.5\n-3\n0", ['{"N":"1.5"}', '{"N":"-3"}', '{"N":"0"}']),
        # As Python's decimals write them: an archive that was begun by other code has them so.
        (b"0.0000001\n-0", ['{"N":"1E-7"}', '{"N":"0"}']),
        (b'"a"\ntrue\nnull\n[1]', ['{"S":"a"}', '{"BOOL":true}', '{"NULL":true}', '{"L":[{"N":"1"}]}']),
    ],
)
def test_a_column_of_a_pack_is_written_as_dynamodbs_json(column: bytes, wire: list[str]) -> None:
    assert _split_wire(column) == wire


@pytest.mark.parametrize("column", [b'"a","b"', b"1.2.3", b"01", b'"a', b"nul"])
def test_a_line_that_is_not_one_value_is_damage(column: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        _split_wire(column)
