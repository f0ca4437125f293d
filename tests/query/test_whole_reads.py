"""Aggregates and rollups read all events of a range: in as few requests as memory allows, however many shards there are."""

from datetime import timedelta

import pytest

from tests.fakes.stage import Stage
from tests.worlds.busy import MINUTE, START, make_events, make_stage
from tidetable.ports import ItemColumns, KeyRange, Page, RangeRead
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.batch_events import make_query
from tidetable.query.batches import LiveBatch
from tidetable.query.merge import Demand, WholePages, merge_ranges
from tidetable.query.plan import plan_query
from tidetable.query.read import Scanner
from tidetable.query.session import ReadSession
from tidetable.times import to_text

COUNT = 20_000


def aggregate(stage: Stage, **parameters: str) -> Aggregate:
    given = {"from": to_text(START), "to": to_text(START + MINUTE), "stat": "count,sum", "field": "mag"} | parameters
    asked = {name: [value] for name, value in given.items()}
    query = parse_aggregation(stage.config.streams["s"], asked, stage.clock.now(), stage.seal)
    return find_aggregate(query, stage.config.streams["s"], stage.reader(), stage.clock.now(), lambda: 100.0)


# One request per shard, and one more for each page of 1 MB that is not the last of its shard.
@pytest.mark.parametrize(
    ("shards", "span", "requests", "units"),
    [(1, None, 3, 300.5), (50, None, 50, 315.5), (200, None, 200, 354.0), (1, "1m", 1, 37.0), (20, "1m", 20, 42.0)],
)
def test_an_aggregate_takes_a_request_per_shard_and_the_units_of_its_events(
    shards: int, span: str | None, requests: int, units: float
) -> None:
    answer = aggregate(make_stage(shards, make_events(COUNT), span=span))
    assert [row["count"] for row in answer.rows] == [COUNT]
    assert answer.cost.read == COUNT
    assert (answer.cost.requests, answer.cost.units) == (requests, units)


def test_the_refresher_reads_many_shards_in_few_requests() -> None:
    stage = make_stage(100, make_events(8_000), rollup=True)
    stage.dynamo.calls.clear()
    reads = stage.store.query_many
    requests = 0

    def count_reads(ranges: list[RangeRead], **options: bool) -> object:
        nonlocal requests
        requests += sum(".s." in keys.table for keys, _ in ranges)
        return reads(ranges, **options)  # type: ignore[arg-type]

    stage.store.query_many = count_reads  # type: ignore[method-assign, assignment]
    stage.refresh()
    answer = aggregate(stage, by="series", to=to_text(START + timedelta(hours=1)))
    assert {scan.entry.stream for scan in answer.sources} == {"s-hours"}
    assert sum(row["count"] for row in answer.rows) == 8_000
    # The other hours that are sealed have no events: 100 requests each.
    sealed = stage.rollups.read_state("s").edges[0]
    empty = (sealed.sealed - sealed.start) // timedelta(hours=1) - 1
    assert requests - 100 * empty == 100


@pytest.mark.parametrize(
    ("item_bytes", "ranges", "limit"),
    [
        (120, 200, 615),
        (120, 1, 123_076),  # AWS: the page ends at 1 MB
        (1_024, 256, 175),
        (102_400, 200, 4),  # of 400 bytes fewer it would be 3: a page costs half a unit, so it has at least 4 items
        (16_384, 100, 38),
    ],
)
def test_a_page_of_a_whole_read_is_as_long_as_64_mb_for_all_ranges_allow(
    item_bytes: int, ranges: int, limit: int
) -> None:
    pages = WholePages(ranges)
    pages.note_pages([Page(ItemColumns((), (), ()), more=True, units=100 * item_bytes / 4096, read=100)], 4096)
    assert pages.choose_limit(28, 10_000, 3) == limit


def test_items_of_different_sizes_count_by_their_mean() -> None:
    pages = WholePages(100)
    pages.note_pages([Page(ItemColumns((), (), ()), more=True, units=25.0, read=1)], 4096)
    pages.note_pages([Page(ItemColumns((), (), ()), more=True, units=3.0, read=99)], 8192)
    # (102,400 + 24,576) / 100 + 400 bytes for each event; 640,000 for each range
    assert pages.choose_limit(28, 0, 100) == 383


def test_a_whole_read_reads_ranges_together_before_they_are_used_up() -> None:
    """Otherwise each range would be read alone, one request after the other."""
    held = {f"p{shard}": [f"{number:05d}{shard:03d}" for number in range(1_000)] for shard in range(20)}
    rounds: list[int] = []

    def fetch(reads: list[RangeRead]) -> list[Page]:
        rounds.append(len(reads))
        pages = []
        for keys, limit in reads:
            rest = [sk for sk in held[keys.pk] if keys.after is None or sk > keys.after]
            some = rest[:limit]
            columns = ItemColumns([keys.pk] * len(some), some, ["{}"] * len(some))
            pages.append(Page(columns, len(rest) > limit, 1.0, {"sk": some[-1]} if some else None, len(some)))
        return pages

    reads = [RangeRead(KeyRange("t", pk, "", "~"), 30) for pk in held]
    first = fetch(reads)
    merged = merge_ranges(reads, first, fetch, lambda *_: 200, ascending=True, whole=True)  # type: ignore[arg-type]
    entries = [entry[2] for entries, _ in merged for entry in entries]
    assert entries == sorted(sk for sks in held.values() for sk in sks)
    assert len(rounds) <= 7
    assert Demand(5_000, filtered=False).choose_limit(30, 4_990, 1) == 10


def test_the_events_of_a_long_page_are_handed_on_five_thousand_at_a_time() -> None:
    """The caller looks at the time after each batch, and the compressed data of a batch is unpacked together."""
    stage = make_stage(2, make_events(12_000))
    (entry,) = [entry for entry in stage.catalog.entries("s", consistent=True) if START in entry.period]
    query = make_query("s", START, START + MINUTE)
    scanner = Scanner(query, ReadSession(stage.reader()), count=5_000, whole=True)
    batches = list(scanner.read_scans(plan_query(query, [entry]).scans))
    sizes = [len(batch.columns.sks) for batch in batches if isinstance(batch, LiveBatch)]
    assert (sum(sizes), max(sizes)) == (12_000, 5_000)
    # Each batch ends at the position of its last event.
    (first, *_) = batches
    assert isinstance(first, LiveBatch)
    assert first.reached is not None
    assert to_text(first.reached.time) == first.columns.sks[-1][:27]
