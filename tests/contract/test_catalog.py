"""The contract of the catalog, on every engine."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import ENGINES, LEAN, build
from tests.contract.engines import Engine
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Horizon, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import StaleEntry
from tidetable.layout import Index, Layout
from tidetable.periods import Kind, find_containing

NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
DAY = timedelta(days=1)
LAYOUT = Layout("time", 4, "id", 21_600, (Index("by_status", "status", 4), Index("by_state", "place.state")))
MICROSECOND = timedelta(microseconds=1)


@pytest.fixture(params=[*ENGINES, *LEAN])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine; and every engine with HTTP again, called by the lean client."""
    return build(request.param, request)


def entry(engine: Engine, kind: Kind = Kind.DAY, at: datetime = NOW) -> Entry:
    period = find_containing(at, kind)
    return Entry(engine.stream, period, f"tidetable-t.{engine.stream}.{period.label}", LAYOUT, State.CREATING, NOW)


def test_the_first_to_record_a_period_decides_its_layout(engine: Engine) -> None:
    first = entry(engine)
    # The layout of the first entry has an index, which must come back unchanged.
    second = Entry(first.stream, first.period, first.table, Layout("series", 1, "id"), State.OPEN, NOW)
    assert engine.catalog.add(first)
    assert not engine.catalog.add(second)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [first]


def test_entries_of_a_range_are_those_whose_periods_meet_it(engine: Engine) -> None:
    month = entry(engine, Kind.MONTH, NOW - timedelta(days=20))
    day, hour = entry(engine), entry(engine, Kind.HOUR, NOW + timedelta(days=1))
    for added in (hour, day, month):
        engine.catalog.add(added)
    read_entries = engine.catalog.entries
    assert list(read_entries(engine.stream)) == [month, day, hour]
    assert list(read_entries(engine.stream, month.period.end - MICROSECOND, month.period.end - MICROSECOND)) == [month]
    assert list(read_entries(engine.stream, day.period.start, day.period.start)) == [day]
    assert list(read_entries(engine.stream, NOW, hour.period.start)) == [day, hour]
    assert list(read_entries(engine.stream, hour.period.end, hour.period.end + timedelta(days=9))) == []


def test_the_week_of_the_first_of_january_1970_is_found_though_it_begins_in_1969(engine: Engine) -> None:
    first = datetime(1970, 1, 1, tzinfo=UTC)
    week, following = entry(engine, Kind.WEEK, first), entry(engine, Kind.WEEK, first + 7 * DAY)
    for added in (week, following):
        engine.catalog.add(added)
    assert list(engine.catalog.entries(engine.stream)) == [week, following]
    assert list(engine.catalog.entries(engine.stream, first, first + DAY, consistent=True)) == [week]
    start = week.period.start
    assert list(engine.catalog.entries(engine.stream, start, start, consistent=True)) == [week]
    assert list(engine.catalog.walk(engine.stream)) == [following, week]
    assert list(engine.catalog.walk(engine.stream, first, first, ascending=True)) == [week]


@pytest.mark.parametrize("consistent", [True, False])
def test_a_walk_yields_the_entries_that_overlap_a_range_in_either_order(engine: Engine, consistent: bool) -> None:
    days = [entry(engine, at=NOW + number * DAY) for number in (0, 1, 2, 4, 5)]
    for added in days:
        engine.catalog.add(added)
    starts = [day.period.start for day in days]
    ranges = {
        (None, None): days,
        (None, starts[3]): days[:4],
        (None, starts[3] - MICROSECOND): days[:3],
        (None, starts[0] - MICROSECOND): [],
        (starts[1], None): days[1:],
        (starts[1] + MICROSECOND, starts[2]): days[1:3],
        (starts[1] - MICROSECOND, starts[2]): days[:3],
        (starts[3] - DAY, starts[3] - MICROSECOND): [],
        (starts[3] - DAY, starts[3]): [days[3]],
        (starts[4] + DAY, None): [],
    }
    for (start, end), found in ranges.items():
        for at_once in (1, 2, 16):
            options: dict[str, Any] = {"consistent": consistent, "at_once": at_once}
            assert list(engine.catalog.walk(engine.stream, start, end, ascending=True, **options)) == found
            assert list(engine.catalog.walk(engine.stream, start, end, **options)) == found[::-1]
    assert list(engine.catalog.walk(engine.stream + "-b")) == []


def test_policies_are_recorded_for_each_stream_and_replaced(engine: Engine) -> None:
    first, second = f"{engine.stream}a", f"{engine.stream}b"

    def mine() -> list[RecordedPolicy]:
        return [policy for policy in engine.catalog.list_policies() if policy.stream in (first, second)]

    engine.catalog.put_policy(RecordedPolicy(second, "two"))
    engine.catalog.put_policy(RecordedPolicy(first, "one", NOW))
    assert mine() == [RecordedPolicy(first, "one", NOW), RecordedPolicy(second, "two")]
    engine.catalog.put_policy(RecordedPolicy(first, "three"))
    assert mine() == [RecordedPolicy(first, "three"), RecordedPolicy(second, "two")]
    assert list(engine.catalog.entries(first, consistent=True)) == []


def test_a_move_leaves_alone_what_others_set_since_the_entry_was_read(engine: Engine) -> None:
    first = replace(entry(engine), opened=Opening(NOW + DAY, 5, 6))
    engine.catalog.add(first)
    ended = Opening(NOW, 5, 6)
    engine.catalog.move(first, State.OPEN, expected=[State.CREATING], opened=ended)
    engine.catalog.move(first, State.CLOSED, expected=[State.OPEN])
    (held,) = engine.catalog.entries(engine.stream, consistent=True)
    assert (held.state, held.opened) == (State.CLOSED, ended)


def test_one_streams_entries_are_not_anothers(engine: Engine) -> None:
    engine.catalog.add(entry(engine))
    assert list(engine.catalog.entries(engine.stream + "-b")) == []
    assert list(engine.catalog.entries(engine.stream[:-1])) == []


def test_a_move_from_an_expected_state_changes_the_entry_and_keeps_its_facts(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    facts = ArchiveFacts(manifest="stream=s/period=p/_manifest.json", events=12, bytes=3456, at=NOW, untyped={"ms": 3})
    archived = engine.catalog.move(first, State.ARCHIVED, expected=[State.CREATING, State.OPEN], archive=facts)
    deleted = engine.catalog.move(archived, State.DELETED, expected=[State.ARCHIVED], deleted_at=NOW)
    assert deleted.archive == facts
    restored = engine.catalog.move(deleted, State.CLOSED, expected=[State.DELETED], keep_until=NOW + timedelta(days=7))
    assert (restored.archive, restored.keep_until) == (facts, NOW + timedelta(days=7))
    expired = replace(facts, expired_at=NOW + timedelta(days=365))
    deleted = engine.catalog.move(restored, State.DELETED, expected=[State.CLOSED], archive=expired)
    assert (deleted.archived, deleted.absence) == (None, "archive expired")
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [deleted]


def test_a_move_may_begin_in_any_of_the_expected_states(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    moved = engine.catalog.move(first, State.OPEN, expected=[State.OPEN, State.CLOSED, State.CREATING])
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [moved]
    assert moved.state is State.OPEN


def test_a_move_from_another_state_is_stale_and_changes_nothing(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    with pytest.raises(StaleEntry, match=first.period.label):
        engine.catalog.move(first, State.DELETED, expected=[State.CLOSED, State.ARCHIVED])
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [first]


def test_a_move_of_a_period_that_was_never_recorded_is_stale(engine: Engine) -> None:
    with pytest.raises(StaleEntry):
        engine.catalog.move(entry(engine), State.OPEN, expected=[State.CREATING])
    assert list(engine.catalog.entries(engine.stream)) == []


def test_what_was_seen_of_a_table_is_noted_and_survives_a_move(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    for seen in (
        SeenTable(5, 6, TableClass.STANDARD, (("one", (1, 2)), ("two", (3, 4)))),
        SeenTable(5, 6, TableClass.STANDARD, changing=True),
        SeenTable(None, None, TableClass.INFREQUENT),
    ):
        engine.catalog.note(first, seen)
        (held,) = engine.catalog.entries(engine.stream, consistent=True)
        assert held == change_entry(first, seen=seen)
    engine.catalog.move(first, State.OPEN, expected=[State.CREATING])
    (held,) = engine.catalog.entries(engine.stream, consistent=True)
    assert (held.state, held.capacity.seen) == (State.OPEN, seen)


def test_backfills_are_recorded_prolonged_and_taken_back(engine: Engine) -> None:
    first = Backfill(engine.stream, NOW, NOW + DAY, Opening(NOW + 2 * DAY, None, None))
    second = Backfill(engine.stream, NOW - DAY, NOW, Opening(NOW + DAY, 5, 6))
    for backfill in (first, second):
        engine.catalog.put_backfill(backfill)
    assert list(engine.catalog.backfills(engine.stream)) == [second, first]
    longer = replace(first, opened=Opening(NOW + 3 * DAY, 7, 8))
    engine.catalog.put_backfill(longer)
    engine.catalog.drop_backfill(second)
    engine.catalog.drop_backfill(second)
    assert list(engine.catalog.backfills(engine.stream)) == [longer]
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == []


def test_a_period_is_opened_for_a_backfill_when_it_is_recorded_or_later(engine: Engine) -> None:
    opened = Opening(NOW + DAY, 5, 6)
    first = replace(entry(engine), opened=opened)
    engine.catalog.add(first)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [first]
    later = opened._replace(until=NOW + 2 * DAY, write=None, read=None)
    moved = engine.catalog.move(first, State.CREATING, expected=[State.CREATING], opened=later)
    assert moved.opened == later
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [moved]


def test_auto_scaling_is_marked_and_the_mark_taken_back(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    for scaled, policy in ((True, ""), (True, "write 5-50@70"), (True, ""), (False, "")):
        engine.catalog.mark_scaled(first, scaled=scaled, policy=policy)
        (held,) = engine.catalog.entries(engine.stream, consistent=True)
        assert (held.capacity.scaled, held.capacity.policy) == (scaled, policy)
    engine.catalog.move(held, State.OPEN, expected=[State.CREATING])
    with pytest.raises(StaleEntry):
        engine.catalog.mark_scaled(change_entry(first, stream=f"{engine.stream}-none"), scaled=True)


def test_the_regions_with_a_copy_are_marked_and_survive_a_move(engine: Engine) -> None:
    first = change_entry(entry(engine), active=("eu-west-1",))
    engine.catalog.add(first)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [first]
    for regions in (("eu-west-1", "us-west-2"), ("us-west-2",), (), ("us-west-2",)):
        engine.catalog.mark_copies(first, regions)
        (held,) = engine.catalog.entries(engine.stream, consistent=True)
        assert held == change_entry(first, active=regions)
    # ``first`` is older than the mark: a move with an old entry must not undo the mark.
    engine.catalog.move(first, State.OPEN, expected=[State.CREATING])
    (held,) = engine.catalog.entries(engine.stream, consistent=True)
    assert (held.state, held.copies.active) == (State.OPEN, ("us-west-2",))


def test_the_regions_that_are_to_have_a_copy_are_recorded_and_the_last_that_was_begun_is_marked(engine: Engine) -> None:
    first = change_entry(entry(engine), replicas=("us-west-2", "eu-west-1"))
    engine.catalog.add(first)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [first]
    for region, at in (("us-west-2", NOW), ("eu-west-1", NOW + DAY)):
        engine.catalog.mark_copying(first, region, at)
        (held,) = engine.catalog.entries(engine.stream, consistent=True)
        assert held == change_entry(first, begun=(region, at))
    engine.catalog.move(first, State.OPEN, expected=[State.CREATING])
    (held,) = engine.catalog.entries(engine.stream, consistent=True)
    assert (held.copies.replicas, held.copies.begun) == (("us-west-2", "eu-west-1"), ("eu-west-1", NOW + DAY))
    with pytest.raises(StaleEntry):
        engine.catalog.mark_copying(replace(first, stream=f"{engine.stream}-none"), "eu-west-1", NOW)


def test_no_copies_are_marked_of_a_period_that_was_never_recorded(engine: Engine) -> None:
    with pytest.raises(StaleEntry):
        engine.catalog.mark_copies(entry(engine), ["eu-west-1"])
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == []


def test_nothing_is_noted_of_a_period_that_was_never_recorded(engine: Engine) -> None:
    with pytest.raises(StaleEntry):
        engine.catalog.note(entry(engine), SeenTable(1, 1, TableClass.STANDARD))
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == []


def test_a_horizon_is_remembered_for_each_stream_and_is_no_entry(engine: Engine) -> None:
    assert engine.catalog.read_horizon(engine.stream) == Horizon()
    for at in (NOW, NOW + timedelta(days=1)):
        engine.catalog.set_horizon(engine.stream, at)
        assert (
            engine.catalog.read_horizon(engine.stream) == engine.catalog.list_horizons()[engine.stream] == Horizon(at)
        )
    assert engine.catalog.read_horizon(engine.stream + "-b") == Horizon()
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == []


def test_far_periods_are_noted_and_forgotten_with_the_changes_of_their_entries(engine: Engine) -> None:
    """Those that are recorded after their end, and those that are restored, until they are deleted."""
    catalog, stream = engine.catalog, engine.stream
    later = entry(engine)
    older = replace(later, period=later.period.shift(-3), created_at=later.period.start)
    present = replace(later, created_at=later.period.start)
    assert catalog.add(older)
    assert not catalog.add(older)
    assert catalog.add(present)
    assert catalog.read_horizon(stream) == Horizon(None, (older.period,))
    with pytest.raises(StaleEntry):
        catalog.move(present, State.RESTORING, expected=[State.DELETED])
    assert catalog.read_horizon(stream).far == (older.period,)
    catalog.move(present, State.RESTORING, expected=[present.state])
    catalog.move(present, State.CLOSED, expected=[State.RESTORING])
    assert catalog.list_horizons()[stream] == Horizon(None, (older.period, present.period))
    assert catalog.read_horizon(stream + "-b") == Horizon()
    with pytest.raises(StaleEntry):
        catalog.move(older, State.DELETED, expected=[State.ARCHIVED])
    assert catalog.read_horizon(stream).far == (older.period, present.period)
    deleted = catalog.move(older, State.DELETED, expected=State, deleted_at=NOW)
    assert catalog.entries(stream, older.period.start, older.period.start, consistent=True) == [deleted]
    assert catalog.read_horizon(stream).far == (present.period,)
    catalog.forget(present)
    assert catalog.read_horizon(stream).far == ()
    catalog.note_far(older)
    assert catalog.read_horizon(stream).far == (older.period,)


def test_a_lease_is_held_until_it_is_released_or_runs_out(engine: Engine) -> None:
    lease, minute = f"lease-{engine.stream}", timedelta(minutes=1)
    acquire, release = engine.catalog.acquire, engine.catalog.release
    assert acquire(lease, "a", NOW, minute)
    assert not acquire(lease, "b", NOW + minute - MICROSECOND, minute)
    assert acquire(lease, "b", NOW + minute, minute), "it had run out"
    release(lease, "a")
    assert not acquire(lease, "c", NOW + minute, minute), "only its owner gives a lease back"
    release(lease, "b")
    assert acquire(lease, "c", NOW + minute, minute)
    assert acquire(lease, "c", NOW + minute, 2 * minute), "an owner may take its lease again"


def test_a_shared_lease_says_since_when_no_other_owner_had_it(engine: Engine) -> None:
    lease, minute = f"shared-{engine.stream}", timedelta(minutes=1)
    share, acquire, release = engine.catalog.share_lease, engine.catalog.acquire, engine.catalog.release
    assert engine.catalog.read_share(lease) is None
    for later in range(3):
        assert share(lease, "ours", NOW + later * minute, minute) == NOW
        assert engine.catalog.read_share(lease) == NOW
    assert not acquire(lease, "theirs", NOW + 2 * minute, minute)
    # It ran out, and another owner had it.
    assert acquire(lease, "theirs", NOW + 3 * minute, minute)
    assert share(lease, "ours", NOW + 3 * minute, minute) is None
    assert engine.catalog.read_share(lease) is None
    release(lease, "theirs")
    assert engine.catalog.read_share(lease) is None
    assert share(lease, "ours", NOW + 5 * minute, minute) == NOW + 5 * minute
    assert acquire(lease, "theirs", NOW + 6 * minute, minute)
    assert share(lease, "ours", NOW + 8 * minute, minute) == NOW + 8 * minute


def test_a_stage_stands_once_that_is_recorded(engine: Engine) -> None:
    engine.catalog.mark_deployed()
    engine.catalog.mark_deployed()
    assert engine.catalog.is_deployed()


def test_an_entry_that_is_forgotten_may_be_made_anew(engine: Engine) -> None:
    first = entry(engine)
    engine.catalog.add(first)
    engine.catalog.forget(first)
    engine.catalog.forget(first)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == []
    second = replace(first, layout=Layout("series", 1, "id"))
    assert engine.catalog.add(second)
    assert list(engine.catalog.entries(engine.stream, consistent=True)) == [second]
