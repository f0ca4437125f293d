"""Requests to a stream with packs, by columns: the same packs as event by event, and left to that way where they must be."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aws.zstd import Zstd
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import LABEL, World, event
from tidetable.access import FULL
from tidetable.catalog import State
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration
from tidetable.ingest.bodies import decode_raw, read_body
from tidetable.ingest.columns import Batch, read_batch, route_batch
from tidetable.ingest.context import RequestContext
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item
from tidetable.times import to_text
from tidetable.window import Window

WINDOW = Window(NOW - timedelta(days=2), NOW + timedelta(minutes=5))
CONTEXT = RequestContext(CONFIG.streams["quakes"], WINDOW, NOW, CONFIG.streams["quakes"].layout)
# An event that no way takes, so that the request is judged event by event.
BAD: dict[str, Any] = {"series": ""}


def packed(max_bytes: int = 65_536, **key: Any) -> World:
    """An intake whose stream has packs."""
    stream = CONFIG.streams["quakes"]
    pack = PackPolicy(span=Duration(minutes=1), max_bytes=max_bytes)
    stream = replace(stream, pack=pack, key=replace(stream.key, **key))
    return World(replace(CONFIG, streams={"quakes": stream}, api=replace(CONFIG.api, max_body=10**6, max_events=1000)))


def batch(body: bytes, kind: str = "application/json", *, small: bool = True) -> Batch | None:
    """A body by columns; None if it is left to the other way."""
    sent = decode_raw(read_body(body, kind, max_body=10**7), max_events=1000)
    return read_batch(CONTEXT, sent, small=small)


def rows(found: Batch | None) -> list[tuple[str, str, str, Any]]:
    """The events of a batch."""
    assert found is not None
    events = [found.decode(number) for number in range(len(found.times))]
    return [(event.series, to_text(event.time), event.id, event.data) for event in events]


NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "7", "1.50", "1.5", "-3.250", "100", "100.0", "0.000001", "0.0000001", "0.00000000", "1e3", "1.5E-7",
     "-1.0e+2", "123456789012345678901", "1234567890.12345678901234567890", "12345678901234567890123456789012345678"]
)  # fmt: skip
TEXTS = st.sampled_from(
    [
        '""',
        '"a"',
        '"é"',
        '"\\u00e9"',
        '"1.50"',
        '"-0"',
        '"1e5"',
        '"a\\/b"',
        '"say \\"hi\\""',
        '"a\\nb"',
        '"[{"',
        '"\u2028"',
        '"E"',
    ]
)
NESTED = st.sampled_from(
    ["{}", "[]", "[1.50, -0 ]", '{"b": 1.0,\n "a": [2e2]}', "[[ ]]", '{"z":{"y":"x"}}', "true", "false", "null"]
)
VALUES = st.one_of(NUMBERS, TEXTS, NESTED)
DATAS = st.one_of(
    st.fixed_dictionaries({'"n"': NUMBERS}),
    st.fixed_dictionaries({'"b"': VALUES, '"a"': NUMBERS}),
    st.dictionaries(st.sampled_from(['"a"', '"b"', '"é"', '"\\u0062"', '"%"', '"c d"']), VALUES, max_size=4),
)
TIMES = st.sampled_from(
    ['"2026-03-01T00:04:00Z"', '"2026-03-01T00:03:59.123Z"', '"2026-02-28T23:59:59.999999Z"', '"2026-03-01T00:04:00+00:00"',
     '"2026-03-01T00:03:00.000001+00:00"', '"2026-03-01T02:04:00+02:00"', '"2026-03-01T00:04:00.0000001Z"', "1772323440000", None]
)  # fmt: skip


@st.composite
def sent_events(draw: st.DrawFn) -> list[str]:
    """Events as JSON, with whatever spaces and escapes: mostly of one kind, as senders are."""
    kinds = draw(st.lists(DATAS, min_size=1, max_size=3))
    alike = draw(st.booleans())
    time = draw(TIMES)
    texts = []
    for number in range(draw(st.integers(1, 12))):
        data = draw(st.sampled_from(kinds)) if alike else draw(DATAS)
        fields = [f'"series":"{draw(st.sampled_from(["a", "b#1", "%"]))}"']
        if draw(st.integers(0, 3)):
            fields.append(f'"id": "{number % 9}"')
        stamp = time if alike else draw(TIMES)
        if stamp is not None:
            fields.append(f'"time":{stamp}')
        fields.append('"data" : {' + ", ".join(f"{name}: {value}" for name, value in data.items()) + "}")
        texts.append("{" + ",".join(fields) + "}")
    return texts


@settings(deadline=None, max_examples=150)
@given(sent_events(), st.sampled_from(["time", "series"]))
def test_both_ways_make_the_same_packs_refs_and_answers(sent: list[str], partition_by: str) -> None:
    key: dict[str, Any] = {"partition_by": "series", "bucket": None} if partition_by == "series" else {}
    by_columns, by_event = packed(**key), packed(**key)
    first = by_columns.post(f"[{','.join(sent)}]".encode())
    second = by_event.post(f"[{','.join([*sent, json.dumps(BAD)])}]".encode())
    assert by_columns.store.tables == by_event.store.tables
    assert (first.accepted, first.queued, first.packs) == (second.accepted, 0, second.packs)
    assert (first.newest, first.write_units) == (second.newest, second.write_units)
    assert [*first.refs, None] == second.refs
    assert [rejection.code for rejection in first.rejections] == [
        rejection.code for rejection in second.rejections[:-1]
    ]


def test_values_stay_as_they_were_sent_until_they_are_packed() -> None:
    columns = batch(b'[{"series":"a","id":"x","time":"2026-03-01T00:00:00Z","data":{"n": 1.50}}]')
    assert columns is not None
    assert [bytes(data["n"]) for data in columns.datas] == [b"1.50"]
    assert columns.times == ["2026-03-01T00:00:00.000000Z"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'[{"series":"a","id":"x"},{"series":"b","id":"y","data":{"n":1}}]'),
        ("application/json", b' {"events" : [{"series":"a","id":"x"},{"series":"b","id":"y","data":{"n":1}}] } '),
        ("application/x-ndjson", b'{"series":"a","id":"x"}\n\n{"series":"b","id":"y","data":{"n":1}}\n'),
        ("application/json", gzip.compress(b'[{"series":"a","id":"x"},{"series":"b","id":"y","data":{"n":1}}]')),
    ],
)
def test_bodies_of_every_form_are_read_by_columns(kind: str, body: bytes) -> None:
    assert rows(batch(body, kind)) == [("a", to_text(NOW), "x", {}), ("b", to_text(NOW), "y", {"n": 1})]


def sent(**fields: Any) -> bytes:
    """A request of an event and another with these fields."""
    return json.dumps([event(1), event(2) | fields]).encode()


UNUSUAL = {
    "a value that is no event": b'[{"series":"a"},7]',
    "a single event": b'{"series":"a"}',
    "an empty array": b"[]",
    "a body with another field": b'{"events":[{"series":"a"}],"more":1}',
    "no UTF-8 in a value": b'[{"series":"a","id":"x","data":{"v":"\xff"}}]',
    "a batch with another end": b'{"events":[{"series":"a"}]]',
    "half of a surrogate pair": b'[{"series":"a","data":{"v":"\\ud800"}}]',
    "a number with a zero before it": b'[{"series":"a","data":{"v":01}}]',
    "an event cut short": b'[{"series":"a","data":{"v":1}}',
    "a value that is nested too deeply": b'[{"series":"a","data":{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}}]",
    "an empty series": sent(series=""),
    "a long series": sent(series="s" * 481),
    "an empty id": sent(id=""),
    "a long id": sent(id="i" * 481),
    "an unknown field": sent(more=1),
    "a time that is none": sent(time="2026-02-30T00:00:00Z"),
    "a number as a text": sent(time="1772323440000"),
    "a time before the window": sent(time="2026-02-26T23:59:59.999999Z"),
    "a time after the window": sent(time="2026-03-01T00:10:00.000001Z"),
}


@pytest.mark.parametrize("body", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_unusual_is_left_to_the_verdict_on_each_event(body: bytes) -> None:
    assert batch(body) is None


@pytest.mark.parametrize("time", ["2026-02-27T00:05:00.000000Z", "2026-03-01T00:10:00.000000Z"])
def test_the_edges_of_the_window_are_within_it(time: str) -> None:
    assert batch(sent(time=time)) is not None


def test_two_values_in_a_line_of_ndjson_are_left_to_the_other_way() -> None:
    assert batch(b'{"series":"a"} {"series":"b"}\n', "application/x-ndjson") is None
    assert batch(b'{"series":\n"a"}\n{"series":"b"}\n', "application/x-ndjson") is None


def test_more_events_than_a_request_may_have_are_refused() -> None:
    with pytest.raises(Exception, match="more than 1000 events"):
        packed().post(json.dumps([event(n) for n in range(1001)]).encode())
    escaped = json.dumps([event(n) for n in range(1001)]).replace('"series"', '"\\u0073eries"')
    with pytest.raises(Exception, match="more than 1000 events"):
        packed().post(escaped.encode())


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ('{"n": 123456789012345678901234567890123456789}', "more than 38 digits"),
        ('{"n": 1e126}', "lies outside"),
        ('{"n": {"": 1}}', "field without a name"),
        ('{"": 1}', "field without a name"),
        ('{"n": ' + "[" * 31 + "]" * 31 + "}", "nested more than 31"),
    ],
)
def test_what_dynamodb_refuses_is_rejected_alone(data: str, detail: str) -> None:
    world = packed()
    body = f'[{json.dumps(event(1))},{{"series":"a","id":"9","data":{data}}}]'
    outcome = world.post(body.encode())
    assert (outcome.accepted, [(rejection.index, rejection.code) for rejection in outcome.rejections]) == (
        1,
        [(1, "invalid")],
    )
    assert detail in outcome.rejections[0].detail
    assert [item["n"] for item in world.table(LABEL)] == [1]


def test_the_deepest_value_that_dynamodb_takes_is_packed() -> None:
    """``data`` is the first level of 31, so a value in it has 30."""
    world = packed()
    body = '[{"series":"a","data":{"n":' + "[" * 30 + "]" * 30 + "}}]"
    assert world.post(body.encode()).accepted == 1


def test_an_event_that_may_be_beyond_an_item_is_measured() -> None:
    body = json.dumps([event(1), event(2) | {"data": {"v": "x" * 120_000}}]).encode()
    assert batch(body) is not None
    assert batch(body, small=False) is None


@pytest.mark.parametrize("others", [[], [BAD]], ids=["by columns", "event by event"])
def test_a_pack_that_is_not_written_is_queued_by_its_events(others: list[dict[str, Any]]) -> None:
    """Two packs are throttled for as long as the request may wait, and their events are sent by turns."""
    world = packed(shards=1)
    first = [event(number, seconds=number, minutes=4) for number in range(3)]
    world.send(*first)
    world.store.throttled = 10**6
    later = [event(number, seconds=number) | {"data": {"n": number, "v": 1.5}} for number in range(3, 9)]
    earlier = [event(number, minutes=2) for number in (19, 20)]
    outcome = world.send(*later[:3], earlier[0], *later[3:], earlier[1], *others)
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.packs) == (202, 0, 8, 0)
    assert [ref is not None for ref in outcome.refs] == [True] * 8 + [False] * len(others)
    # What was to be one pack stays together.
    waiting = [str(message.data.get("v", "")) for message in world.overflow.queued]
    assert sorted(message.id for message in world.overflow.queued) == ["19", "20", "3", "4", "5", "6", "7", "8"]
    assert waiting in ([""] * 2 + ["1.5"] * 6, ["1.5"] * 6 + [""] * 2)


def test_a_list_whose_lines_look_like_texts_is_no_column_of_texts() -> None:
    world = packed()
    body = '[{"series":"a","id":"1","data":{"v":"a"}},{"series":"a","id":"2","data":{"v":[1,\n"b"]}}]'
    assert world.post(body.encode()).accepted == 2
    (item,) = world.table(LABEL)
    opened = open_item(item, world.config.streams["quakes"].layout, Zstd())
    assert list(opened.values) == ['{"v":"a"}', '{"v":[1,"b"]}']


def test_a_period_by_series_keeps_its_keys_when_the_stream_is_partitioned_by_time() -> None:
    world = packed()
    change_layout(world, "2026-02-28", Layout("series", 1, "id", pack=Packing(60, 65_536)))
    outcome = world.send(event(1), event(2), event(3, days=1), event(4, days=1))
    assert (outcome.accepted, outcome.packs) == (4, 2)
    assert [(item["pk"], item["n"]) for item in world.table("2026-02-28")] == [("a#0", 2)]
    assert [(item["pk"].partition("#")[0], item["n"]) for item in world.table(LABEL)] == [
        ("2026-03-01T00:00:00.000000Z", 2)
    ]


def test_events_of_a_period_that_is_archived_are_refused_and_the_others_packed() -> None:
    world = packed()
    world.move("2026-02-28", State.ARCHIVING)
    outcome = world.send(event(1), event(2), event(3, days=1))
    assert (outcome.accepted, [(rejection.index, rejection.code) for rejection in outcome.rejections]) == (
        2,
        [(2, "too_old")],
    )
    assert (world.count(LABEL), world.count("2026-02-28")) == (1, 0)


def test_events_of_a_closed_table_wait_for_the_drain() -> None:
    """It may be in the window, if ``late`` was raised: an archiver that does not know that may scan it."""
    world = packed()
    world.move("2026-02-28", State.CLOSED)
    outcome = world.send(event(1), event(2, days=1), event(3, days=1))
    assert (outcome.status, outcome.accepted, outcome.queued) == (202, 1, 2)
    assert [message.id for message in world.overflow.queued] == ["2", "3"]
    assert (world.count(LABEL), world.count("2026-02-28")) == (1, 0)


def test_each_period_has_the_series_of_its_own_events() -> None:
    world = packed(partition_by="series", bucket=None, shards=1)
    outcome = world.send(*[event(number, days=number % 2) | {"series": f"s{number}"} for number in range(4)])
    assert (outcome.accepted, outcome.packs) == (4, 4)
    assert sorted(item["pk"] for item in world.table(LABEL)) == ["s0#0", "s2#0"]
    assert sorted(item["pk"] for item in world.table("2026-02-28")) == ["s1#0", "s3#0"]


def test_a_request_of_two_periods_by_series_is_packed_by_columns() -> None:
    world = packed(partition_by="series", bucket=None, shards=1)
    columns = batch(json.dumps([event(n, days=n % 2) | {"series": f"s{n}"} for n in range(4)]).encode())
    assert columns is not None
    context = RequestContext.of(world.config.streams["quakes"], NOW, FULL, world.catalog.backfills)
    found = route_batch(context, columns, world.catalog.entries("quakes"), Zstd())
    assert found is not None
    routed, _ = found
    assert sorted((put.table[-10:], put.item["pk"]) for put in routed.puts.values()) == [
        ("2026-02-28", "s1#0"),
        ("2026-02-28", "s3#0"),
        ("2026-03-01", "s0#0"),
        ("2026-03-01", "s2#0"),
    ]


def test_an_event_at_the_end_of_a_period_is_of_the_next() -> None:
    world = packed()
    outcome = world.send(
        event(1) | {"time": "2026-02-28T23:59:59.999999Z"}, event(2) | {"time": "2026-03-01T00:00:00.000000Z"}
    )
    assert (outcome.accepted, outcome.packs) == (2, 2)
    assert [item["oldest"] for item in world.table("2026-02-28")] == ["2026-02-28T23:59:59.999999Z"]
    assert [item["oldest"] for item in world.table(LABEL)] == ["2026-03-01T00:00:00.000000Z"]


def test_a_table_that_was_throttled_is_left_alone_and_tried_again_later() -> None:
    world = packed()
    world.store.throttled = 10**6
    assert world.send(event(1)).queued == 1
    world.store.throttled = 0
    assert (world.send(event(2)).queued, world.count(LABEL)) == (1, 0)
    world.clock.sleep(2)
    assert (world.send(event(3)).accepted, world.count(LABEL)) == (1, 1)
    assert world.send(event(4)).accepted == 1


def change_layout(world: World, label: str, layout: Layout) -> None:
    key = next(key for key in world.catalog.items if key[1].label == label)
    world.catalog.items[key] = replace(world.catalog.items[key], layout=layout)
