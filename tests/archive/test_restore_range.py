"""A range of periods is restored by one order: what it leaves out, how far it is, and what else happens meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tests.worlds.killed import IDS, ids
from tests.worlds.restores import LABEL, delete_first_tables, entry
from tidetable.archive import restore_orders, restore_range
from tidetable.archive.restore_orders import describe_order, list_orders
from tidetable.archive.restore_range import explain_refusal, find_left, follow_orders, list_range
from tidetable.catalog import State
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.times import from_text
from tidetable.work.claim import Pause

# The days 13 to 22 were archived and deleted, the later ones have their tables.
FIRST, LAST = "2026-03-13", "2026-03-27"


def states(stage: Stage) -> dict[str, State]:
    return {entry.period.label: entry.state for entry in stage.catalog.entries("s", consistent=True)}


def progress(stage: Stage) -> dict[str, Any]:
    (order,) = list_orders(stage.work, "s")
    left = find_left(order, stage.exporter())
    events = sum(one.archive.events for one in left if one.archive is not None)
    return describe_order(order, len(left), events, stage.clock.now())


def test_every_period_of_a_range_that_has_an_archive_is_restored_and_the_others_are_as_before() -> None:
    stage = delete_first_tables()
    before = states(stage)
    gone = next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == "2026-03-16")
    assert gone.archive is not None
    expired = replace(gone.archive, expired_at=stage.clock.now())
    stage.catalog.move(gone, State.DELETED, expected=[State.DELETED], archive=expired)
    stage.restore("s", FIRST, LAST, keep_days=3)
    after = states(stage)
    restored = [
        label for label in before if label >= FIRST and before[label] is State.DELETED and label != "2026-03-16"
    ]
    assert len(restored) > 5
    assert {label: after[label] for label in restored} == dict.fromkeys(restored, State.CLOSED)
    assert {label: state for label, state in after.items() if label not in restored} == {
        label: state for label, state in before.items() if label not in restored
    }
    assert stage.work.list_items("restore") == []
    assert ids(stage) == IDS
    refusals = {one.period.label: explain_refusal(one) for one in list_range("s", FIRST, LAST, stage.exporter())}
    assert str(refusals["2026-03-16"]).startswith("the archive of period 2026-03-16 of s expired at 2026-03-27")
    assert refusals[LABEL] == f"period {LABEL} of s is closed: it has its table"


def test_at_most_so_many_tables_are_filled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_range, "PERIODS_AT_ONCE", 2)
    stage, most = delete_first_tables(), 0
    stage.restore("s", FIRST, LAST, most=0)
    assert [len(order.periods) for order in list_orders(stage.work, "s")] == [2]
    while stage.work.list_items("restore"):
        stage.work_on_restores(most=1)
        most = max(most, list(states(stage).values()).count(State.RESTORING))
    assert most == 2
    assert list(states(stage).values()).count(State.RESTORING) == 0


def test_no_period_is_added_while_those_under_way_have_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_range, "EVENTS_AT_ONCE", 5)
    stage = delete_first_tables()
    stage.restore("s", "2026-03-14", LAST, most=0)
    assert [[one.label for one in order.periods] for order in list_orders(stage.work, "s")] == [["2026-03-14"]]
    stage.work_on_restores()
    assert stage.work.list_items("restore") == []
    assert states(stage)[LABEL] is State.CLOSED


def test_an_order_that_cannot_be_read_stops_no_other() -> None:
    stage = delete_first_tables()
    stage.work.add("restore", "r#0000000000001", '{"newer": 1}')
    stage.restore("s", LABEL, most=0)
    follow_orders(stage.exporter())
    stage.work_on_restores()
    assert states(stage)[LABEL] is State.CLOSED


def test_the_progress_counts_periods_events_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_orders, "PIECE_EVENTS", 4)
    stage = delete_first_tables(1_000_000)
    stage.restore("s", "2026-03-14", LABEL, most=0)
    begun = progress(stage)
    assert (begun["first"], begun["last"], begun["keep_days"]) == ("2026-03-14", LABEL, 7)
    assert (begun["periods"], begun["left"], begun["events"], begun["left_events"]) == (2, 2, 20, 20)
    assert (begun["written"], begun["compared"], begun["pieces"], begun["running"]) == (0, 0, 2, 0)
    seen = list[tuple[int, int, int]]()
    while stage.work.list_items("restore"):
        stage.work_on_restores(most=1)
        if stage.work.list_items("restore"):
            now = progress(stage)
            seen.append((now["left_events"], now["written"], now["compared"]))
    # The days have 7 and 13 events.
    assert seen[0] == (20, 0, 0)
    assert max(written for left, written, _ in seen if left == 20) == 20
    assert (20, 20, 7) in seen
    assert seen[-1] == (13, 13, 13)
    assert all(compared <= written <= left for left, written, compared in seen)


def test_pieces_have_about_so_many_events_and_files_and_scans_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_orders, "PIECE_EVENTS", 4)
    stage = delete_first_tables(1_000_000)
    stage.restore("s", LABEL, most=1)
    (period,) = list_orders(stage.work, "s")[0].periods
    memos = [piece.read_memo() for piece in period.pieces]
    files = {memo.key for memo in memos}
    assert sum(memo.end - memo.start for memo in memos) == 13
    assert max(memo.end - memo.start for memo in memos) <= 4
    assert len(memos) >= len(files)
    stage.restore("s", LABEL, most=len(memos) + 1)
    (period,) = list_orders(stage.work, "s")[0].periods
    compared = [piece for piece in period.pieces if piece.step == 2]
    assert [piece.read_memo().segments for piece in compared] == [4] * 4
    assert stage.restore("s", LABEL).state is State.CLOSED


def test_a_period_has_at_most_so_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_orders, "PIECE_EVENTS", 1)
    monkeypatch.setattr(restore_orders, "MOST_PIECES", 3)
    part: Any = SimpleNamespace(key="k", sha256="s", events=10)
    assert [(memo.start, memo.end) for memo in restore_orders.divide_files([part])] == [(0, 4), (4, 8), (8, 10)]
    assert len(restore_orders.divide_scan(10)) == 3
    assert len(restore_orders.divide_scan(0)) == 1


def test_a_second_call_joins_and_another_range_waits_for_the_first() -> None:
    stage = delete_first_tables()
    stage.restore("s", LABEL, most=1)
    stage.clock.sleep(1)
    stage.restore("s", LABEL, most=0)
    assert len(list_orders(stage.work, "s")) == 1
    stage.restore("s", "2026-03-14", most=0)
    first, second = list_orders(stage.work, "s")
    assert (first.read_memo().first, second.read_memo().first) == (LABEL, "2026-03-14")
    assert ([one.label for one in first.periods], second.periods) == ([LABEL], [])
    stage.work_on_restores()
    # The worker that ended the first order has begun the second.
    assert states(stage)[LABEL] is State.CLOSED
    assert stage.restore("s", "2026-03-14").state is State.CLOSED
    assert stage.work.list_items("restore") == []


def test_a_cancelled_restore_keeps_what_is_restored_and_gives_up_the_rest() -> None:
    stage = delete_first_tables()
    stage.restore("s", "2026-03-14")
    stage.restore("s", "2026-03-14", LAST, most=5)
    under_way = [label for label, state in states(stage).items() if state is State.RESTORING]
    assert under_way
    stage.cancel_restores("s")
    after = states(stage)
    assert {after[label] for label in under_way} == {State.ARCHIVED}
    assert after["2026-03-14"] is State.CLOSED
    assert stage.work.list_items("restore") == []
    assert ids(stage) == IDS
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert {states(stage)[label] for label in under_way} == {State.DELETED}, "their tables are deleted again"
    assert ids(stage) == IDS


@pytest.mark.parametrize("stream", ["s", "*"])
def test_restores_that_rest_begin_nothing_and_their_messages_change_nothing(stream: str) -> None:
    stage = delete_first_tables()
    stage.restore("s", LABEL, most=0)
    stage.work.set_pause(Pause("restore", stream), on=True)
    stage.work_on_restores()
    assert states(stage)[LABEL] is State.DELETED
    stage.clock.sleep(900)
    assert stage.restore("s", LABEL).state is State.DELETED
    stage.restore("s", "2026-03-14", most=0)
    stage.cancel_restores("s")
    assert stage.work.list_items("restore") == [], "to end an order is no work that rests"
    stage.work.set_pause(Pause("restore", stream), on=False)
    assert stage.restore("s", LABEL).state is State.CLOSED


def test_events_that_come_meanwhile_are_in_the_table_afterwards() -> None:
    """While a period is restored, no write of the drain reaches its table: a late event is a dead letter until then."""
    stage = delete_first_tables()
    late = Event("late", from_text(f"{LABEL}T10:00:00Z"), "came late", {})
    stage.restore("s", LABEL, most=3)
    stage.queue.send("s", [late], 0)
    stage.drain()
    (letter,) = stage.queue.dead
    assert letter.reason == f"period {LABEL} of s is restoring: restore it, then replay"
    assert stage.restore("s", LABEL).state is State.CLOSED
    stage.queue.send("s", [late], 0)
    stage.drain()
    assert (stage.queue.messages, len(stage.queue.dead)) == ([], 1)
    assert ids(stage) == sorted([*IDS, "came late"])


def test_a_period_that_cannot_be_restored_says_why_and_the_others_go_on() -> None:
    stage = delete_first_tables()
    (key,) = (key for key in stage.bucket.objects if "2026-03-14" in key and "manifest" in key)
    body = stage.bucket.objects.pop(key)
    with pytest.raises(ArchiveFailed, match="does not exist"):
        stage.restore("s", FIRST, LAST)
    stage.work_on_restores()
    after = states(stage)
    assert [label for label, state in after.items() if state not in (State.CLOSED, State.OPEN, State.CREATING)] == [
        "2026-03-14"
    ]
    (order,) = list_orders(stage.work, "s")
    assert [one.item.problem[:40] for one in order.periods if one.item] == [f"the archive's object {key}"[:40]]
    assert str(progress(stage)["problem"]).startswith("the archive's object")
    stage.bucket.objects[key] = body
    assert stage.restore("s", FIRST, LAST)
    assert states(stage)["2026-03-14"] is State.CLOSED


@pytest.fixture
def unread() -> Stage:
    """A stage whose restore has a period record of a newer version."""
    stage = delete_first_tables()
    stage.restore("s", LABEL, most=0)
    name = next(item.name for item in stage.work.list_items("restore") if item.name.count("#") == 2)
    stage.work.remove("restore", name)
    stage.work.add("restore", name, '{"newer": 1}')
    return stage


def test_a_record_that_cannot_be_read_has_the_reason_and_its_period_may_be_given_up(unread: Stage) -> None:
    with pytest.raises(Exception, match=r"^the record of restore s#\d+#2026-03-15 cannot be read: "):
        unread.restore("s", LABEL)
    assert str(progress(unread)["problem"]).startswith("the record of restore")
    unread.cancel_restores("s")
    assert unread.work.list_items("restore") == []
    assert unread.restore("s", LABEL).state is State.CLOSED


def test_a_period_of_no_events_is_restored() -> None:
    stage = delete_first_tables()
    label = "2026-03-17"
    assert stage.restore("s", label).state is State.CLOSED
    assert entry(stage).state is State.DELETED
