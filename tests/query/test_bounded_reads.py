"""How much a page reads at once: no more than it may need, and no more than a request has room for."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, StoredEvents, stream
from tests.worlds.days import Days
from tidetable.catalog import Entry, State
from tidetable.events import Event
from tidetable.layout import Index, Key, Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import KeyRange
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.gather import Nearest
from tidetable.query.index_scans import GatherScan
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}
KEYS = '\n[[streams.s.index]]\nname = "by_kind"\npartition_by = "kind"\nshards = 4\nproject = "keys"\n'


def test_what_an_index_lacks_is_fetched_for_the_events_of_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four suffixes has ten events of the kind, of which four are read; a page looks for one more than it shows."""
    policy = stream(BY_TIME, KEYS)
    some = [Event("a", START + timedelta(days=1, minutes=n), f"e{n}", {"kind": "x", "n": n}) for n in range(40)]
    base = StoredEvents(policy, some, [policy.layout] * DAYS)
    fetched: list[int] = []
    get_many = base.store.get_many

    def count_keys(table: str, keys: Sequence[Key], **options: Any) -> Any:
        fetched.append(len(keys))
        return get_many(table, keys, **options)

    monkeypatch.setattr(base.store, "get_many", count_keys)
    day = {"from": [to_text(START + timedelta(days=1))], "to": [to_text(START + timedelta(days=2))]}
    query = parse_query(policy, day | {"where.kind": ["x"], "limit": ["2"]}, NOW, SEAL)
    answer = run_query(query, policy, base.reader, NOW, lambda: 100.0)
    assert [event["id"] for event in answer.document()["events"]] == ["e39", "e38"]
    assert sum(fetched) <= 3


def test_tables_of_many_ranges_are_begun_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred series of six suffixes each are 600 ranges of every day, and more than 512 are not begun together."""
    policy = stream('key = { partition_by = "series", shards = 6 }', "")
    base = StoredEvents(policy, [], [policy.layout] * DAYS)
    begun: list[int] = []
    query_many = base.store.query_many

    def count_ranges(reads: Sequence[Any], **options: Any) -> Any:
        begun.append(len(reads))
        return query_many(reads, **options)

    monkeypatch.setattr(base.store, "query_many", count_ranges)
    query = parse_query(policy, SPAN | {"series": [f"s{n}" for n in range(100)], "order": ["asc"]}, NOW, SEAL)
    answer = run_query(query, policy, base.reader, NOW, lambda: 100.0)
    # Two of the five days are in archives. Of many ranges, 96 are read at once.
    assert (answer.count, begun) == (0, 3 * [96, 96, 96, 96, 96, 96, 24])


def test_an_archive_is_asked_for_a_page_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of an archive is a function that is called."""
    policy = stream(BY_TIME, "")
    base = StoredEvents(policy, [Event("a", START, "1", {"n": 1})], [policy.layout] * DAYS)
    asked: list[int] = []
    read = base.reader.archive.read

    def note_limit(keys: Any, *, limit: int, ascending: bool) -> Any:
        asked.append(limit)
        return read(keys, limit=limit, ascending=ascending)

    monkeypatch.setattr(base.reader.archive, "read", note_limit)
    parameters = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=1))], "limit": ["7"]}
    run_query(parse_query(policy, parameters, NOW, SEAL), policy, base.reader, NOW, lambda: 100.0)
    assert set(asked) == {8}


def test_one_table_is_begun_then_two_then_four_and_never_more_than_eight_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long empty range takes few steps, and a full page of the first table reads no other."""
    days, layout = Days(), Layout("time", 1, "id", 3_600)
    for hour in range(30):
        days.add_table(find_containing(START + timedelta(hours=hour), Kind.HOUR), layout, ())
    begun: list[int] = []
    query_many = days.store.query_many

    def count_ranges(reads: Sequence[Any], **options: Any) -> Any:
        begun.append(len(reads))
        return query_many(reads, **options)

    monkeypatch.setattr(days.store, "query_many", count_ranges)
    policy = stream(BY_TIME, "")
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(hours=30))]}
    answer = run_query(parse_query(policy, span, NOW, SEAL), policy, days.reader, NOW, lambda: 100.0)
    assert (answer.count, begun) == (0, [1, 2, 4, 8, 8, 7])


def test_a_gathered_range_is_read_in_whole_pages_and_kept_up_to_16_mb() -> None:
    """AWS: a page ends at 1 MB, whatever its limit. As objects of Python, items take several times their bytes."""
    keys = KeyRange("t", "", None, None)
    own = Index("near", local=True, levels=("state",))
    entry = Entry("s", find_containing(START, Kind.DAY), "t", Layout("time", 2, "id", 86_400), State.OPEN, START)
    scan = GatherScan(
        entry=entry,
        start=START,
        end=START + timedelta(days=1),
        keys=keys,
        partitions=["p"],
        suffixes=[0, 1],
        index=own,
        heads=["CA\x01"],
        first="",
        last="~",
        after=None,
    )
    assert [(read.keys.pk, read.keys.prefix, read.limit) for read in scan.make_first_reads(1)] == [
        ("p#0", "CA\x01", 10_000),
        ("p#1", "CA\x01", 10_000),
    ]
    text = "x" * 1024 * 1024
    for count, kept in ((15, 15), (16, 15), (40, 15)):
        nearest = Nearest(ascending=True)
        for number in range(count):
            nearest.add(("p", f"{number:02d}", {"data": {"x": text}}, f"{number:02d}"))
        assert ([place for *_, place in nearest.list_entries()], nearest.cut) == (
            [f"{number:02d}" for number in range(kept)],
            kept < count,
        )


def test_an_aggregate_counts_each_archived_event_of_one_time_once() -> None:
    """A page of an archive ends among the events of one time: the next goes on after those that were read."""
    policy = stream(BY_TIME, "")
    events = [Event(f"s{number}", START, f"{number}", {"n": number}) for number in range(20)]
    base = StoredEvents(policy, events, [policy.layout] * DAYS)
    parameters = {
        "from": [to_text(START)],
        "to": [to_text(START + timedelta(days=1))],
        "stat": ["count,sum"],
        "field": ["n"],
    }
    query = parse_aggregation(policy, parameters, NOW, SEAL)
    answer = find_aggregate(query, policy, base.reader, NOW, lambda: 100.0)
    assert [(row["count"], row["sum"]) for row in answer.rows] == [(20, 190)]
    assert answer.cost.requests == 3
