"""Dead letters of records that could not be read: a replay reads the item again."""

from datetime import timedelta

import pytest

from aws.zstd import Zstd
from tests.worlds.feeds import NOW, ONE, PACKED, TABLE, TWO, FeedTarget, FeedWorld, accept, fail, refuse
from tests.worlds.packing import make_packs
from tidetable.errors import NotReady, Outage, StoreUnavailable
from tidetable.events import Event


def test_a_record_that_could_not_be_read_is_read_again_by_a_replay() -> None:
    """Its pack was damaged, or of a format that only the next version reads. Then its letter delivers every event."""
    first, second = FeedTarget(ONE), FeedTarget(TWO)
    world = FeedWorld(first, second, layout=PACKED)
    items = [PACKED.make_item(Event("a", NOW, str(n), {"n": n}), at=1) for n in range(3)]
    (pack,) = make_packs(items, PACKED, Zstd()).packs
    record = world.put({**pack.item, "format": 99}, 7)
    assert world.deliver(record).buried == 1
    with pytest.raises(Exception, match="format 99"):
        world.redeliver()
    assert world.deliver(record).buried == 1
    world.put(pack.item, 7)
    # A read that is not strongly consistent may not see the item yet.
    world.store.stale = {TABLE: {}}
    assert world.redeliver() == 1
    assert (first.taken, second.taken) == ([0, 1, 2], [0, 1, 2])
    assert first.bodies[0]["data"] == {"n": 0}
    # A later delivery of the same record has the same sequence: a target that has the change ignores it.
    sequences = [body["sequence"] for body in first.bodies]
    world.deliver(world.put(pack.item, 7))
    assert [body["sequence"] for body in first.bodies[3:]] == sequences


def test_a_record_of_an_unavailable_bucket_is_read_again_by_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FeedWorld()
    record = world.large(3, timedelta(hours=23, minutes=1))
    with monkeypatch.context() as patch:
        patch.setattr(world.values, "get", fail(StoreUnavailable(Outage.NO_ANSWER, "no answer")))
        delivered = world.deliver(record)
    assert (delivered.first_failure, delivered.buried) == (None, 1)
    assert world.redeliver() == 1
    assert world.targets[ONE].bodies[0]["data"] == {"n": 3}


def test_a_replay_of_a_record_whose_item_or_table_is_gone_keeps_its_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FeedWorld()
    record = world.record(0, timedelta(hours=23, minutes=1))
    with monkeypatch.context() as patch:
        patch.setattr(world.catalog, "entries", fail(TimeoutError()))
        world.deliver(record)
    ((target, body),) = world.letters.kept
    world.store.tables[TABLE].clear()
    with pytest.raises(NotReady, match="has no item"):
        world.feeds.redeliver("orders", target, [body], lambda: 100.0)
    world.store.tables.clear()
    with pytest.raises(NotReady, match="read the events of period 2026-03-01 by a query"):
        world.feeds.redeliver("orders", target, [body], lambda: 100.0)
    monkeypatch.setattr(world.catalog, "entries", lambda *_: ())
    world.feeds._entries.clear()
    with pytest.raises(NotReady, match="the catalog has no period"):
        world.feeds.redeliver("orders", target, [body], lambda: 100.0)


def test_after_a_replay_the_newest_state_still_has_the_greatest_sequence() -> None:
    """The older state became a letter, the newer state was delivered. The letter comes last, and shows that it is older."""
    target = FeedTarget(ONE)
    world = FeedWorld(target)
    first = world.record(5)
    newer = first._replace(sequence="10", kind="replace", item={**(first.item or {}), "data": {"n": 6}, "at": 6})
    target.answer = refuse(5)
    world.deliver(first)
    world.clock.sleep(3_700)
    assert world.deliver(first).buried == 1
    target.answer = accept
    world.deliver(newer)
    world.redeliver()
    assert [body["data"]["n"] for body in target.bodies] == [6, 5]
    assert max(target.bodies, key=lambda body: str(body["sequence"]))["data"] == {"n": 6}
