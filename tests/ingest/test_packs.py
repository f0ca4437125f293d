"""Packs from the request to the table and through the queue: whatever fails, each acknowledged event is stored once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.zstd import Zstd
from tests.fakes.noise import noise
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import LABEL, World, event
from tidetable.catalog import State
from tidetable.config.stream import LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.ingest.overflow import encode_message
from tidetable.layout import Key, Layout
from tidetable.layout.pack import is_pack, parse_address
from tidetable.layout.ref import Ref
from tidetable.packs import open_item, walk_packs
from tidetable.periods import Kind, find_containing
from tidetable.ports import Put, Written
from tidetable.times import from_text

SPAN = Duration(minutes=1)
DAY_BEFORE = "2026-02-28"


def packed(max_bytes: int = 65_536, **policy: Any) -> World:
    """A write path whose stream has packs."""
    stream = replace(CONFIG.streams["quakes"], pack=PackPolicy(span=SPAN, max_bytes=max_bytes), **policy)
    return World(replace(CONFIG, streams={"quakes": stream}, api=replace(CONFIG.api, max_body=10**7, max_events=1000)))


def burst(count: int, **ago: float) -> list[dict[str, Any]]:
    """Events that fall into one pack."""
    return [event(number, seconds=number / 100, **ago) for number in range(count)]


def read(world: World, label: str = LABEL) -> list[tuple[str, Any]]:
    """The ids and data of a period's events, as a reader settles them, oldest first."""
    layout = next(entry.layout for entry in world.catalog.entries("quakes") if entry.period.label == label)
    by_bucket: dict[str, list[Item]] = {}
    for item in sorted(world.table(label), key=lambda item: str(item["sk"])):
        by_bucket.setdefault(item["pk"].rpartition("#")[0], []).append(item)
    events = []
    for _, items in sorted(by_bucket.items()):
        opened = (open_item(item, layout, Zstd()) for item in items)
        for run in walk_packs(opened, span=60, ascending=True):
            for place, copy in zip(run.places, run.copies, strict=True):
                value = decode_json(copy.value) if isinstance(copy.value, str) else copy.value["data"]
                events.append((layout.parse_names(copy.address, place)[2], value))
    return events


def numbers(world: World, label: str = LABEL) -> list[int]:
    """The numbers of the events' data, sorted."""
    return sorted(int(data["n"]) for _, data in read(world, label))


def decode(sent: dict[str, Any]) -> Event:
    return Event(sent["series"], from_text(sent["time"]), sent["id"], sent["data"])


def test_the_events_of_a_request_are_one_item_and_each_has_its_ref() -> None:
    world = packed()
    outcome = world.send(*burst(50))
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.packs, outcome.write_units) == (200, 50, 0, 1, 1)
    (item,) = world.table(LABEL)
    assert item["n"] == 50
    assert numbers(world) == list(range(50))
    assert len(set(outcome.refs)) == 50
    for number, text in enumerate(outcome.refs):
        assert text is not None
        ref = Ref.decode(text)
        assert parse_address(ref.key.pk) == Key(item["pk"], item["sk"])
        assert ref.key.sk.endswith(f"#a#{number}")


def test_events_of_two_days_in_any_order_are_a_pack_a_day() -> None:
    world = packed()
    sent = [event(number, **ago) for number, ago in enumerate([{"days": 0}, {"days": 1}, {"days": 0}, {"days": 1}])]
    assert world.send(*sent).accepted == 4
    assert (world.count(LABEL), world.count(DAY_BEFORE)) == (1, 1)
    assert (numbers(world), numbers(world, DAY_BEFORE)) == ([0, 2], [1, 3])


def test_of_events_with_one_key_the_last_is_stored_and_all_have_its_ref() -> None:
    world = packed()
    sent = [event(1) | {"data": {"n": n}} for n in (7, 8, 9)]
    outcome = world.send(*sent, event(2))
    assert (outcome.accepted, outcome.packs) == (4, 1)
    assert read(world) == [("1", {"n": 9}), ("2", {"n": 2})]
    assert outcome.refs[0] == outcome.refs[1] == outcome.refs[2] != outcome.refs[3]


def test_sending_again_writes_the_same_items() -> None:
    world = packed()
    world.send(*burst(50), *burst(20, minutes=2))
    before = {(item["pk"], item["sk"]): item["pack"] for item in world.table(LABEL)}
    world.clock.time += timedelta(seconds=3)
    world.send(*burst(50), *burst(20, minutes=2))
    assert {(item["pk"], item["sk"]): item["pack"] for item in world.table(LABEL)} == before
    assert len(before) == 2


class _Stopped(BaseException):
    pass


@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_a_request_that_ends_between_two_writes_and_comes_again_leaves_every_event_once(written: int) -> None:
    world = packed()
    sent = [event for minutes in (0, 2, 4) for event in burst(10, minutes=minutes)]
    sent = [event | {"id": str(number), "data": {"n": number}} for number, event in enumerate(sent)]
    write = world.store.write

    def stopped(puts: Sequence[Put]) -> Written:
        write(puts[:written])
        raise _Stopped

    world.store.write = stopped  # type: ignore[method-assign]
    with pytest.raises(_Stopped):
        world.send(*sent)
    world.store.write = write  # type: ignore[method-assign]
    assert world.count(LABEL) == written
    assert world.send(*sent).accepted == 30
    assert world.count(LABEL) == 3
    assert numbers(world) == list(range(30))


def test_all_events_of_a_pack_that_is_throttled_are_queued_and_those_of_the_others_stored() -> None:
    world = packed()
    write = world.store.write

    def refusing(puts: Sequence[Put]) -> Written:
        late = [put for put in puts if put.item["sk"] < "2026-03-01T00:04"]
        written = write([put for put in puts if put not in late])
        written.unwritten += late
        written.throttles.update(put.table for put in late)
        return written

    world.store.write = refusing  # type: ignore[method-assign]
    early = [event(100 + number, minutes=3, seconds=number) for number in range(30)]
    outcome = world.send(*burst(50), *early, early[4] | {"data": {"n": 999}})
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.packs) == (202, 50, 31, 1)
    wanted = sorted([*(number for number in range(100, 130) if number != 104), 999])
    assert sorted(message.data["n"] for message in world.overflow.queued) == wanted, (
        "each event once, the repeated one as last sent"
    )
    assert None not in outcome.refs
    world.store.write = write  # type: ignore[method-assign]
    assert world.drain(encode_message("quakes", world.overflow.queued, 1)) == 30
    assert numbers(world) == [*range(50), *wanted]


def test_events_of_a_table_that_is_missing_or_not_recorded_are_queued_once_and_as_last_sent() -> None:
    for recorded in (True, False):
        world = packed()
        del world.store.tables[f"tidetable-t.quakes.{LABEL}"]
        if not recorded:
            del world.catalog.items["quakes", find_containing(NOW, Kind.DAY)]
        outcome = world.send(event(1), event(2), event(1) | {"data": {"n": 9}}, *burst(3, days=1))
        assert (outcome.status, outcome.accepted, outcome.queued) == (202, 3, 3)
        assert sorted((message.id, message.data["n"]) for message in world.overflow.queued) == [("1", 9), ("2", 2)]


def test_a_table_that_throttled_a_pack_is_left_alone_and_its_events_are_queued() -> None:
    world = packed()
    world.store.throttled = 10**6
    world.send(*burst(5))
    world.store.throttled = 0
    world.overflow.queued.clear()
    outcome = world.send(*burst(20))
    assert (outcome.accepted, outcome.queued, outcome.packs, len(world.overflow.queued)) == (0, 20, 0, 20)


def test_an_event_too_large_for_a_pack_is_an_item_of_its_own_and_beyond_an_item_it_is_refused() -> None:
    world = packed(max_bytes=2_000)
    large = event(100) | {"data": {"n": 100, "text": noise(9_000)}}
    larger = event(101) | {"data": {"n": 101, "text": noise(450_000)}}
    outcome = world.send(*burst(10), large, larger, large | {"data": {"n": 102, "text": noise(9_000)}})
    assert (outcome.accepted, outcome.queued, outcome.packs) == (12, 0, 1)
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(11, "too_large")]
    assert sorted(is_pack(item) for item in world.table(LABEL)) == [False, True]
    assert numbers(world) == [*range(10), 102]
    assert outcome.refs[10] == outcome.refs[12]
    alone = Ref.decode(str(outcome.refs[12])).key
    assert world.store.get(f"tidetable-t.quakes.{LABEL}", alone) is not None


def test_an_event_too_large_for_a_pack_takes_the_streams_remedy() -> None:
    large = replace(CONFIG.streams["quakes"].large, beyond="s3")
    world = packed(max_bytes=2_000, large=large)
    sent = event(100) | {"data": {"n": 100, "text": noise(950_000)}}
    outcome = world.send(*burst(10), sent)
    assert (outcome.accepted, len(world.values.blobs)) == (11, 1)


def test_the_ref_of_an_event_too_large_for_a_pack_names_its_own_item() -> None:
    world = packed(max_bytes=2_000)
    large = [event(number) | {"data": {"n": number, "text": noise(9_000, number)}} for number in range(4)]
    outcome = world.send(*large, event(4, seconds=1))
    alone = {Key(item["pk"], item["sk"]) for item in world.table(LABEL) if not is_pack(item)}
    assert {Ref.decode(ref or "").key for ref in outcome.refs[:4]} == alone
    assert len({key.pk for key in alone}) > 1, "the items have suffixes of their own"


def test_of_events_with_one_key_the_last_decides_also_if_no_form_can_hold_it() -> None:
    """The stream keeps large values in S3, but no answer could hold an event of this size."""
    world = packed(large=LargePolicy(beyond="s3"))
    beyond = event(1) | {"data": {"n": 1, "text": noise(2_600_000)}}
    outcome = world.send(event(1), beyond, event(2))
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [
        (0, "too_large"),
        (1, "too_large"),
    ]
    assert numbers(world) == [2]
    again = world.send(beyond, event(1))
    assert (again.rejections, again.refs[0] == again.refs[1], numbers(world)) == ([], True, [1, 2])


def change_layout(world: World, label: str, layout: Layout) -> None:
    key = next(key for key in world.catalog.items if key[1].label == label)
    world.catalog.items[key] = replace(world.catalog.items[key], layout=layout)


def test_a_period_keeps_the_packs_that_it_began_with_or_its_plain_items() -> None:
    """A stream changes from packs and to packs; existing periods stay as they are."""
    plain = CONFIG.streams["quakes"].layout
    world = packed()
    change_layout(world, DAY_BEFORE, plain)
    world.send(*burst(5), *burst(5, days=1))
    assert (world.count(LABEL), world.count(DAY_BEFORE)) == (1, 5)
    world = World(replace(CONFIG, api=replace(CONFIG.api, max_body=10**6)))
    change_layout(world, DAY_BEFORE, packed().config.streams["quakes"].layout)
    outcome = world.send(*burst(5), *burst(5, days=1))
    assert (world.count(LABEL), world.count(DAY_BEFORE), outcome.packs) == (5, 1, 1)
    assert numbers(world, DAY_BEFORE) == list(range(5))


def test_what_waited_in_the_queue_does_not_replace_what_was_accepted_after_it() -> None:
    """Within the window and behind it; whichever is written first."""
    waited = [decode(event(number, days=1) | {"data": {"n": -1}}) for number in range(3)]
    newer = [decode(event(number, days=1)) for number in range(1, 4)]
    for late in (timedelta(0), timedelta(days=3)):
        for first, second in (((newer, 2000), (waited, 1000)), ((waited, 1000), (newer, 2000))):
            world = packed()
            world.clock.time += late
            for events, at in (first, second):
                assert world.drain(encode_message("quakes", events, at)) == 3
            assert read(world, DAY_BEFORE) == [("0", {"n": -1}), ("1", {"n": 1}), ("2", {"n": 2}), ("3", {"n": 3})]


def test_what_waited_does_not_replace_what_a_request_wrote_meanwhile() -> None:
    world = packed()
    world.store.throttled = 10**6
    world.send(*[event | {"data": {"n": -1}} for event in burst(3)])
    world.store.throttled = 0
    at = int(NOW.timestamp() * 1000)
    waiting = encode_message("quakes", world.overflow.queued, at)
    world.clock.time += timedelta(minutes=1)
    world.send(*burst(2))
    assert world.drain(waiting) == 3
    assert numbers(world) == [-1, 0, 1]


def test_the_drain_that_ends_between_two_writes_writes_the_same_again() -> None:
    """A message in the window, and one behind it, whose packs are written in one transaction."""
    events = [decode(event(number, days=1, minutes=2 * (number % 3))) for number in range(9)]
    message = encode_message("quakes", events, 1000)
    for late, stops in ((timedelta(0), 3), (timedelta(days=3), 1)):
        whole = packed()
        whole.clock.time += late
        assert whole.drain(message) == 9
        items = whole.table(DAY_BEFORE)
        assert len(items) == 3
        for stop in range(stops):
            world = packed()
            world.clock.time += late
            stop_after(world, stop)
            with pytest.raises(_Stopped):
                world.drain(message)
            del world.store.write_each, world.store.transact
            assert len(world.table(DAY_BEFORE)) == stop
            assert (world.drain(message), world.drain(message)) == (9, 9)
            assert sorted(item["sk"] for item in world.table(DAY_BEFORE)) == sorted(item["sk"] for item in items)
            assert numbers(world, DAY_BEFORE) == list(range(9))


def stop_after(world: World, writes: int) -> None:
    """End the process after a number of written items."""
    write_each, transact = world.store.write_each, world.store.transact
    left = [writes]

    def one_by_one(puts: Sequence[Put], guard: Any) -> Written:
        total = Written()
        for put in puts:
            if left[0] == 0:
                raise _Stopped
            left[0] -= 1
            total.add(write_each([put], guard))
        return total

    def fenced(puts: Any, entry: Any = None, total: Any = None) -> Any:
        if left[0] == 0:
            raise _Stopped
        left[0] -= 1
        return transact(puts, entry, total)

    world.store.write_each, world.store.transact = one_by_one, fenced  # type: ignore[method-assign]


def test_the_drain_writes_no_pack_into_a_table_that_is_archived() -> None:
    world = packed()
    world.clock.time += timedelta(days=3)
    stale = list(world.catalog.entries("quakes"))
    world.move(DAY_BEFORE, State.ARCHIVING)
    world.catalog.entries = lambda *_, **__: stale  # type: ignore[method-assign]
    with pytest.raises(Exception, match="restore it"):
        world.drain(encode_message("quakes", [decode(event) for event in burst(5, days=1)], 1))
    assert world.stored() == 0


def test_the_drain_packs_a_large_event_beside_small_ones() -> None:
    world = packed(max_bytes=2_000)
    large = event(100) | {"data": {"n": 100, "text": noise(9_000)}}
    message = encode_message("quakes", [decode(event) for event in [*burst(5), large]], 1)
    assert world.drain(message) == 6
    assert sorted(is_pack(item) for item in world.table(LABEL)) == [False, True]
    assert numbers(world) == [0, 1, 2, 3, 4, 100]


def test_a_message_of_a_stream_that_is_no_longer_configured_keeps_to_the_layout_of_its_period() -> None:
    world = packed()
    world.config = replace(world.config, streams={})
    assert world.drain(encode_message("quakes", [decode(event) for event in burst(5)], 1)) == 5
    assert [item["n"] for item in world.table(LABEL)] == [5]


def test_a_pack_by_series_holds_one_series() -> None:
    stream = CONFIG.streams["quakes"]
    world = packed(key=replace(stream.key, partition_by="series", bucket=None, shards=1))
    sent = [sent_event | {"series": f"s#{number % 3}"} for number, sent_event in enumerate(burst(30))]
    outcome = world.send(*sent)
    assert (outcome.accepted, outcome.packs) == (30, 3)
    assert sorted((item["pk"], item["n"]) for item in world.table(LABEL)) == [
        ("s%230#0", 10),
        ("s%231#0", 10),
        ("s%232#0", 10),
    ]
    assert numbers(world) == list(range(30))


def test_of_a_request_with_problems_the_good_events_are_packed() -> None:
    world = packed()
    outcome = world.send(*burst(3), {"series": ""}, event(5, days=9))
    assert (outcome.accepted, [rejection.code for rejection in outcome.rejections]) == (3, ["invalid", "too_old"])
    assert [item["n"] for item in world.table(LABEL)] == [3]
    assert [ref is None for ref in outcome.refs] == [False, False, False, True, True]


def test_times_of_arrival_are_times_of_the_pack() -> None:
    world = packed()
    outcome = world.post(json.dumps([{"series": "a", "data": {"n": 1}}, {"series": "b", "data": {"n": 2}}]).encode())
    assert outcome.accepted == 2
    (item,) = world.table(LABEL)
    assert datetime.fromisoformat(item["oldest"]) == NOW
    assert numbers(world) == [1, 2]
