"""The contract of the rollups' table, on the fake and on every engine that speaks HTTP."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from aws.dynamodb.rollups import LeanRollups
from aws.http.client import LeanClient, ServiceRequest
from aws.http.credentials import Provider
from local.emulator import REGION
from local.stack import make_aws_client
from strict import SystemClock
from tests.contract.conftest import CLOCK, KEYS, LEAN, share_client
from tests.contract.engines import TAGS, Racing, _numbers, real
from tests.fakes import FakeCatalog, FakeStore
from tests.fakes.rollups import FakeRollups
from tidetable.config import TableClass
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.ports import (
    Edge,
    EventStore,
    Guarded,
    LastPeriods,
    Mark,
    NotePage,
    Noting,
    Rollups,
    RollupState,
    TableSpec,
    Transacted,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOTHING = RollupState([], [], [], None, [], [])


def lean_of(endpoint: str) -> LeanClient:
    return LeanClient(endpoint, REGION, Provider(KEYS, SystemClock().now, lambda *_: b"").get)


class State(NamedTuple):
    """The state of rollups, and a store whose transactions reach its table."""

    rollups: Rollups
    store: EventStore


@pytest.fixture(params=["fake", *LEAN])
def state_and_store(request: pytest.FixtureRequest) -> State:
    if request.param == "fake":
        store = FakeStore(FakeCatalog())
        return State(FakeRollups(store), store)
    endpoint = request.getfixturevalue(request.param.removeprefix("lean ").replace(" ", "_"))
    client: Any = Racing(share_client(endpoint))
    engine = real(client, CLOCK, lean=lean_of(endpoint))
    # The table has the keys of the stack's table: a partition key and a sort key, both texts.
    name = f"rollups-{next(_numbers)}"
    assert engine.tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    return State(LeanRollups(lean_of(endpoint), name), engine.store)


@pytest.fixture
def rollups(state_and_store: State) -> Rollups:
    return state_and_store.rollups


def edge(
    start: datetime = NOON, sealed: datetime = NOON, rollup: str = "hours", definition: str = '{"every":60}'
) -> Edge:
    return Edge(rollup, start, sealed, definition)


def test_a_stream_without_rollups_has_no_state(rollups: Rollups) -> None:
    assert rollups.read_state("s") == NOTHING


def test_the_cells_of_a_part_are_those_of_one_generation(rollups: Rollups) -> None:
    first, second = ["a" * 100_000, "b" * 100_000, "c" * 100_000, "d" * 50_000], ["e"]
    rollups.put_part("s#m#0", 1, first)
    rollups.put_part("s#m#0", 10, second)
    rollups.put_part("s#m#1", 1, ["other"])
    assert rollups.read_part("s#m#0", 1) == first
    assert rollups.read_part("s#m#0", 10) == ["e"]
    assert rollups.read_state("s") == rollups.read_at_once("s") == NOTHING
    rollups.clear_part("s#m#0")
    rollups.clear_part("s#m#0")
    assert rollups.read_part("s#m#1", 1) == ["other"]


def test_everything_of_a_stream_is_answered_at_once_and_nothing_of_another(rollups: Rollups) -> None:
    late = edge(NOON, NOON + HOUR, "a-name_1")
    early = edge(NOON - HOUR, NOON, "hours", '{"by":["place.state","série#"]}')
    for each in (late, early):
        assert rollups.put_edge("s", each, None)
    rollups.put_marks("s", [NOON + HOUR, NOON], 7, HOUR)
    rollups.put_over("s", "hours", NOON, 10_001)
    rollups.put_marks("s2", [NOON], 9, HOUR)
    assert rollups.put_edge("s2", edge(), None)
    state = rollups.read_state("s")
    assert list(state.edges) == [early, late]
    assert list(state.marks) == [Mark(NOON, 7, HOUR, 7), Mark(NOON + HOUR, 7, HOUR, 7)]
    assert list(state.over) == [("hours", NOON)]


def test_a_mark_keeps_its_first_and_its_greatest_instant(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON, NOON + HOUR], 10, HOUR)
    rollups.put_marks("s", [NOON, NOON + HOUR, NOON + 2 * HOUR], 9, HOUR)
    rollups.put_marks("s", [NOON], 11, HOUR)
    rollups.put_marks("s", [], 99, HOUR)
    assert list(rollups.read_state("s").marks) == [
        Mark(NOON, 11, HOUR, since=10),
        Mark(NOON + HOUR, 10, HOUR, since=10),
        Mark(NOON + 2 * HOUR, 9, HOUR, since=9),
    ]


def test_the_mark_of_a_new_event_is_put_and_changed_by_transactions(state_and_store: State) -> None:
    rollups, store = state_and_store
    new = Mark(NOON, 10, HOUR, since=10, event=("quakes.2026-03-01", "p#1", "2026-03-01T12:30#a#é"))
    other = new._replace(event=("quakes.2026-03-01", "p#1", "2026-03-01T12:31#a#é"))
    for mark in (new, other):
        assert store.transact([Guarded(rollups.make_mark("s", mark), "absent")]) is Transacted.DONE
    rollups.put_marks("s", [NOON], 10, HOUR)
    usual = Mark(NOON, 10, HOUR, since=10)
    assert list(rollups.read_state("s").marks) == [usual, new, other]
    assert list(rollups.read_at_once("s").marks) == [usual, new, other]
    assert list(rollups.read_marks("s", (NOON + HOUR / 2, NOON + HOUR))) == [usual, new, other]
    assert list(rollups.read_marks("s", (NOON + HOUR, NOON + 2 * HOUR))) == []
    added = new._replace(is_added=True)
    for outcome in (Transacted.DONE, Transacted.CONFLICT):
        assert store.transact([Guarded(rollups.make_mark("s", added), 1)]) is outcome
    assert list(rollups.read_marks("s", (NOON, NOON + HOUR))) == [usual, added, other]
    assert rollups.clear_mark("s", added)
    assert not rollups.clear_mark("s", added)
    assert store.transact([Guarded(rollups.make_mark("s", added), 1)]) is Transacted.CONFLICT
    assert list(rollups.read_state("s").marks) == [usual, other]


def test_a_mark_is_cleared_only_if_nobody_has_put_it_again(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON], 10, HOUR)
    seen = rollups.read_state("s").marks[0]
    rollups.put_marks("s", [NOON], 11, HOUR)
    assert not rollups.clear_mark("s", seen)
    assert list(rollups.read_state("s").marks) == [Mark(NOON, 11, HOUR, since=10)]
    assert rollups.clear_mark("s", Mark(NOON, 11, HOUR))
    assert not rollups.clear_mark("s", Mark(NOON, 11, HOUR))
    assert rollups.read_state("s") == NOTHING


def test_a_mark_rests_when_its_bucket_was_computed_anew_and_begins_anew_with_the_next_writer(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON], 10, HOUR)
    seen = rollups.read_state("s").marks[0]
    assert rollups.note_resealed("s", seen, 400, rests=False)
    assert list(rollups.read_state("s").marks) == [Mark(NOON, 10, HOUR, 10, resealed=400, pauses=1)]
    rollups.put_marks("s", [NOON], 500, HOUR)
    (again,) = rollups.read_state("s").marks
    assert again == Mark(NOON, 500, HOUR, 10, resealed=400, pauses=1)
    assert not rollups.note_resealed("s", seen, 600, rests=True), "a writer has put it again meanwhile"
    assert list(rollups.read_state("s").marks) == [again]
    assert rollups.note_resealed("s", again, 700, rests=True)
    state = rollups.read_state("s")
    (rested,) = state.rested
    assert (list(state.marks), list(state.lost)) == ([], [])
    assert (rested.bucket, rested.length, rested.resealed, rested.pauses) == (NOON, HOUR, 700, 2)
    assert not rollups.note_resealed("s", again, 800, rests=False), "it does not count any more"
    # The writer's clock may be before the refresher's.
    rollups.put_marks("s", [NOON], 650, HOUR)
    state = rollups.read_state("s", (NOON, NOON + HOUR))
    assert list(state.marks) == [Mark(NOON, 650, HOUR, 650, resealed=700, pauses=2)]
    assert not rollups.clear_mark("s", rested), "a writer has put it again meanwhile"


def test_a_rested_mark_is_removed(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON], 10, HOUR)
    assert rollups.note_resealed("s", rollups.read_state("s").marks[0], 400, rests=True)
    assert rollups.clear_mark("s", rollups.read_state("s").rested[0])
    assert rollups.read_state("s") == NOTHING


def test_a_mark_whose_events_are_lost_stays_until_its_bucket_is_computed_anew(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON, NOON + HOUR], 10, HOUR)
    first, second = rollups.read_state("s").marks
    rollups.put_marks("s", [NOON], 11, HOUR)
    assert not rollups.note_lost("s", first), "a writer has put it again meanwhile"
    assert rollups.note_lost("s", second)
    state = rollups.read_state("s", (NOON, NOON + 2 * HOUR))
    assert [mark.bucket for mark in state.marks] == [NOON]
    assert [(mark.bucket, mark.length, mark.lost) for mark in state.lost] == [(NOON + HOUR, HOUR, True)]
    assert list(state.rested) == []
    # A rebuild marks the bucket when its archive is restored.
    rollups.put_marks("s", [NOON + HOUR], 20, HOUR)
    state = rollups.read_state("s")
    assert list(state.lost) == []
    assert state.marks[1] == Mark(NOON + HOUR, 20, HOUR, since=20)
    assert rollups.note_resealed("s", state.marks[1], 30, rests=True)
    state = rollups.read_state("s")
    assert (len(state.rested), list(state.lost)) == (1, [])


def test_many_marks_are_all_put_and_all_read(rollups: Rollups) -> None:
    buckets = [NOON + number * HOUR for number in range(300)]
    rollups.put_marks("s", buckets, 1_772_366_400_000, HOUR)
    assert [mark.bucket for mark in rollups.read_state("s").marks] == buckets


def test_a_span_has_the_marks_that_meet_it_the_notes_that_begin_in_it_and_every_edge(rollups: Rollups) -> None:
    day, minute = timedelta(days=1), timedelta(minutes=1)
    midnight = NOON - 12 * HOUR
    rollups.put_marks("s", [NOON - HOUR, NOON, NOON + HOUR, NOON + 2 * HOUR], 7, HOUR)
    rollups.put_marks("s", [midnight - day, midnight, midnight + day], 8, day)
    rollups.put_marks("s", [NOON - minute, NOON + 2 * HOUR - minute, NOON + 2 * HOUR], 9, minute)
    for hours in (-1, 0, 1, 2):
        rollups.put_over("s", "hours", NOON + hours * HOUR, 10_001)
    rollups.put_over("s", "a-first", NOON + HOUR, 10_001)
    edges = [edge(NOON - 2 * day, NOON - day), edge(NOON + day, NOON + 2 * day)]
    for each in edges:
        rollups.put_edge("s", each, None)
    state = rollups.read_state("s", (NOON, NOON + 2 * HOUR))
    assert list(state.edges) == edges
    assert list(state.marks) == [
        Mark(midnight, 8, day, 8),
        Mark(NOON, 7, HOUR, 7),
        Mark(NOON + HOUR, 7, HOUR, 7),
        Mark(NOON + 2 * HOUR - minute, 9, minute, 9),
    ]
    assert list(state.over) == [("a-first", NOON + HOUR), ("hours", NOON), ("hours", NOON + HOUR)]
    assert [mark.bucket for mark in rollups.read_state("s", (midnight + day - minute, midnight + day)).marks] == [
        midnight
    ]
    whole = rollups.read_state("s", (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)))
    assert whole._replace(over=sorted(whole.over)) == rollups.read_state("s")._replace(over=sorted(whole.over))
    assert (len(whole.marks), len(whole.over)) == (10, 5)


def test_a_query_pays_for_the_marks_of_its_range_alone(local: str) -> None:
    """A backfill has left 2,000 marks of a minute each: 33 hours. DynamoDB Local counts units as the service does."""
    client: Any = make_aws_client(local, "dynamodb")
    engine, lean = real(client, CLOCK, lean=lean_of(local)), Watched(lean_of(local))
    name = f"rollups-{next(_numbers)}"
    assert engine.tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    rollups = LeanRollups(lean, name)  # type: ignore[arg-type]
    minute = timedelta(minutes=1)
    rollups.put_marks("s", [NOON + number * minute for number in range(2_000)], 1_772_366_412_345, minute)
    end = NOON + 2_000 * minute

    rollups.put_edge("s", edge(), None)

    def read(span: tuple[datetime, datetime] | None) -> tuple[int, float]:
        lean.bodies.clear()
        marks = len(rollups.read_state("s", span).marks)
        answers = [client.query(**body, ReturnConsumedCapacity="TOTAL") for body in lean.bodies]
        return marks, sum(answer["ConsumedCapacity"]["CapacityUnits"] for answer in answers)

    # A mark has 3 + 37 + 10 + 13 = 63 bytes: pk, sk, at and since, each with its value. The edge costs one more unit,
    # and a query that finds nothing costs one, too.
    assert read(None) == (2_000, 32.0)
    assert read((end - HOUR, end)) == (60, 2.0)
    assert read((end, end + HOUR)) == (0, 2.0)
    # A past range also reads the marks of the day after it: 25 hours of 60 marks each.
    assert read((NOON + HOUR, NOON + 2 * HOUR)) == (60, 25.0)


class Watched:
    """A client that records the bodies of its queries."""

    def __init__(self, inner: LeanClient) -> None:
        self._inner = inner
        self.bodies: list[dict[str, Any]] = []

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> Any:
        self.bodies += [json.loads(request.body) for request in requests if request.operation == "Query"]
        return self._inner.call_all(requests, insist=insist)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_an_edge_is_put_once_and_moves_only_from_where_it_is_thought_to_be(rollups: Rollups) -> None:
    first, moved, further = edge(), edge(sealed=NOON + HOUR), edge(sealed=NOON + 2 * HOUR)
    assert not rollups.put_edge("s", moved, first)
    assert rollups.put_edge("s", first, None)
    assert not rollups.put_edge("s", first, None)
    assert rollups.put_edge("s", moved, first)
    assert not rollups.put_edge("s", further, first)
    assert not rollups.put_edge("s", further, edge(sealed=NOON + HOUR, definition="another"))
    assert list(rollups.read_state("s").edges) == [moved]


def test_the_start_of_an_edge_moves_backwards_in_one_step(rollups: Rollups) -> None:
    first, earlier = edge(sealed=NOON + HOUR), edge(NOON - HOUR, NOON + HOUR)
    rollups.put_edge("s", first, None)
    assert not rollups.put_edge("s", earlier, edge(sealed=NOON + 2 * HOUR))
    assert list(rollups.read_state("s").edges) == [first]
    assert rollups.put_edge("s", earlier, first)
    assert not rollups.put_edge("s", earlier, first)
    assert list(rollups.read_state("s").edges) == [earlier]


def test_the_start_of_an_edge_does_not_move_onto_another_edge(rollups: Rollups) -> None:
    old, new = edge(NOON - HOUR, NOON, definition="old"), edge(sealed=NOON + HOUR)
    rollups.put_edge("s", old, None)
    rollups.put_edge("s", new, None)
    assert not rollups.put_edge("s", edge(NOON - HOUR, NOON + HOUR), new)
    assert list(rollups.read_state("s").edges) == [old, new]


def test_an_overfull_bucket_is_noted_and_forgotten_as_often_as_it_comes(rollups: Rollups) -> None:
    rollups.put_over("s", "hours", NOON, 10_001)
    rollups.put_over("s", "hours", NOON, 10_002)
    rollups.put_over("s", "days", NOON, 10_003)
    assert sorted(rollups.read_state("s").over) == [("days", NOON), ("hours", NOON)]
    rollups.clear_over("s", "hours", NOON)
    rollups.clear_over("s", "hours", NOON)
    assert list(rollups.read_state("s").over) == [("days", NOON)]


def test_a_rollup_is_forgotten_and_nothing_else(rollups: Rollups) -> None:
    first, second, other = edge(NOON - HOUR, NOON), edge(), edge(rollup="days")
    for each in (first, second, other):
        rollups.put_edge("s", each, None)
    rollups.put_edge("s2", first, None)
    rollups.put_marks("s", [NOON], 7, HOUR)
    rollups.put_over("s", "hours", NOON, 10_001)
    rollups.put_over("s", "days", NOON, 10_001)
    rollups.forget("s", "hours")
    rollups.forget("s", "hours")
    assert rollups.read_state("s") == RollupState([other], [Mark(NOON, 7, HOUR, 7)], [("days", NOON)], None, [], [])
    assert list(rollups.read_state("s2").edges) == [first]


def test_notes_are_read_by_period_in_order_and_are_no_part_of_the_state(rollups: Rollups) -> None:
    long = "x" * 480
    rollups.put_notes("s", "2026-03-01", [NotePage(3, 0, ["b", "a#1"]), NotePage(20, 7, ["ä", long])], 7)
    rollups.put_notes("s", "2026-03-01", [NotePage(3, 0, ["a", "b"]), NotePage(3, None, ["!"])], 9)
    rollups.put_notes("s", "2026-03-02", [NotePage(3, 0, ["c"])], 7)
    rollups.put_notes("s2", "2026-03-01", [NotePage(3, 0, ["d"])], 7)
    rollups.put_notes("s", "2026-03-03", [], 7)
    for consistent in (True, False):
        noted = rollups.read_notes("s", "2026-03-01", consistent=consistent)
        assert list(noted.series) == ["!", "a", "a#1", "b", long, "ä"]
        assert noted.units > 0
    assert list(rollups.read_notes("s", "2026-03-03", consistent=True).series) == []
    assert rollups.read_state("s") == NOTHING


def test_chains_are_read_from_a_page_on_in_order(rollups: Rollups) -> None:
    for chain, number, at in ((3, 10, 5), (3, 9, 6), (3, 8, 7), (19, 0, 8), (4, 0, 9)):
        rollups.put_notes("s", "2026-03-01", [NotePage(chain, number, [f"{chain}.{number}", f"{chain}"])], at)
    # A series alone on its page is in no chain.
    rollups.put_notes("s", "2026-03-01", [NotePage(3, None, ["03#000009"]), NotePage(3, None, ["z"])], 9)
    pages = [
        page._replace(series=sorted(page.series))
        for page in rollups.read_chains("s", "2026-03-01", {3: 9, 19: 0, 5: 0})
    ]
    assert [page for page in pages if page.chain == 3] == [
        NotePage(3, 9, ["3", "3.9"], 6),
        NotePage(3, 10, ["3", "3.10"], 5),
    ]
    assert [page for page in pages if page.chain != 3] == [NotePage(19, 0, ["19", "19.0"], 8)]


def test_many_notes_are_all_put_and_all_read(rollups: Rollups) -> None:
    names = [f"device-{number:05d}" for number in range(2_000)]
    pages = [NotePage(number % 64, number // 640, names[number::100]) for number in range(100)]
    rollups.put_notes("s", "2026-03-01", pages, 1_772_366_400_000)
    assert list(rollups.read_notes("s", "2026-03-01", consistent=True).series) == names


def test_notes_are_removed_that_were_put_before_an_instant_so_many_at_a_time(rollups: Rollups) -> None:
    rollups.put_notes("s", "2026-03-01", [NotePage(1, number, [name]) for number, name in enumerate("abcd")], 7)
    rollups.put_notes("s", "2026-03-01", [NotePage(1, None, ["e"])], 7)
    # The whole page stays.
    rollups.put_notes("s", "2026-03-01", [NotePage(1, 3, ["f"])], 8)
    rollups.put_notes("s", "2026-03-02", [NotePage(1, 0, ["a"])], 7)
    counts = [rollups.clear_notes("s", "2026-03-01", 8, 3) for _ in range(3)]
    assert (counts, list(rollups.read_notes("s", "2026-03-01", consistent=True).series)) == ([3, 1, 0], ["d", "f"])
    assert list(rollups.read_notes("s", "2026-03-02", consistent=True).series) == ["a"]


def test_since_when_series_are_noted_is_said_once_and_changed_only_as_expected(rollups: Rollups) -> None:
    first, moved = Noting(NOON, NOON - HOUR), Noting(NOON, NOON)
    assert rollups.put_noting("s", first, None)
    assert not rollups.put_noting("s", moved, None)
    assert not rollups.put_noting("s", moved, moved)
    assert rollups.read_state("s") == NOTHING._replace(noting=first)
    assert rollups.put_noting("s", moved, first)
    rollups.stop_noting("s", NOON + HOUR)
    stopped = Noting(NOON + HOUR, NOON + HOUR, stopped=True)
    assert rollups.read_state("s").noting == stopped
    assert not rollups.put_noting("s", first, moved)
    assert rollups.put_noting("s", first, stopped)
    assert rollups.read_state("s2") == NOTHING


def test_the_record_of_last_periods_is_replaced_only_as_expected(rollups: Rollups) -> None:
    covered = ((NOON - 9 * HOUR, NOON - 5 * HOUR), (NOON - 2 * HOUR, NOON))
    first = LastPeriods((), NOON - HOUR, NOON, 1)
    second = LastPeriods(covered, NOON - HOUR, NOON + HOUR, 2, 7, 1, 3, 1_000, NOON + 2 * HOUR)
    assert rollups.put_last("s", first, None)
    assert not rollups.put_last("s", second, None)
    assert not rollups.put_last("s", second, second)
    assert rollups.read_at_once("s").last == first
    assert rollups.put_last("s", second, first)
    assert not rollups.put_last("s", first, first)
    assert rollups.put_edge("s", edge(), None)
    rollups.put_marks("s", [NOON], 5, HOUR)
    assert rollups.put_noting("s", Noting(NOON - HOUR, NOON), None)
    state = rollups.read_at_once("s")
    assert (state.last, list(state.edges), len(state.marks)) == (second, [edge()], 1)
    known = rollups.read_last("s")
    assert known is not None
    assert (known.last, known.noted_since, list(known.marks)) == (second, NOON - HOUR, list(state.marks))
    assert rollups.read_last("s2") == NOTHING
    assert rollups.read_state("s").last is None


def test_slots_are_read_of_one_generation(rollups: Rollups) -> None:
    contents = [b"\x00\xff", b"", b"three"]
    record = LastPeriods((), NOON, NOON, 4, 4, 1, 5)
    rollups.put_slots("s", record, 0, contents[:2])
    rollups.put_slots("s", record, 2, contents[2:])
    rollups.put_slots("s", record._replace(side=0, generation=3), 0, [b"other"])
    assert rollups.read_slots("s", record, [2, 0, 1]) == [b"three", b"\x00\xff", b""]
    assert rollups.read_slots("s", record._replace(side=0, generation=3), [0]) == [b"other"]
    assert rollups.read_slots("s", record, [0, 3]) is None
    assert rollups.read_slots("s2", record, [0]) is None
    rollups.put_slots("s", record._replace(generation=6), 1, [b"new"])
    assert rollups.read_slots("s", record, [0, 1]) is None
    assert rollups.read_slots("s", record, [0]) == [b"\x00\xff"]


def test_last_periods_are_not_read_beside_too_many_marks(rollups: Rollups) -> None:
    rollups.put_marks("s", [NOON + number * timedelta(minutes=1) for number in range(1_001)], 5, HOUR / 60)
    assert rollups.read_last("s") is None


@pytest.mark.parametrize("server", ["emulator", "strict_local"])
def test_a_table_that_is_missing_raises(server: str, request: pytest.FixtureRequest) -> None:
    missing = LeanRollups(lean_of(request.getfixturevalue(server)), "no-such-table")
    for call in (
        lambda: missing.read_state("s"),
        lambda: missing.put_marks("s", [NOON], 1, HOUR),
        lambda: missing.clear_mark("s", Mark(NOON, 1, HOUR)),
        lambda: missing.put_edge("s", edge(), None),
        lambda: missing.put_over("s", "hours", NOON, 1),
        lambda: missing.put_notes("s", "2026-03-01", [NotePage(0, 0, ["a"])], 1),
        lambda: list(missing.read_chains("s", "2026-03-01", {0: 0})),
        lambda: missing.read_notes("s", "2026-03-01", consistent=True),
        lambda: missing.clear_notes("s", "2026-03-01", 1, 1),
        lambda: missing.put_noting("s", Noting(NOON, NOON), None),
        lambda: missing.read_last("s"),
        lambda: missing.put_last("s", LastPeriods((), NOON, NOON), None),
        lambda: missing.put_slots("s", LastPeriods((), NOON, NOON), 0, [b""]),
        lambda: missing.read_slots("s", LastPeriods((), NOON, NOON), [0]),
    ):
        with pytest.raises(TableMissing):
            call()


def test_a_change_without_an_answer_raises() -> None:
    silent = LeanRollups(lean_of("http://127.0.0.1:9"), "rollups")
    for call in (
        lambda: silent.read_state("s"),
        lambda: silent.put_marks("s", [NOON], 1, HOUR),
        lambda: silent.put_edge("s", edge(), None),
        lambda: silent.clear_over("s", "hours", NOON),
        lambda: silent.put_notes("s", "2026-03-01", [NotePage(0, 0, ["a"])], 1),
        lambda: list(silent.read_chains("s", "2026-03-01", {0: 0})),
        lambda: silent.read_notes("s", "2026-03-01", consistent=False),
    ):
        with pytest.raises(StoreUnavailable):
            call()
