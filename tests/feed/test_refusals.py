"""What a target does not accept: a busy target is waited for, and only a change that is wrong by itself becomes a dead
letter, ``max_age`` after its first failure.
"""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.zstd import Zstd
from tests.worlds.feeds import NOW, ONE, PACKED, TWO, FeedTarget, FeedWorld, accept, fail, refuse, refuse_whole
from tests.worlds.packing import make_packs
from tidetable.errors import ChangesRefused, TargetBusy
from tidetable.events import Event
from tidetable.feed.targets import FeedMessage

DOWN = [TimeoutError("no answer"), TargetBusy("throttled", range(4)), ClientError({"Error": {"Code": "500"}}, "Invoke")]


@pytest.mark.parametrize("error", DOWN, ids=["silent", "throttled", "broken"])
def test_a_single_target_that_is_down_is_waited_for_until_the_last_hour(error: Exception) -> None:
    """A queue that nobody made yet, a stream that is throttled: the changes wait in the table's stream, in order."""
    target = FeedTarget(ONE)
    world = FeedWorld(target)
    records = [world.record(n, timedelta(hours=2)) for n in range(6)]
    target.answer = fail(error)
    for _ in range(20):
        delivered = world.deliver(*records)
        assert (delivered.first_failure, delivered.buried) == ("0", 0)
        world.clock.sleep(3_600)
    target.answer = accept
    assert world.deliver(*records).first_failure is None
    assert target.taken == [0, 1, 2, 3, 4, 5]


def test_in_the_last_hour_of_its_records_what_a_target_did_not_take_becomes_letters_quickly() -> None:
    """A shard may have 1,000 records per second: no batch of the last hour waits for each of its requests."""
    target = FeedTarget(ONE)
    world = FeedWorld(target)
    target.answer = fail(TimeoutError("no answer"))
    records = [world.record(n, timedelta(hours=23, minutes=1)) for n in range(20)]
    young = world.record(20, timedelta(hours=1))
    assert world.deliver(*records, young).first_failure == "20"
    assert world.letters.of(ONE) == list(range(20))
    assert len(target.requests) == 3, "three tries of one request"
    target.answer = accept
    assert world.deliver(young).first_failure is None
    assert world.redeliver() == 20
    assert target.taken == [20, *range(20)]


@pytest.mark.parametrize("answer", [refuse, refuse_whole])
@pytest.mark.parametrize("bad", [(0,), (3,), (9,), (4, 5), (1, 7), (0, 1, 2, 3)])
def test_only_the_changes_that_a_target_refuses_become_letters_an_hour_after_their_first_failure(
    answer: Any, bad: tuple[int, ...]
) -> None:
    target = FeedTarget(ONE, answer(*bad))
    world = FeedWorld(target)
    records = [world.record(n) for n in range(10)]
    seen = 0
    for _ in range(500):
        delivered = world.deliver(*records)
        assert len(world.letters.kept) == 0 or world.clock.now() - NOW > timedelta(hours=1)
        if delivered.first_failure is None:
            break
        seen = int(delivered.first_failure)
        records = [record for record in records if int(record.sequence) >= seen]
        world.clock.sleep(300)
    assert sorted(world.letters.of(ONE)) == list(bad)
    assert sorted(set(target.taken)) == [n for n in range(10) if n not in bad]


def test_a_target_that_is_throttled_for_some_of_its_messages_is_waited_for() -> None:
    """A hot shard of a Kinesis stream refuses some records of every request. They are not wrong themselves."""
    target = FeedTarget(ONE, refuse(1))
    world = FeedWorld(target)
    records = [world.record(n) for n in range(2)]
    send = target.send

    def throttle(messages: Sequence[FeedMessage]) -> None:
        try:
            send(messages)
        except ChangesRefused as error:
            raise TargetBusy("ProvisionedThroughputExceededException", error.numbers) from error

    target.send = throttle  # type: ignore[method-assign]
    for _ in range(4):
        assert world.deliver(*records).first_failure == "1"
        world.clock.sleep(3_700)
    assert (set(target.taken), world.letters.kept) == ({0}, [])


def test_after_a_bad_change_was_found_requests_are_as_large_as_before() -> None:
    target = FeedTarget(ONE, refuse_whole(0), most_messages=100)
    world = FeedWorld(target)
    records = [world.record(n) for n in range(100)]
    world.deliver(*records)
    world.clock.sleep(3_700)
    target.requests.clear()
    assert world.deliver(*records).first_failure is None
    assert world.letters.of(ONE) == [0]
    # Three tries of all, six halves, and then requests of 1, 2, 4, ... messages.
    assert len(target.requests) == 16


def test_the_first_failure_counts_and_not_the_age_of_the_record() -> None:
    target = FeedTarget(ONE, refuse(1))
    world = FeedWorld(target)
    records = [world.record(n, timedelta(hours=8)) for n in range(2)]
    assert world.deliver(*records).first_failure == "1"
    world.clock.sleep(3_590)
    assert world.deliver(records[1]).first_failure == "1"
    world.clock.sleep(20)
    assert world.deliver(records[1]).first_failure is None
    assert world.letters.of(ONE) == [1]


def test_a_change_that_was_accepted_once_begins_a_new_hour_when_it_fails_again() -> None:
    target = FeedTarget(ONE, refuse(0))
    world = FeedWorld(target)
    record = world.record(0)
    world.deliver(record)
    target.answer = accept
    world.deliver(record)
    target.answer = refuse(0)
    world.clock.sleep(3_700)
    assert world.deliver(record).first_failure == "0"
    assert world.letters.kept == []


def test_a_target_that_refuses_every_change_is_at_fault_and_waited_for() -> None:
    """Its database is down, or its code is wrong: each of its changes waits, and none is thrown away."""
    target = FeedTarget(ONE, refuse_whole(*range(100)), most_messages=100)
    world = FeedWorld(target)
    records = [world.record(n) for n in range(100)]
    for _ in range(3):
        assert world.deliver(*records).first_failure == "0"
        world.clock.sleep(3_700)
    assert world.letters.kept == []
    assert len(target.requests) < 70
    target.answer = refuse_whole(17)
    assert world.deliver(*records).first_failure is None
    assert world.letters.of(ONE) == [17]


def test_a_single_change_that_is_refused_for_an_hour_is_a_letter_although_nothing_else_comes() -> None:
    """With the next change of the same event behind it, too: the newer state must not wait for a day."""
    target = FeedTarget(ONE, refuse(0))
    world = FeedWorld(target)
    first = world.record(0)
    second = first._replace(sequence="1")
    world.deliver(first, second)
    world.clock.sleep(3_700)
    assert world.deliver(first, second).first_failure == "1"
    assert world.letters.of(ONE) == [0]


def test_another_shard_shows_that_a_target_works() -> None:
    """Then two refused changes are wrong by themselves, although nothing else of their batch is accepted."""
    target = FeedTarget(ONE, refuse_whole(0, 1))
    world = FeedWorld(target)
    records = [world.record(n) for n in range(2)]
    assert world.deliver(*records).first_failure == "0"
    world.clock.sleep(3_700)
    assert world.deliver(*records).first_failure == "0"
    world.deliver(world.record(50))
    assert world.deliver(*records).first_failure is None
    assert world.letters.of(ONE) == [0, 1]


def test_with_two_targets_the_hour_of_a_target_that_is_down_begins_with_its_first_failure() -> None:
    down, well = FeedTarget(ONE, fail(TimeoutError("no answer"))), FeedTarget(TWO)
    world = FeedWorld(down, well)
    records = [world.record(n, timedelta(hours=9)) for n in range(3)]
    assert world.deliver(*records).first_failure == "0"
    world.clock.sleep(3_500)
    assert world.deliver(*records).first_failure == "0"
    assert world.letters.kept == []
    world.clock.sleep(200)
    assert world.deliver(*records).first_failure is None
    assert world.letters.of(ONE) == [0, 1, 2]
    assert well.taken == [0, 1, 2]
    down.answer = accept
    assert world.redeliver() == 3
    assert down.taken == [0, 1, 2]


@pytest.mark.parametrize("bury", ["read", "send"])
def test_a_change_that_can_become_no_letter_comes_again(bury: str) -> None:
    """The queue of dead letters does not answer either. What was delivered before counts."""
    target = FeedTarget(ONE, refuse(1) if bury == "send" else accept)
    world = FeedWorld(target)
    records = [world.record(n) for n in range(3)]
    if bury == "read":
        records[1] = records[1]._replace(item={"pk": "strange", "sk": "strange", "data": {}})
    world.deliver(*records)
    world.clock.sleep(3_700)
    world.letters.kept.clear()
    world.letters.shut = True
    delivered = world.deliver(*records)
    assert delivered.first_failure == "1"
    assert "no dead letter could be written: ConnectionError" in delivered.reason
    world.letters.shut = False
    assert world.deliver(*records[1:]).first_failure is None
    assert len(world.letters.kept) == 1
    assert set(target.taken) == {0, 2}


@pytest.mark.parametrize("answer", [refuse, refuse_whole])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_of_a_pack_only_the_change_that_is_refused_becomes_a_letter(answer: Any, most: int) -> None:
    """The other changes of its record are accepted again and again, while the hour of this one goes on."""
    target = FeedTarget(ONE, answer(4), most_messages=most)
    world = FeedWorld(target, layout=PACKED)
    items = [PACKED.make_item(Event("a", NOW, str(n), {"n": n}), at=1) for n in range(7)]
    record = world.put(make_packs(items, PACKED, Zstd()).packs[0].item, 0)
    for _ in range(6):
        assert world.deliver(record).first_failure == "0"
        assert world.letters.kept == []
        world.clock.sleep(650)
    assert world.deliver(record).first_failure is None
    assert world.letters.of(ONE) == [4]
    assert set(target.taken) == {0, 1, 2, 3, 5, 6}


@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_target_does_each_change_is_accepted_or_a_letter(seed: int) -> None:
    """Bad changes, outages, calls of any size, short calls, a queue of dead letters that fails: nothing is skipped, and
    no state of an event arrives before its earlier states.

    Letters are bad changes only, unless the target did nothing for an hour beside another, or the last hour has come.
    """
    random = Random(seed)
    whole, several = random.random() < 0.5, random.random() < 0.3
    bad = set(random.sample(range(30), random.choice([0, 1, 2, 5, 12])))
    outages = [random.randrange(60) for _ in range(random.choice([0, 1, 10]))]
    target = FeedTarget(ONE, accept, most_messages=random.choice([1, 3, 10, 100]))
    world = FeedWorld(target, FeedTarget(TWO)) if several else FeedWorld(target)
    rounds = 0

    def answer(numbers: list[int]) -> Sequence[int]:
        if rounds in outages:
            raise TimeoutError("no answer")
        refused = (refuse_whole if whole else refuse)(*bad)(numbers)
        done = {*target.taken, *world.letters.of(ONE)}
        for place, number in enumerate(numbers):
            if place not in refused and not set(range(number % events, number, events)) <= done:
                pytest.fail(f"{number} arrived before an earlier state of its event")
        return refused

    target.answer = answer
    events = random.choice([2, 7, 30])
    records = [world.record(n, timedelta(hours=5), id=str(n % events)) for n in range(30)]
    position = 0
    while position < 30:
        batch = records[position : position + random.randint(1, 30)]
        world.letters.shut = random.random() < 0.1
        left = iter(range(100, 0, -random.choice([1, 1, 30])))
        delivered = world.feeds.deliver(batch, lambda steps=left: float(next(steps, 1)))  # type: ignore[misc]
        position = int(delivered.first_failure) if delivered.first_failure else position + len(batch)
        world.clock.sleep(random.choice([10, 600, 2_000]))
        rounds += 1
        assert rounds < 400
    letters = set(world.letters.of(ONE))
    assert letters | set(target.taken) == set(range(30))
    assert not bad & set(target.taken)
    if not several and world.clock.now() - NOW < timedelta(hours=17):
        assert letters == bad
