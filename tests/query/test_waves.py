"""Pages of many ranges whose items are decoded: they are read some at a time, and compared with the memory."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, StoredEvents, stream
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

# The first day is an archive.
LIVE = START + timedelta(days=1)
DAY = {"from": [to_text(LIVE)], "to": [to_text(LIVE + timedelta(days=1))], "order": ["asc"]}
POLICY = stream('key = { partition_by = "series", shards = 4 }', "")
NAMES = [f"s{n:02}" for n in range(100)]


def make_base(characters: int) -> tuple[StoredEvents, list[int]]:
    """Eight events of each of a hundred series, and the numbers of the ranges that are read together."""
    events = [
        Event(name, LIVE + timedelta(minutes=n), f"e{n}", {"text": "x" * characters, "n": n})
        for name in NAMES
        for n in range(8)
    ]
    base, counts = StoredEvents(POLICY, events, [POLICY.layout] * DAYS), list[int]()
    query_many = base.store.query_many

    def count_ranges(reads: Any, **options: Any) -> Any:
        counts.append(len(reads))
        return [_count_units(page, characters, **options) for page in query_many(reads, **options)]

    base.store.query_many = count_ranges  # type: ignore[method-assign]
    return base, counts


def _count_units(
    page: Any, characters: int, *, consistent: bool, fields: Any = (), texts: bool = False, **_: Any
) -> Any:
    """AWS: half a unit per 4 KB of an eventually consistent read, a unit of a consistent one."""
    if texts or fields:
        return page
    # Items that a filter leaves out are read, too.
    size = page.read * characters
    return replace(page, units=-(-size // 4096) * (1.0 if consistent else 0.5))


def ask(base: StoredEvents, names: list[str], **parameters: str) -> Any:
    values = DAY | {"series": names} | {name: [value] for name, value in parameters.items()}
    return run_query(parse_query(POLICY, values, NOW, SEAL), POLICY, base.reader, NOW, lambda: 100.0)


def test_items_that_do_not_fit_into_memory_are_refused_before_all_are_read() -> None:
    """400 ranges hold 800 events of 100 KB, 80 MB; 40 MB are compared."""
    base, counts = make_base(100_000)
    with pytest.raises(
        ProblemError, match="422 too_much: the 400 key ranges of these series and shards hold more than"
    ):
        ask(base, NAMES, fields="n", limit="10000")
    assert set(counts) == {48}
    assert 4 < len(counts) < 7
    # The ways out that the refusal names.
    assert ask(base, NAMES[:40], fields="n", limit="10000").count == 320
    assert ask(base, NAMES, limit="10000").count > 0


def test_a_consistent_read_has_twice_the_units_for_the_same_bytes() -> None:
    base, _ = make_base(45_000)
    assert ask(base, NAMES, fields="n", limit="10000", consistent="true").count == 800


def test_small_items_of_many_ranges_are_read_in_waves() -> None:
    base, counts = make_base(10)
    assert ask(base, NAMES, fields="n", limit="10000").count == 800
    assert counts[:9] == [48] * 8 + [16]


def test_texts_and_needed_fields_of_few_ranges_are_one_wave() -> None:
    """192 ranges of 1 MB fit into memory, whatever they hold."""
    base, counts = make_base(100_000)
    assert ask(base, NAMES[:48], limit="10").count == 10
    assert counts[0] == 192
    assert ask(base, NAMES[:49], limit="10").count == 10
    assert counts[-3:] == [96, 96, 4]


def test_needed_fields_of_many_ranges_are_all_counted() -> None:
    base, _ = make_base(100_000)
    values = {name: value for name, value in DAY.items() if name != "order"} | {
        "series": NAMES,
        "stat": ["sum"],
        "field": ["n"],
    }
    found = find_aggregate(parse_aggregation(POLICY, values, NOW, SEAL), POLICY, base.reader, NOW, lambda: 100.0)
    assert found.rows[0]["sum"] == 100 * 28


def test_items_that_a_filter_leaves_out_are_not_in_memory() -> None:
    """The condition holds for one event of each series: 100 items of 100 KB are 10 MB, of 80 MB that are read."""
    base, _ = make_base(100_000)
    assert ask(base, NAMES, fields="n", limit="10000", **{"where.n": "3"}).count == 100
