"""Fetching a scan: whatever the pages are, each item comes once and in order, and few items are read in vain."""

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tidetable.events import Item
from tidetable.ports import ItemColumns, KeyRange, Page, RangeRead
from tidetable.query.merge import Demand, compute_share, merge_ranges


class Table:
    """Partitions by their key; pages may end early, as DynamoDB's do at 1 MB, and even be empty."""

    def __init__(self, partitions: list[list[str]], *, ascending: bool, cuts: Sequence[int] = ()) -> None:
        self._partitions = [sorted(places, reverse=not ascending) for places in partitions]
        self._ascending = ascending
        self._cuts = list(cuts)
        self.read = 0
        self.requests = 0

    def fetch(self, reads: Sequence[RangeRead]) -> list[Page]:
        return [self._page(*read) for read in reads]

    def _page(self, keys: KeyRange, limit: int) -> Page:
        assert limit >= 1
        self.requests += 1
        before = {"pk": keys.pk, "sk": "" if self._ascending else "~"}
        start = keys.start or before
        rest = [
            sort_key
            for sort_key in self._partitions[int(keys.pk)]
            if (sort_key > start["sk"] if self._ascending else sort_key < start["sk"])
        ]
        sort_keys = rest[: min(limit, self._cuts.pop() if self._cuts else limit)]
        self.read += len(sort_keys)
        items = [{"pk": keys.pk, "sk": sort_key} for sort_key in sort_keys]
        return Page(ItemColumns.of(items), more=len(items) < len(rest), last=items[-1] if items else start)


def ranges(count: int) -> list[KeyRange]:
    return [KeyRange("t", str(number), "", "~") for number in range(count)]


def first_reads(count: int, wanted: int) -> list[RangeRead]:
    return [RangeRead(keys, compute_share(wanted, count)) for keys in ranges(count)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 99), max_size=20, unique=True), min_size=1, max_size=6),
    st.booleans(),
    st.integers(1, 50),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=12),
)
def test_everything_comes_once_and_in_order(
    numbers: list[list[int]], ascending: bool, count: int, filtered: bool, cuts: list[int]
) -> None:
    partitions = [[f"{number:02d}#{index}" for number in partition] for index, partition in enumerate(numbers)]
    table = Table(partitions, ascending=ascending, cuts=cuts)
    wanted = Demand(count, filtered)
    reads = first_reads(len(partitions), wanted.count)
    found: list[str] = []
    for batch in merge_ranges(reads, table.fetch(reads), table.fetch, wanted.choose_due, ascending=ascending):
        found += batch.placed.sks
    everything = sorted((sort_key for partition in partitions for sort_key in partition), reverse=not ascending)
    assert found == everything


def test_a_page_of_a_hundred_over_sixteen_suffixes_reads_little_more_than_a_hundred() -> None:
    chance = random.Random(1)
    reads, rounds = [], []
    for _ in range(50):
        partitions: list[list[str]] = [[] for _ in range(16)]
        for number in range(4000):
            partitions[chance.randrange(16)].append(f"{number:04d}")
        table = Table(partitions, ascending=False)
        wanted = Demand(101, filtered=False)
        first = first_reads(16, wanted.count)
        count = 0
        for further, batch in enumerate(
            merge_ranges(first, table.fetch(first), table.fetch, wanted.choose_due, ascending=False)
        ):
            count += len(batch.placed.sks)
            wanted.count = 101 - count
            if count > 100:
                rounds.append(1 + further)
                break
        reads.append(table.read)
        assert table.requests <= 40
    assert max(reads) < 190
    assert sum(reads) / len(reads) < 160
    assert sum(rounds) / len(rounds) < 5, "ranges that will be used up are read at the same time"


def test_a_single_partition_is_read_to_the_limit_only() -> None:
    assert compute_share(101, 1) == 101
    assert compute_share(1, 16) == 1
    assert compute_share(10_001, 10) < 1_100


def test_a_range_goes_on_behind_what_a_filter_left_out() -> None:
    """A page may be empty although much was read: what was read last is where the range goes on, and how far it is known."""
    keys, other = ranges(2)
    reads = [RangeRead(keys, 10), RangeRead(other, 10)]
    empty = Page(ItemColumns((), (), ()), more=True, last={"pk": "0", "sk": "05"})
    whole = Page(ItemColumns.of([{"pk": "1", "sk": place} for place in ("03", "05", "07")]), more=False)
    fetched: list[Item | None] = []

    def fetch(due: Sequence[RangeRead]) -> list[Page]:
        fetched.extend(entry.keys.start for entry in due)
        return [Page(ItemColumns.of([{"pk": "0", "sk": "06"}]), more=False)]

    merged = merge_ranges(reads, [empty, whole], fetch, Demand(9, filtered=True).choose_due, ascending=True)
    assert [(list(placed.order), edge) for placed, edge in merged] == [
        (["03", "05"], "05"),
        (["06", "07"], None),
    ]
    assert fetched == [{"pk": "0", "sk": "05"}]
