"""The contract of the records of work items, on the fake and on every engine."""

from datetime import UTC, datetime, timedelta

import pytest

from aws.dynamodb.work import LeanWork
from tests.contract.conftest import LEAN, make_lean_client, make_records
from tests.fakes.work import FakeWork
from tidetable.errors import StoreUnavailable
from tidetable.work.claim import EVERY_STREAM, Claim, Pause, WorkItem, WorkRecords, hold_claim, rests

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["fake", "strict memory", *LEAN])
def work(request: pytest.FixtureRequest) -> WorkRecords:
    if request.param == "fake":
        return FakeWork()
    return LeanWork(*make_records(request, "work"))


def test_one_owner_at_a_time_has_an_item_and_each_claim_a_greater_generation(work: WorkRecords) -> None:
    until = NOON + MINUTE
    assert work.claim("seal", "s", "a", NOON, until) == Claim("seal", "s", 1, until)
    assert work.claim("seal", "s", "b", until - timedelta(microseconds=1), until + MINUTE) is None
    # Other streams and other kinds are other items.
    assert work.claim("seal", "s2", "b", NOON, until) == Claim("seal", "s2", 1, until)
    assert work.claim("noting", "s", "b", NOON, until) == Claim("noting", "s", 1, until)
    # The same owner may claim again: a request that got no answer is sent again.
    assert work.claim("seal", "s", "a", NOON, until) == Claim("seal", "s", 2, until)
    # A claim ends by itself.
    assert work.claim("seal", "s", "b", until, until + MINUTE) == Claim("seal", "s", 3, until + MINUTE)


def test_a_claim_that_ended_leaves_the_item_free_and_its_generation_grows(work: WorkRecords) -> None:
    until = NOON + MINUTE
    first = work.claim("seal", "s", "a", NOON, until)
    assert first is not None
    work.release(first, "memo")
    second = work.claim("seal", "s", "b", NOON, until)
    assert second == Claim("seal", "s", 2, until, "memo")
    # The first claim was lost, also if its owner wakes later: the item stays with the second.
    work.release(first, "memo")
    assert work.claim("seal", "s", "a", NOON, until) is None
    work.release(Claim("seal", "unknown", 1, until), "")
    assert [item.name for item in work.list_items("seal")] == ["s"]


def test_a_claim_is_renewed_until_it_is_given_back_or_another_worker_has_the_item(work: WorkRecords) -> None:
    first = work.claim("seal", "s", "a", NOON, NOON + MINUTE)
    assert first is not None
    assert work.renew(first, NOON + 2 * MINUTE)
    assert work.claim("seal", "s", "b", NOON + MINUTE, NOON + 3 * MINUTE) is None
    # It has ended, but nobody has claimed the item.
    assert work.renew(first, NOON + 4 * MINUTE)
    second = work.claim("seal", "s", "b", NOON + 4 * MINUTE, NOON + 5 * MINUTE)
    assert second is not None
    assert not work.renew(first, NOON + 9 * MINUTE)
    work.release(second, "")
    assert not work.renew(second, NOON + 9 * MINUTE)
    assert not work.renew(Claim("seal", "unknown", 1, NOON), NOON + 9 * MINUTE)
    (item,) = work.list_items("seal")
    assert (item.name, item.until) == ("s", None)


def test_a_block_holds_a_claim_to_its_end_also_if_it_fails(work: WorkRecords) -> None:
    def fail() -> None:
        with hold_claim(work, "seal", "s", "a", NOON, MINUTE) as claim:
            assert claim is not None
            assert (claim.generation, claim.memo) == (1, "")
            with hold_claim(work, "seal", "s", "b", NOON, MINUTE) as other:
                assert other is None
            assert work.claim("seal", "s", "b", NOON, NOON + MINUTE) is None, "a block without a claim ends none"
            claim.memo = "noted"
            raise ValueError("the block")

    with pytest.raises(ValueError, match="the block"):
        fail()
    assert work.claim("seal", "s", "b", NOON, NOON + MINUTE) == Claim("seal", "s", 2, NOON + MINUTE, "noted")


def test_an_item_that_was_added_is_finished_once_by_the_claim_that_has_it(work: WorkRecords) -> None:
    until = NOON + MINUTE
    assert work.claim("part", "s#1", "a", NOON, until, added=True) is None
    assert work.add("part", "s#1", "one")
    assert not work.add("part", "s#1", "again")
    assert work.add("part", "s#2", "two")
    assert work.add("part", "s2#1", "other")
    lost = work.claim("part", "s#1", "a", NOON, until, added=True)
    assert lost == Claim("part", "s#1", 1, until, "one")
    assert work.claim("part", "s#1", "b", NOON, until, added=True) is None
    assert work.list_items("part", "s#") == [
        WorkItem("part", "s#1", "one", until, generation=1),
        WorkItem("part", "s#2", "two"),
    ]
    # The first worker wakes when another worker has finished the item: it cannot finish it any more.
    taken = work.claim("part", "s#1", "b", until, until + MINUTE, added=True)
    assert taken == Claim("part", "s#1", 2, until + MINUTE, "one")
    work.release(taken, "made by 2", done=True)
    work.release(lost, "made by 1", done=True)
    assert work.claim("part", "s#1", "c", NOON, until, added=True) is None
    assert [item.name for item in work.list_items("part")] == ["s#1", "s#2", "s2#1"]
    assert work.list_items("part")[0] == WorkItem("part", "s#1", "made by 2", None, 2, 2)
    for _ in range(2):
        work.remove("part", "s#1")
    assert [item.name for item in work.list_items("part", "s#")] == ["s#2"]
    work.release(taken, "late", done=True)
    assert [item.name for item in work.list_items("part", "s#")] == ["s#2"]


def list_sent(work: WorkRecords, kind: str = "seal") -> list[tuple[int, datetime | None, datetime | None]]:
    """Of each item: its generation, until when no other message is sent, and when the first was sent."""
    return [(item.generation, item.sent, item.waiting) for item in work.list_items(kind)]


def test_a_message_is_noted_until_a_worker_claims_the_item(work: WorkRecords) -> None:
    work.mark_sent(WorkItem("seal", "s"), NOON, NOON + MINUTE)
    (item,) = work.list_items("seal")
    assert item == WorkItem("seal", "s", sent=NOON + MINUTE, waiting=NOON)
    assert (item.is_sent(NOON), item.is_sent(NOON + MINUTE), item.is_claimed(NOON)) == (True, False, False)
    # A later message keeps the instant of the first one.
    work.mark_sent(item, NOON + MINUTE, NOON + 2 * MINUTE)
    assert list_sent(work) == [(0, NOON + 2 * MINUTE, NOON)]
    claim = work.claim("seal", "s", "a", NOON, NOON + MINUTE)
    assert claim == Claim("seal", "s", 1, NOON + MINUTE)
    assert list_sent(work) == [(1, None, None)]
    # The record was read before the claim: a message for it is one too many, and is not noted.
    work.mark_sent(item, NOON, NOON + MINUTE)
    work.release(claim, "memo", problem="no answer")
    (item,) = work.list_items("seal")
    assert item == WorkItem("seal", "s", "memo", generation=1, problem="no answer")
    work.mark_sent(item, NOON, NOON + MINUTE)
    assert list_sent(work) == [(1, NOON + MINUTE, NOON)]
    claim = work.claim("seal", "s", "b", NOON, NOON + MINUTE)
    assert claim is not None
    assert work.list_items("seal")[0].is_claimed(NOON)
    work.release(claim, "memo")
    assert work.list_items("seal") == [WorkItem("seal", "s", "memo", generation=2)]


def test_a_message_for_an_item_that_was_removed_does_not_bring_it_back(work: WorkRecords) -> None:
    assert work.add("part", "s#1", "one")
    (item,) = work.list_items("part")
    work.mark_sent(item, NOON, NOON + MINUTE, added=True)
    assert list_sent(work, "part") == [(0, NOON + MINUTE, NOON)]
    work.remove("part", "s#1")
    work.mark_sent(item, NOON, NOON + MINUTE, added=True)
    assert work.list_items("part") == []


def test_work_rests_of_a_stream_or_of_all_streams_until_it_goes_on(work: WorkRecords) -> None:
    assert work.list_pauses() == frozenset()
    one, all_streams = Pause("seal", "s-1"), Pause("seal", EVERY_STREAM)
    for pause in (one, one, all_streams):
        work.set_pause(pause, on=True)
    assert work.list_pauses() == {one, all_streams}
    work.set_pause(all_streams, on=False)
    work.set_pause(all_streams, on=False)
    pauses = work.list_pauses()
    assert pauses == {one}
    assert [rests(*item, pauses) for item in (("seal", "s-1"), ("seal", "s"), ("noting", "s-1"))] == [
        True,
        False,
        False,
    ]
    assert rests("seal", "any", frozenset({all_streams}))
    assert not rests("noting", "any", frozenset({all_streams}))


def test_a_claim_without_an_answer_is_no_claim() -> None:
    silent = LeanWork(make_lean_client("http://127.0.0.1:9"), "work")
    with pytest.raises(StoreUnavailable):
        silent.claim("seal", "s", "a", NOON, NOON + MINUTE)
    with pytest.raises(StoreUnavailable):
        silent.list_pauses()


def test_broken_records_stop_no_others(work: WorkRecords) -> None:
    if not isinstance(work, LeanWork):
        return
    for name, attributes in (("a", {"until": "soon"}), ("c", {"generation": "x"}), ("d", {"sent": 1})):
        work._put({"pk": "work#part", "sk": name, "memo": "{}", **attributes})
    assert work.add("part", "b", "memo")
    work._put({"pk": "pause", "sk": "everything"})
    items = work.list_items("part")
    assert [(item.name, item.memo, "cannot be read" in item.problem) for item in items] == [
        ("a", "", True),
        ("b", "memo", False),
        ("c", "", True),
        ("d", "", True),
    ]
    assert work.list_pauses() == {Pause("everything", "")}
