"""The scheduler: for which items it sends messages, what it notes, and what it says about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.work.claim import ItemName, WorkItem
from tidetable.work.schedule import DueItem, WorkReport, wake_workers

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def list_due(work: FakeWork, **counts: int) -> list[DueItem]:
    """A sealing of each stream and so many parts; the records are as they are stored now."""
    due = []
    for stream, parts in counts.items():
        sealing = {item.name: item for item in work.list_items("seal")}.get(stream, WorkItem("seal", stream))
        due.append(DueItem(sealing, stream))
        for number in range(parts):
            work.add("part", f"{stream}#{number:02}", "")
        due += [DueItem(item, stream, added=True) for item in work.list_items("part", f"{stream}#")]
    return due


def names(*texts: str) -> list[ItemName]:
    return [ItemName("part" if "#" in text else "seal", text) for text in texts]


def test_a_message_is_sent_for_each_due_item_and_not_again_before_15_minutes() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    for minute in range(31):
        wake_workers(list_due(work, s=0, t=0), 10, work, queue, NOON + minute * MINUTE)
        assert len(queue.messages) == 2 * (minute // 15 + 1), minute
    assert queue.messages == names("s", "t", "s", "t", "s", "t")


def test_an_item_that_a_worker_has_is_not_sent_until_its_claim_ends() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    claim = work.claim("seal", "s", "a", NOON, NOON + 5 * MINUTE)
    assert wake_workers(list_due(work, s=0), 10, work, queue, NOON) == WorkReport(due=1, running=1)
    assert queue.messages == []
    assert claim is not None
    work.release(claim, "", problem="no answer")
    assert wake_workers(list_due(work, s=0), 10, work, queue, NOON) == WorkReport(due=1, failed=1, sent=1)
    # A worker that died does not end its claim.
    claim = work.claim("seal", "s", "b", NOON, NOON + 5 * MINUTE)
    later = NOON + 5 * MINUTE
    assert wake_workers(list_due(work, s=0), 10, work, queue, later) == WorkReport(due=1, failed=1, sent=1)
    assert queue.messages == names("s", "s")


def test_the_oldest_item_has_waited_since_its_first_message() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    wake_workers(list_due(work, s=0), 10, work, queue, NOON)
    for minute in (20, 40):
        report = wake_workers(list_due(work, s=0, t=0), 10, work, queue, NOON + minute * MINUTE)
        assert report.oldest == minute * MINUTE
    work.claim("seal", "s", "a", NOON + 40 * MINUTE, NOON + 46 * MINUTE)
    report = wake_workers(list_due(work, s=0, t=0), 10, work, queue, NOON + 41 * MINUTE)
    assert (report.running, report.oldest) == (1, 21 * MINUTE)
    # The claim has ended without a release: the item waits from the next message on.
    report = wake_workers(list_due(work, s=0), 10, work, queue, NOON + 47 * MINUTE)
    assert (report.sent, report.oldest) == (1, timedelta(0))


@pytest.mark.parametrize(
    ("workers", "sent"),
    [
        (12, ["s", "t", "t#00", "t#01", *(f"s#0{number}" for number in range(8))]),
        (8, ["s", "t", "t#00", "t#01", "s#00", "s#01", "s#02", "s#03"]),
        (7, ["s", "t", "t#00", "t#01", "s#00", "s#01", "s#02"]),
        (2, ["s", "t", "t#00", "s#00"]),
    ],
)
def test_each_kind_of_work_of_a_stream_has_its_share_of_the_workers(workers: int, sent: list[str]) -> None:
    """Two streams with two kinds of work have four shares; what three of them do not need goes to the fourth."""
    work, queue = FakeWork(), FakeWorkQueue()
    due = list_due(work, s=20, t=2)
    wake_workers(due, workers, work, queue, NOON)
    assert queue.messages == names(*sent)
    # The share is used up, also while workers have items of it, until one is finished.
    claim = work.claim("part", "s#00", "a", NOON, NOON + MINUTE, added=True)
    assert claim is not None
    wake_workers(list_due(work, s=20, t=2), workers, work, queue, NOON)
    assert queue.messages == names(*sent)
    work.release(claim, "", done=True)
    due = [one for one in list_due(work, s=20, t=2) if not one.item.done]
    wake_workers(due, workers, work, queue, NOON)
    assert queue.messages == names(*sent, f"s#{sum(name.startswith('s#') for name in sent):02}")


def test_two_schedulers_at_the_same_time_send_twice_and_note_once() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    due = list_due(work, s=1)
    for _ in range(2):
        assert wake_workers(due, 10, work, queue, NOON).sent == 2
    assert queue.messages == names("s", "s#00", "s", "s#00")
    assert wake_workers(list_due(work, s=1), 10, work, queue, NOON).sent == 0


def test_what_the_queue_does_not_accept_is_sent_in_the_next_minute() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    queue.refuses = True
    assert wake_workers(list_due(work, s=1), 10, work, queue, NOON) == WorkReport(due=2)
    queue.refuses = False
    assert wake_workers(list_due(work, s=1), 10, work, queue, NOON).sent == 2


def test_an_item_that_was_claimed_or_removed_meanwhile_gets_no_note() -> None:
    work, queue = FakeWork(), FakeWorkQueue()
    due = list_due(work, s=1)
    claim = work.claim("seal", "s", "a", NOON, NOON + MINUTE)
    assert claim is not None
    work.release(claim, "")
    work.remove("part", "s#00")
    wake_workers(due, 10, work, queue, NOON)
    assert [item.sent for item in work.list_items("seal")] == [None]
    assert work.list_items("part") == []
