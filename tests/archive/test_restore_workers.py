"""Workers of restores that are killed, overtaken, a day late, or beside others; messages that come twice, late, or never."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.fakes.stage import Killed, Stage
from tests.worlds.killed import IDS, copier_of, ids
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry, items
from tidetable.archive import restore_orders
from tidetable.archive.restore_orders import RESTORE, list_orders
from tidetable.archive.restore_range import follow_orders
from tidetable.archive.restore_worker import RestoreWorker, wake_workers, work_on_message
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.times import from_text
from tidetable.work.claim import ItemName

EARLIER = "2026-03-14"
COUNT = 13


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_orders, "PIECE_EVENTS", 4)


def ordered(last: str = LABEL, most: int = 0) -> Stage:
    """A stage with the order of a restore, on which workers have worked on so many items."""
    stage = delete_first_tables(1_000_000)
    stage.restore("s", EARLIER if last != LABEL else LABEL, last, most=most)
    return stage


def work(stage: Stage, name: ItemName, owner: str, within: float = 290.0) -> None:
    """Work on the item of a message, and on no other."""
    work_on_message(name, stage.pipeline.restorer, owner, stage._remaining(within), chain=0.0)


def deliver(stage: Stage, choose: Callable[[int], int] = lambda _: 0) -> None:
    """Deliver all messages, also those that workers send meanwhile."""
    for number in range(2_000):
        messages = stage.work_queue.messages
        if not messages:
            return
        with suppress(ArchiveBusy):
            work(stage, messages.pop(choose(len(messages))), f"worker {number}")
    raise AssertionError("the messages never end")


def assert_restored(stage: Stage, label: str = LABEL) -> None:
    states: dict[str, State] = {one.period.label: one.state for one in stage.catalog.entries("s", consistent=True)}
    assert states[label] is State.CLOSED
    assert stage.work.list_items(RESTORE) == []
    assert len(items(stage)) == COUNT
    assert ids(stage) == IDS


@pytest.mark.parametrize("step", range(1, 5))
def test_every_message_may_come_twice_and_in_any_order(step: int) -> None:
    stage = ordered("2026-03-16")
    sent = stage.work_queue.messages
    sent *= 2
    everything = list(sent)

    def choose(count: int) -> int:
        everything.extend(name for name in sent if name not in everything)
        return (7 * step) % count

    deliver(stage, choose)
    assert_restored(stage)
    # A day later all messages come once more.
    stage.clock.sleep(86_400)
    for name in everything:
        work(stage, name, "late")
    assert_restored(stage)


def test_a_range_is_restored_wherever_a_worker_is_killed() -> None:
    make = copier_of(partial(ordered, "2026-03-16"))
    whole = make()
    whole.client.calls = 0
    deliver(whole)
    assert_restored(whole)
    for allowance in range(3, whole.client.calls, 29):
        stage = make()
        stage.client.calls, stage.client.allowance = 0, allowance
        with suppress(Killed):
            deliver(stage)
        stage.client.allowance = None
        assert ids(stage) == IDS
        # The schedule wakes workers when claims and notes have ended.
        for _ in range(4):
            stage.clock.sleep(901)
            follow_orders(stage.exporter())
            wake_workers(stage.pipeline.restorer)
            deliver(stage)
        assert_restored(stage)


def overtake(stage: Stage, holder: Any, method: str, number: int, meanwhile: Callable[[], None]) -> None:
    """Let something happen before the call with this number of a method."""
    original, left = getattr(holder, method), [number]

    def call(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            setattr(holder, method, original)
            meanwhile()
        return original(*args, **options)

    setattr(holder, method, call)


@pytest.mark.parametrize("seconds", [340, 86_400])
@pytest.mark.parametrize(
    ("holder", "method", "call"),
    [
        ("bucket", "find", 1),
        ("catalog", "entries", 1),
        ("work", "list_items", 1),
        ("work", "list_items", 2),
        ("scan", "page", 1),
    ],
)
def test_a_worker_that_stands_still_until_others_have_finished_writes_nothing(
    holder: str, method: str, call: int, seconds: int
) -> None:
    """An event gets a newer state meanwhile: the row of the archive must not replace it."""
    stage, step = ordered(), "#002#" if holder == "scan" else "#001#"
    while not (names := [one.name for one in stage.work.list_items(RESTORE) if step in one.name and not one.done]):
        stage.work_on_restores(most=1)
    stage.work_queue.messages.clear()
    events = list[Any]()

    def finish() -> None:
        stage.clock.sleep(max(seconds, 901))
        wake_workers(stage.pipeline.restorer)
        deliver(stage)
        assert_restored(stage)
        for number in range(12):
            time = from_text(f"{LABEL}T{12 - number:02}:00:00Z")
            accepted = int(stage.clock.now().timestamp() * 1000)
            stage.queue.send("s", [Event("a", time, f"e{number}", {"n": "newer"})], accepted)
        stage.drain()
        events.extend(sorted(items(stage), key=str))
        assert sum("newer" in str(item) for item in events) == 12

    overtake(stage, getattr(stage, holder), method, call, finish)
    with suppress(ArchiveBusy):
        work(stage, ItemName(RESTORE, names[0]), "slow")
    assert events, "nobody has overtaken it"
    assert sorted(items(stage), key=str) == events
    assert (entry(stage).state, stage.work.list_items(RESTORE)) == (State.CLOSED, [])


def test_a_period_is_not_opened_while_a_worker_has_one_of_its_pieces() -> None:
    """The piece is of a step that does not count any more, but its worker may still write."""
    stage = ordered(most=2)
    (period,) = list_orders(stage.work, "s")[0].periods
    piece = next(piece for piece in period.pieces if not piece.item.done)
    now = stage.clock.now()
    stage.work.claim(RESTORE, piece.item.name, "slow", now, now + timedelta(seconds=300))
    stage.client.delete_table(TableName=TABLE)
    stage.clock.sleep(60)
    with pytest.raises(ArchiveBusy, match=r"a later run makes it anew$"):
        stage.work_on_restores()
    for _ in range(3):
        wake_workers(stage.pipeline.restorer)
        with suppress(ArchiveBusy):
            stage.work_on_restores()
    assert entry(stage).state is State.RESTORING
    assert TABLE not in stage.dynamo.account.tables
    stage.clock.sleep(301)
    wake_workers(stage.pipeline.restorer)
    deliver(stage)
    assert_restored(stage)


@pytest.mark.parametrize("most", [1, 2, 6, 8])
def test_a_table_that_is_deleted_at_any_step_is_made_anew(most: int) -> None:
    stage = ordered(most=most)
    assert entry(stage).state is State.RESTORING
    stage.client.delete_table(TableName=TABLE)
    stage.clock.sleep(60)
    for _ in range(4):
        stage.clock.sleep(901)
        wake_workers(stage.pipeline.restorer)
        deliver(stage)
    assert_restored(stage)


def test_two_workers_never_have_one_item() -> None:
    stage = ordered(most=1)
    name = stage.work_queue.messages[0]
    busy = list[str]()

    def compete() -> None:
        with pytest.raises(ArchiveBusy, match=r"is being restored by another run$") as refused:
            work(stage, name, "other")
        busy.append(str(refused.value))

    overtake(stage, stage.bucket, "find", 1, compete)
    work(stage, name, "first")
    assert len(busy) == 1


def test_a_piece_that_counts_no_more_when_it_is_claimed_is_not_written() -> None:
    """Its worker has listed it; then the table was found deleted, and the period went back to its first step."""
    stage = ordered(most=1)
    (period,) = list_orders(stage.work, "s")[0].periods
    assert period.item is not None
    name = period.item.name

    def go_back() -> None:
        now = stage.clock.now()
        claim = stage.work.claim(RESTORE, name, "other", now, now + timedelta(seconds=300), added=True)
        assert claim is not None
        stage.work.release(claim, '{"events":13,"step":2,"count":-1}')

    overtake(stage, stage.work, "claim", 1, go_back)
    work(stage, stage.work_queue.messages[0], "slow")
    assert items(stage) == []


def test_a_period_that_has_left_its_restore_gets_no_rows() -> None:
    stage = ordered(most=1)
    stage.catalog.move(entry(stage), State.CLOSED, expected=[State.RESTORING])
    with pytest.raises(ArchiveBusy, match=r"^period 2026-03-15 of s is closed$"):
        work(stage, stage.work_queue.messages[0], "slow")
    assert items(stage) == []


def test_a_lost_message_is_sent_again_after_a_quarter_of_an_hour() -> None:
    stage = ordered()
    stage.work_queue.messages.clear()
    stage.clock.sleep(899)
    wake_workers(stage.pipeline.restorer)
    assert stage.work_queue.messages == []
    stage.clock.sleep(1)
    wake_workers(stage.pipeline.restorer)
    assert [name.name.count("#") for name in stage.work_queue.messages] == [2]


def test_as_many_workers_are_woken_as_there_are() -> None:
    stage = ordered()
    assert stage.config.work.workers == 5
    stage.restore("s", LABEL, most=1)
    # The worker of the period goes on with one piece, of at least six.
    assert len(stage.work.list_items(RESTORE)) >= 6
    assert 1 < len(stage.work_queue.messages) <= 6


def test_pieces_that_a_worker_added_too_late_are_removed() -> None:
    stage = ordered()
    (item, *_) = stage.work.list_items(RESTORE)
    deliver(stage)
    stage.work.add(RESTORE, f"{item.name}#{LABEL}#001#00000", '{"end":3}')
    wake_workers(stage.pipeline.restorer)
    assert stage.work_queue.messages == []
    follow_orders(stage.exporter())
    assert_restored(stage)


def test_an_order_that_was_cancelled_moves_no_period_that_a_new_order_restores() -> None:
    stage = ordered(most=2)
    (former,) = list_orders(stage.work, "s")
    restore_orders.cancel_restores(stage.work, "s")
    stage.clock.sleep(1)
    # The new order begins before a worker has given up the period of the former one.
    stage.restore("s", LABEL, most=0)
    worker = RestoreWorker(stage.pipeline.restorer, "late", stage._remaining(290))
    worker.work_on(ItemName(RESTORE, f"{former.name}#{LABEL}"))
    assert entry(stage).state is State.RESTORING
    stage.work_queue.messages.clear()
    stage.clock.sleep(901)
    wake_workers(stage.pipeline.restorer)
    deliver(stage)
    assert_restored(stage)


def test_a_worker_ends_its_minute_and_lets_another_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_orders, "PIECE_EVENTS", 1)
    stage = ordered(most=1)
    name = stage.work_queue.messages[0]
    stage.work_queue.messages.clear()
    find, read = stage.bucket.find, list[str]()

    def find_slowly(key: str) -> bytes | None:
        read.append(key)
        stage.clock.sleep(40)
        return find(key)

    monkeypatch.setattr(stage.bucket, "find", find_slowly)
    work_on_message(name, stage.pipeline.restorer, "slow", stage._remaining(290))
    assert len(read) == 2
    assert len(stage.work_queue.messages) == 1
    assert stage.work_queue.messages[0] != name
