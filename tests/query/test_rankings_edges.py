"""Rankings across kinds, changed indexes and archives: which events are compared, what is read, and what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.stored_events import BY_SERIES, BY_TIME, DAYS, NOW, START, StoredEvents, stream
from tests.worlds.days import Days
from tidetable.config import Stream
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.periods import Kind, find_containing
from tidetable.ports import ArchivePage, ArchiveRange, ArchiveReader
from tidetable.problems import ProblemError
from tidetable.query.rankings import Top, find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
KINDS = """
[[streams.s.index]]
name = "best"
kind = "type"
partition_by = { order = "customer", refund = "order" }
sort_by = "mag"
"""
WHOLE = '\n[[streams.s.index]]\nname = "best"\npartition_by = "*"\nsort_by = "mag"\n'
LOCAL = '\n[[streams.s.index]]\nname = "best"\nlocal = true\nsort_by = "mag"\n'


def ask(policy: Stream, base: StoredEvents, **parameters: str) -> Top:
    query_string = {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()}
    query_string |= {name.replace("_", ":"): [value] for name, value in parameters.items()}
    ranking = parse_ranking(policy, query_string, NOW, SEAL)
    return find_top(ranking, policy, base.reader, NOW, lambda: 100.0)


def scored(day: int, number: int, mag: int, **data: Any) -> Event:
    return Event("a", START + timedelta(days=day, seconds=number), f"{day}-{number}", {"mag": mag, **data})


def ids(top: Top) -> list[str]:
    return [row["id"] for row in top.rows]


def test_a_ranking_of_a_kind_has_events_of_this_kind_and_value_alone() -> None:
    """The first day is archived, and its archive has events of every kind."""
    policy = stream(BY_TIME, KINDS)
    some = [
        event
        for day in (0, 1)
        for event in (
            scored(day, 1, 10 + day, type="order", customer="c", order="c"),
            scored(day, 2, 20 + day, type="refund", customer="c", order="c"),
            scored(day, 3, 30 + day, type="gift", customer="c", order="c"),
            scored(day, 4, 40 + day, type="order", customer="d", order="c"),
            scored(day, 5, 50 + day, customer="c", order="c"),
        )
    ]
    base = StoredEvents(policy, some, [policy.layout] * DAYS)
    assert ids(ask(policy, base, kind="order", value="c")) == ["1-1", "0-1"]
    assert ids(ask(policy, base, kind="refund", value="c")) == ["1-2", "0-2"]
    assert ids(ask(policy, base, kind="order", value="d")) == ["1-4", "0-4"]


@dataclass
class CutArchive:
    """An archive whose answers have space for two events."""

    archive: ArchiveReader

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        page = self.archive.read(keys, limit=limit, ascending=ascending)
        return replace(page, events=page.events[:2], more=False, cut=True) if len(page.events) > 2 else page


@pytest.mark.parametrize(("order", "pages"), [("desc", [[10, 9, 8], [5, 3, 1]]), ("asc", [[1, 3], [5, 8], [9, 10]])])
def test_an_event_is_ranked_when_no_archive_can_have_left_out_a_better_event(
    order: str, pages: list[list[int]]
) -> None:
    policy, days = stream(BY_TIME, WHOLE), Days()
    for day, numbers in ((0, (10, 8, 5)), (1, (9, 3, 1))):
        period = find_containing(START + timedelta(days=day), Kind.DAY)
        days.add_archive(period, policy.layout, [scored(day, number, number) for number in numbers])
    reader = replace(days.reader, archive=CutArchive(days.reader.archive))
    query_string = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=2))], "order": [order]}
    for page in pages:
        top = find_top(parse_ranking(policy, query_string, NOW, SEAL), policy, reader, NOW, lambda: 100.0)
        assert [row["value"] for row in top.rows] == page
        query_string = {"cursor": [top.next or ""]}
    assert top.next is None


@pytest.mark.parametrize(
    ("base", "value"), [(BY_TIME, {}), (BY_SERIES, {"value": "a"})], ids=["of all events", "of a series"]
)
def test_a_ranking_by_a_local_index_has_the_events_of_an_archive(base: str, value: dict[str, str]) -> None:
    """The first day is archived, and its archive has events of every series."""
    policy = stream(base, LOCAL)
    events = [scored(day, number, 10 * number + day) for day in (0, 1) for number in (1, 2)]
    other = Event("b", START, "other", {"mag": 5})
    base_events = StoredEvents(policy, [*events, other], [policy.layout] * DAYS)
    assert ids(ask(policy, base_events, **value)) == ["1-2", "0-2", "1-1", "0-1", *([] if value else ["other"])]


@pytest.mark.parametrize(
    ("present", "former"),
    [
        (stream(BY_TIME, KINDS), stream(BY_TIME, KINDS.replace('order = "customer"', 'order = "buyer"'))),
        (stream(BY_TIME, WHOLE), stream(BY_TIME, WHOLE.replace('"*"', '"type"'))),
        (stream(BY_TIME, WHOLE), stream(BY_TIME, WHOLE.replace('"mag"', '"depth"'))),
        (stream(BY_TIME, LOCAL), stream(BY_TIME, WHOLE)),
        (stream(BY_SERIES, LOCAL), stream(BY_TIME, LOCAL)),
        (stream(BY_TIME, LOCAL), stream(BY_SERIES, LOCAL)),
    ],
    ids=["kinds", "values", "numbers", "not local", "by time", "by series"],
)
def test_a_period_whose_index_has_another_order_is_a_gap(present: Stream, former: Stream) -> None:
    """The second day was made with the former index; the fourth has the present index."""
    some = [scored(day, 1, day, type="order", customer="c", buyer="c", depth=day) for day in (1, 3)]
    base = StoredEvents(present, some, [present.layout, former.layout, *[present.layout] * 3])
    value = {"value": "a"} if present.key.partition_by == "series" else {}
    value |= {"kind": "order", "value": "c"} if present.index[0].kind else {}
    top = ask(present, base, **value)
    assert ids(top) == ["3-1"]
    assert [(gap.start.day, gap.reason) for gap in top.gaps] == [(2, "no index")]


@pytest.mark.parametrize("more", ["shards = 3\n", 'project = "keys"\n', 'project = ["status"]\n'])
def test_a_cursor_goes_on_though_the_index_has_other_fields_or_shards_by_now(more: str) -> None:
    """They do not affect its order. Each period is read by the index that its own table has."""
    before, after = stream(BY_TIME, WHOLE), stream(BY_TIME, WHOLE + more)
    some = [scored(day, number, 10 * number + day, status="x") for day in (1, 3) for number in range(4)]
    base = StoredEvents(before, some, [before.layout] * 3 + [after.layout] * 2)
    first = ask(before, base, limit="3")
    rest = ask(after, base, cursor=first.next or "", limit="9")
    assert ids(first) + ids(rest) == ["3-3", "1-3", "3-2", "1-2", "3-1", "1-1", "3-0", "1-0"]
    assert {row["data"]["status"] for row in (*first.rows, *rest.rows)} == {"x"}


def test_a_later_page_of_a_ranking_shows_no_cold_field_either() -> None:
    policy = stream('cold = ["raw"]\n' + BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(1, n, n, raw="x") for n in range(4)], [policy.layout] * DAYS)
    first = ask(policy, base, limit="2")
    rest = ask(policy, base, cursor=first.next or "", limit="2")
    assert [row["data"] for row in (*first.rows, *rest.rows)] == [{"mag": 3}, {"mag": 2}, {"mag": 1}, {"mag": 0}]


@pytest.mark.parametrize(
    ("conditions", "found", "most"),
    [
        ({"where.mag": "50"}, ["1-50"], 4),
        ({"where.mag_in": "50,52"}, ["1-52", "1-50"], 8),
        ({"where.mag_le": "3", "where.mag_gt": "1"}, ["1-3", "1-2"], 8),
    ],
    ids=str,
)
def test_conditions_on_the_number_bound_what_is_read(conditions: Any, found: list[str], most: int) -> None:
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(1, n, n) for n in range(100)], [policy.layout] * DAYS)
    assert ids(ask(policy, base, **conditions)) == found
    assert base.store.items_read <= most


def test_a_later_page_reads_from_its_number_on() -> None:
    """A page reads six items, and up to a hundred that might tie with its last event."""
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(1, n, n) for n in range(200)], [policy.layout] * DAYS)
    cursor = None
    for page in range(20):
        before = base.store.items_read
        top = ask(policy, base, limit="5", **({} if cursor is None else {"cursor": cursor}))
        assert ids(top) == [f"1-{199 - 5 * page - n}" for n in range(5)]
        assert base.store.items_read - before <= 110
        cursor = top.next


def test_a_ranking_of_an_archive_counts_its_pages_and_the_events_that_were_read() -> None:
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(0, n, n) for n in range(9)], [policy.layout] * DAYS)
    top = ask(policy, base, to="2026-03-02T00:00:00Z")
    assert (len(top.rows), top.cost.requests, top.cost.read, top.cost.units) == (9, 1, 9, 0.0)


def test_a_ranked_event_whose_data_is_damaged_is_incomplete_and_reported() -> None:
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(1, n, n) for n in range(1, 3)], [policy.layout] * DAYS)
    table = base.store.tables["tidetable-t.s.2026-03-02"]
    (key,) = (key for key in table if key.sk.endswith("#1-2"))
    table[key] = {**{name: value for name, value in table[key].items() if name != "data"}, "z": b"damaged"}
    top = ask(policy, base)
    assert [(row["id"], row.get("incomplete")) for row in top.rows] == [("1-2", True), ("1-1", None)]
    assert top.losses == [f"the data of {key.pk}, {key.sk} is damaged"]


@pytest.mark.parametrize("consistent", ["true", "false"])
def test_a_local_ranking_is_read_as_consistently_as_the_query_wants(
    consistent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index, the table for what the index lacks, and the catalog."""
    policy = stream(BY_SERIES, LOCAL + 'project = "keys"\n')
    base = StoredEvents(policy, [scored(1, n, n) for n in range(3)], [policy.layout] * DAYS)
    asked: list[bool] = []
    query_many, get_many, entries = base.store.query_many, base.store.get_many, base.reader.catalog.entries

    def note_query(reads: Any, **options: Any) -> Any:
        asked.append(options["consistent"])
        return query_many(reads, **options)

    def note_get(table: str, keys: Sequence[Key], *, consistent: bool = True) -> Any:
        asked.append(consistent)
        return get_many(table, keys, consistent=consistent)

    def note_entries(*given: Any, consistent: bool = False) -> Any:
        asked.append(consistent)
        return entries(*given, consistent=consistent)

    monkeypatch.setattr(base.store, "query_many", note_query)
    monkeypatch.setattr(base.store, "get_many", note_get)
    monkeypatch.setattr(base.reader.catalog, "entries", note_entries)
    assert ids(ask(policy, base, value="a", consistent=consistent)) == ["1-2", "1-1", "1-0"]
    assert len(asked) >= 3
    assert set(asked) == {consistent == "true"}


def test_a_ranking_whose_cursors_no_request_has_room_for_is_refused() -> None:
    """A cursor holds the index with its kinds, beside the value, the fields and the conditions of the ranking."""
    kinds = ", ".join(f'k{"x" * 40}{number:02d} = "f{"x" * 40}{number:02d}"' for number in range(30))
    policy = stream(BY_TIME, KINDS.replace('order = "customer", refund = "order"', kinds))
    kind = f"k{'x' * 40}00"
    parameters = {"kind": [kind], "value": ["v" * 1_000], "fields": ["f" * 1_000]}
    parse_ranking(policy, parameters, NOW, SEAL)
    with pytest.raises(ProblemError, match=r"400 bad_parameter: .*bytes too long for one query"):
        parse_ranking(policy, parameters | {"where.a": ["x" * 1_000], "where.b": ["x" * 1_000]}, NOW, SEAL)


def test_a_ranking_that_is_cut_goes_on_after_its_last_event() -> None:
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(1, n, n) for n in range(5)], [policy.layout] * DAYS)
    whole = ask(policy, base)
    assert (ids(whole), whole.next) == (["1-4", "1-3", "1-2", "1-1", "1-0"], None)
    cut = whole.cut_to(3)
    assert cut is not None
    assert (ids(cut), cut.extras["tied"]) == (["1-4", "1-3", "1-2"], False)
    assert cut.next is not None
    assert ids(ask(policy, base, cursor=cut.next)) == ["1-1", "1-0"]
    again = cut.cut_to(1)
    assert again is not None
    assert again.next is not None
    assert ids(ask(policy, base, cursor=again.next)) == ["1-3", "1-2", "1-1", "1-0"]
    assert whole.cut_to(0) is None
    assert ask(policy, base, fields="*,mag").columns == ["rank", "value", "series", "time", "id", "data.mag", "ref"]


@pytest.mark.parametrize(("limit", "more"), [("3", True), ("4", False), ("5", False)])
@pytest.mark.parametrize("day", [0, 1], ids=["archive", "table"])
def test_only_a_page_that_events_may_follow_has_a_cursor(day: int, limit: str, more: bool) -> None:
    policy = stream(BY_TIME, WHOLE)
    base = StoredEvents(policy, [scored(day, n, n) for n in range(4)], [policy.layout] * DAYS)
    top = ask(policy, base, limit=limit)
    assert (len(top.rows), top.next is not None) == (min(int(limit), 4), more)
