"""Requests as batches: usual events by columns, and all others as the judge decides; compared with plain models."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from aws.zstd import Zstd
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import LABEL, World, event
from tidetable.access import Access
from tidetable.catalog import State
from tidetable.config.stream import IndexPolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.exact_json import decode_json
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.bodies import Sent, decode_body, read_body
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.outcome import Outcome
from tidetable.ingest.request import ingest_batch
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item
from tidetable.problems import ProblemError
from tidetable.times import to_text
from tidetable.window import Window

QUAKES = CONFIG.streams["quakes"]
CONTEXT = RequestContext(QUAKES, StreamRules.of(QUAKES, QUAKES.layout), Window.of(QUAKES, NOW), NOW, 7)


def read(body: bytes, kind: str = "application/json", *, small: bool = True) -> SentBatch:
    values = decode_body(read_body(body, kind, max_body=10**7), max_events=1000)
    return check_batch(CONTEXT, SentBatch.of_values(values), small=small)


def intake(max_bytes: int = 65_536, *, packed: bool = True, **key: Any) -> World:
    """An intake whose stream has packs, or plain items."""
    pack = PackPolicy(span=Duration(minutes=1), max_bytes=max_bytes) if packed else None
    stream = replace(QUAKES, pack=pack, key=replace(QUAKES.key, **key))
    return World(replace(CONFIG, streams={"quakes": stream}, api=replace(CONFIG.api, max_body=10**6, max_events=1000)))


BY_SERIES: dict[str, Any] = {"partition_by": "series", "bucket": None}
NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "7", "1.50", "1.5", "-3.250", "100", "100.0", "0.000001", "0.0000001", "0.00000000", "1e3", "1.5E-7",
     "-1.0e+2", "123456789012345678901", "1234567890.12345678901234567890", "12345678901234567890123456789012345678"]
)  # fmt: skip
TEXTS = st.sampled_from(
    ['""', '"a"', '"é"', '"\\u00e9"', '"1.50"', '"-0"', '"a\\/b"', '"say \\"hi\\""', '"a\\nb"', '"[{"', '"\u2028"', '"E"']
)  # fmt: skip
NESTED = st.sampled_from(
    ["{}", "[]", "[1.50, -0 ]", '{"b": 1.0,\n "a": [2e2]}', "[[ ]]", '{"z":{"y":"x"}}', "true", "false", "null"]
)
REFUSED = st.sampled_from(["1" * 39, "1e126", '{"": 1}', "[" * 31 + "]" * 31])
VALUES = st.one_of(NUMBERS, TEXTS, NESTED)
DATAS = st.one_of(
    st.fixed_dictionaries({'"n"': NUMBERS}),
    st.fixed_dictionaries({'"b"': VALUES, '"a"': NUMBERS}),
    st.dictionaries(st.sampled_from(['"a"', '"b"', '"é"', '"\\u0062"', '"%"', '"c d"']), VALUES, max_size=4),
)
# Texts of times as they are sent, with the instants that they name, in the window of two days.
INSTANTS: Mapping[str | None, datetime] = {
    '"2026-03-01T00:04:00Z"': datetime(2026, 3, 1, 0, 4, tzinfo=UTC),
    '"2026-03-01T00:03:59.123Z"': datetime(2026, 3, 1, 0, 3, 59, 123_000, tzinfo=UTC),
    '"2026-02-28T23:59:59.999999Z"': datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    '"2026-03-01T00:00:00+00:00"': datetime(2026, 3, 1, tzinfo=UTC),
    '"2026-03-01T02:04:00+02:00"': datetime(2026, 3, 1, 0, 4, tzinfo=UTC),
    '"2026-03-01T00:04:00.0000001Z"': datetime(2026, 3, 1, 0, 4, tzinfo=UTC),
    "1772323440000": datetime(2026, 3, 1, 0, 4, tzinfo=UTC),
    None: NOW,
}
# Members that make an event invalid, or too old, whatever else it has.
SPOILING = [
    '"time": "2026-02-30T00:00:00Z"', '"series": ""', '"series": 7', '"id": ""', '"more": 1', '"data": []',
    '"time": "2026-02-27T00:04:59.999999Z"', '"time": "2026-03-01T00:10:00.000001Z"',
]  # fmt: skip


def decode(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


class Drawn:
    """An event as it is sent, with what a model expects of it: None for a refused event."""

    def __init__(self, draw: st.DrawFn, data: dict[str, str], time: str | None, number: int) -> None:
        series, id = draw(st.sampled_from(["a", "b#1", "%"])), str(number % 9) if draw(st.integers(0, 3)) else None
        fields = [f'"series":"{series}"', *([] if time is None else [f'"time":{time}'])]
        fields += [] if id is None else [f'"id": "{id}"']
        fields.append('"data" : {' + ", ".join(f"{name}: {value}" for name, value in data.items()) + "}")
        self.is_refused = draw(st.integers(0, 9)) == 0
        if self.is_refused:
            spoiled = draw(st.one_of(st.sampled_from(SPOILING), REFUSED.map(lambda value: f'"data": {{"v": {value}}}')))
            fields = [field for field in fields if not field.startswith(spoiled.partition(":")[0])] + [spoiled]
        self.text = "{" + ",".join(fields) + "}"
        self.series, self.time, self.id = series, INSTANTS[time], id
        self.data = {json.loads(name): decode(value) for name, value in data.items()}


@st.composite
def requests(draw: st.DrawFn) -> list[Drawn]:
    """Events as JSON, with whatever spaces and escapes: mostly of one kind, as senders are."""
    kinds = draw(st.lists(DATAS, min_size=1, max_size=3))
    alike, time = draw(st.booleans()), draw(st.sampled_from([*INSTANTS]))
    return [
        Drawn(
            draw,
            draw(st.sampled_from(kinds)) if alike else draw(DATAS),
            time if alike else draw(st.sampled_from([*INSTANTS])),
            number,
        )
        for number in range(draw(st.integers(1, 12)))
    ]


def list_stored(world: World) -> tuple[dict[tuple[str, str, str], Any], list[tuple[str, str, Any]]]:
    """The data of the stored events by series, time and id; and those with ids that follow from their content."""
    named: dict[tuple[str, str, str], Any] = {}
    derived = []
    for table, items in world.store.tables.items():
        for item in items.values() if not table.endswith(".parts") else ():
            opened = open_item(item, world.config.streams["quakes"].layout, Zstd())
            for place, value in zip(opened.places, opened.values, strict=True):
                time, series, id = world.config.streams["quakes"].layout.parse_names(item["pk"], place)
                data = decode(value) if isinstance(value, str) else value
                if len(id) == len(sha256().hexdigest()) // 2:
                    derived.append((series, time, data))
                else:
                    assert (series, time, id) not in named, "stored twice"
                    named[series, time, id] = data
    return named, derived


def post(world: World, drawn: list[Drawn]) -> Outcome | None:
    """The outcome of a request; None if all of its events are refused."""
    try:
        return world.post(f"[{','.join([event.text for event in drawn])}]".encode())
    except ProblemError as error:
        if error.problem.status != 422:  # every event was refused
            raise
        return None


@settings(deadline=None, max_examples=200)
@given(requests(), st.sampled_from([{}, BY_SERIES]), st.booleans())
def test_a_request_stores_what_a_dict_would_hold(drawn: list[Drawn], key: dict[str, Any], packed: bool) -> None:
    world = intake(packed=packed, **key)
    outcome, taken = post(world, drawn), [event for event in drawn if not event.is_refused]
    assert (outcome is None) == (not taken)
    if outcome is not None:
        assert (outcome.status, outcome.accepted, outcome.queued) == (200, len(taken), 0)
        refused = [number for number, event in enumerate(drawn) if event.is_refused]
        assert [rejection.index for rejection in outcome.rejections] == refused
        assert [number for number, ref in enumerate(outcome.refs) if ref is None] == refused
        assert outcome.newest == max(event.time for event in taken)
    named, derived = list_stored(world)
    assert named == {(each.series, to_text(each.time), each.id): each.data for each in taken if each.id is not None}
    # Events whose texts differ may have equal data: each has an id of its own.
    wanted = [(each.series, to_text(each.time), each.data) for each in taken if each.id is None]
    assert all(event in wanted for event in derived)
    assert all(event in derived for event in wanted)


@settings(deadline=None, max_examples=150)
@given(requests(), st.sampled_from([{}, BY_SERIES]), st.booleans())
def test_events_are_stored_the_same_if_each_is_judged_by_itself(
    drawn: list[Drawn], key: dict[str, Any], packed: bool
) -> None:
    by_columns, by_judge = intake(packed=packed, **key), intake(packed=packed, **key)
    first = post(by_columns, drawn)
    values = [decode_json(event.text) for event in drawn]
    second = ingest_batch("quakes", SentBatch.of_values(values), by_judge.serving(), lambda: 5.0)
    assert by_columns.store.tables == by_judge.store.tables
    if first is not None:
        assert (first.accepted, first.packs, first.refs) == (second.accepted, second.packs, second.refs)
        assert (first.newest, first.write_units) == (second.newest, second.write_units)
        assert first.rejections == second.rejections


def test_usual_values_stay_as_they_were_sent() -> None:
    batch = read(b'[{"series":"a","id":"x","time":"2026-03-01T00:00:00Z","data":{"n": 1.50, "s": "\\n", "l": [1]}}]')
    (data,) = batch.datas
    assert (bytes(data["n"]), data["s"], data["l"]) == (b"1.50", "\n", [1])
    assert (batch.times, batch.at, list(batch.large)) == (["2026-03-01T00:00:00.000000Z"], 7, [])


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
    batch = read(body, kind)
    assert (batch.times, batch.series, batch.ids) == ([to_text(NOW)] * 2, ["a", "b"], ["x", "y"])
    assert type(batch.datas[1]["n"]) is Raw
    assert [batch.make_event(number).data for number in (0, 1)] == [{}, {"n": 1}]


ODD = {
    "an empty series": ({"series": ""}, "series must be a text"),
    "a long id": ({"id": "i" * 481}, "id is too long"),
    "an unknown field": ({"more": 1}, "unknown field 'more'"),
    "a time that is none": ({"time": "2026-02-30T00:00:00Z"}, "time: "),
    "a number as a text": ({"time": "1772323440000"}, "time: "),
    "a time before the window": ({"time": "2026-02-27T00:04:59.999999Z"}, "is before 2026-02-27T00:05:00.000000Z"),
    "a time after the window": ({"time": "2026-03-01T00:10:00.000001Z"}, "is after 2026-03-01T00:10:00.000000Z"),
    "a field without a name": ({"data": {"": 1}}, "data has a field without a name"),
    "a nested field without a name": ({"data": {"n": {"": 1}}}, "data.n has a field without a name"),
    "a number of 39 digits": ({"data": {"n": 10**38 + 1}}, "data.n has more than 38 digits"),
    "a list too deep": ({"data": {"n": json.loads("[" * 31 + "]" * 31)}}, "nested more than 31 levels"),
    "half of a pair": ({"data": {"v": "\ud800"}}, "\\ud800 is half of a surrogate pair"),
}


@pytest.mark.parametrize(("members", "detail"), ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("packed", [True, False])
def test_an_odd_event_is_refused_alone(members: dict[str, Any], detail: str, packed: bool) -> None:
    world = intake(packed=packed)
    outcome = world.send(event(1), event(2) | members, event(3))
    assert (outcome.accepted, [rejection.index for rejection in outcome.rejections]) == (2, [1])
    assert detail in outcome.rejections[0].detail
    assert sum(item.get("n", 1) for item in world.table(LABEL)) == 2


@pytest.mark.parametrize("time", ["2026-02-27T00:05:00.000000Z", "2026-03-01T00:10:00.000000Z"])
def test_the_edges_of_the_window_are_within_it(time: str) -> None:
    batch = read(json.dumps([event(1), event(2) | {"time": time}]).encode())
    assert (batch.times[1], batch.rejections) == (time, {})


def test_a_key_with_a_prefix_writes_only_its_series_and_the_others_are_named() -> None:
    values = [Sent("mine/a", id="1"), Sent("other", id="2")]
    batch = check_batch(replace(CONTEXT, access=Access(series_prefix="mine/")), SentBatch.of_values(values))
    assert [(rejection.index, rejection.id, rejection.code) for rejection in batch.rejections.values()] == [
        (1, "2", "forbidden_series")
    ]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"a": 1, "b": "x"}, {"a": 10**38 + 1, "b": "x"}),
        ({"a": 1}, {"": 1}),
        ({"a": 1}, {"a": Decimal("1E+126")}),
        ({"a": {"b": [1]}}, {"a": {"b": [Decimal("1E-131")]}}),
    ],
)
def test_objects_that_doors_decode_are_checked_wherever_they_are_shared(good: Any, bad: Any) -> None:
    owns: list[Any] = [dict(good), bad, dict(good)]
    values = [Sent("a", id=str(n), data={"shared": good, "own": own}) for n, own in enumerate(owns)]
    batch = check_batch(CONTEXT, SentBatch.of_values(values))
    assert ([*batch.rejections], batch.rejections[1].code) == ([1], "invalid")
    assert batch.rejections[1].detail.startswith("data.own")
    everywhere = [Sent("a", id=str(n), data={"shared": bad}) for n in range(3)]
    assert [*check_batch(CONTEXT, SentBatch.of_values(everywhere)).rejections] == [0, 1, 2]


def test_a_value_of_a_door_that_is_not_json_is_refused() -> None:
    datas: list[Any] = [{"v": 1.5}, {"v": Decimal("1.5")}, {"v": 7.0}]
    values = [Sent("a", id=str(number), data=data) for number, data in enumerate(datas)]
    batch = check_batch(CONTEXT, SentBatch.of_values(values))
    assert {number: rejection.detail for number, rejection in batch.rejections.items()} == {
        0: "data.v is not a JSON value",
        2: "data.v is not a JSON value",
    }


def test_two_values_in_a_line_of_ndjson_are_no_line() -> None:
    batch = read(b'{"series":"a"} {"series":"b"}\n{"series":"c"}', "application/x-ndjson")
    assert ([*batch.rejections], batch.series[1]) == ([0], "c")


def test_an_event_that_may_be_beyond_an_item_is_measured() -> None:
    """Text of 120,000 bytes cannot be beyond an item; what is four times as long in JSON is measured."""
    body = json.dumps([event(1), event(2) | {"data": {"v": "x" * 120_000}}]).encode()
    assert type(read(body).datas[1]["v"]) is Raw
    assert type(read(body, small=False).datas[1]["v"]) is str
    assert type(read(body, small=False).datas[0]["n"]) is Raw


def test_each_event_of_a_stream_with_an_index_is_judged() -> None:
    """A value of more than 2,000 bytes cannot be a key of the index."""
    index = IndexPolicy(name="by_kind", partition_by="kind")
    world = intake(packed=False)
    stream = replace(world.config.streams["quakes"], index=(index,))
    world.config = replace(world.config, streams={"quakes": stream})
    outcome = world.send(event(1) | {"data": {"kind": "k" * 2_001}}, event(2))
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(0, "invalid")]


def test_more_events_than_a_request_may_have_are_refused() -> None:
    with pytest.raises(Exception, match="more than 1000 events"):
        intake().post(json.dumps([event(n) for n in range(1001)]).encode())
    escaped = json.dumps([event(n) for n in range(1001)]).replace('"series"', '"\\u0073eries"')
    with pytest.raises(Exception, match="more than 1000 events"):
        intake().post(escaped.encode())


def test_the_deepest_value_that_dynamodb_takes_is_intake() -> None:
    """``data`` is the first level of 31, so a value in it has 30."""
    world = intake()
    body = '[{"series":"a","data":{"n":' + "[" * 30 + "]" * 30 + "}}]"
    assert world.post(body.encode()).accepted == 1


@pytest.mark.parametrize("others", [[], [{"series": ""}]], ids=["alone", "with a refused event"])
def test_a_pack_that_is_not_written_is_queued_by_its_events(others: list[dict[str, Any]]) -> None:
    """Two packs are throttled for as long as the request may wait, and their events are sent by turns."""
    world = intake(shards=1)
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
    world = intake()
    body = '[{"series":"a","id":"1","data":{"v":"a"}},{"series":"a","id":"2","data":{"v":[1,\n"b"]}}]'
    assert world.post(body.encode()).accepted == 2
    (item,) = world.table(LABEL)
    opened = open_item(item, world.config.streams["quakes"].layout, Zstd())
    assert list(opened.values) == ['{"v":"a"}', '{"v":[1,"b"]}']


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["1.50", "20.0", "7"], ["1.5", "20", "7"]),
        (["-0.0", "10", "null"], ["0", "10", "null"]),
        (['"1.50"', '"20.0"', '"0"'], ['"1.50"', '"20.0"', '"0"']),
        (["true", "0.10", "1e3"], ["true", "0.1", "1000"]),
    ],
)
def test_numbers_of_packs_have_no_needless_zeros(sent: list[str], kept: list[str]) -> None:
    world = intake()
    events = [f'{{"series":"a","id":"{number}","data":{{"v":{value},"w":"x"}}}}' for number, value in enumerate(sent)]
    assert world.post(f"[{','.join(events)}]".encode()).accepted == 3
    (item,) = world.table(LABEL)
    opened = open_item(item, world.config.streams["quakes"].layout, Zstd())
    assert list(opened.values) == [f'{{"v":{value},"w":"x"}}' for value in kept]


def test_a_period_by_series_keeps_its_keys_when_the_stream_is_partitioned_by_time() -> None:
    world = intake()
    change_layout(world, "2026-02-28", Layout("series", 1, "id", pack=Packing(60, 65_536)))
    outcome = world.send(event(1), event(2), event(3, days=1), event(4, days=1))
    assert (outcome.accepted, outcome.packs) == (4, 2)
    assert [(item["pk"], item["n"]) for item in world.table("2026-02-28")] == [("a#0", 2)]
    assert [(item["pk"].partition("#")[0], item["n"]) for item in world.table(LABEL)] == [
        ("2026-03-01T00:00:00.000000Z", 2)
    ]


def test_events_of_a_period_that_is_archived_are_refused_and_the_others_intake() -> None:
    world = intake()
    world.move("2026-02-28", State.ARCHIVING)
    outcome = world.send(event(1), event(2), event(3, days=1))
    assert (outcome.accepted, [(rejection.index, rejection.code) for rejection in outcome.rejections]) == (
        2,
        [(2, "too_old")],
    )
    assert (world.count(LABEL), world.count("2026-02-28")) == (1, 0)


def test_events_of_a_closed_table_wait_for_the_drain() -> None:
    """It may be in the window, if ``late`` was raised: an archiver that does not know that may scan it."""
    world = intake()
    world.move("2026-02-28", State.CLOSED)
    outcome = world.send(event(1), event(2, days=1), event(3, days=1))
    assert (outcome.status, outcome.accepted, outcome.queued) == (202, 1, 2)
    assert [message.id for message in world.overflow.queued] == ["2", "3"]
    assert (world.count(LABEL), world.count("2026-02-28")) == (1, 0)


def test_each_period_has_the_series_of_its_own_events() -> None:
    world = intake(partition_by="series", bucket=None, shards=1)
    outcome = world.send(*[event(number, days=number % 2) | {"series": f"s{number}"} for number in range(4)])
    assert (outcome.accepted, outcome.packs) == (4, 4)
    assert sorted(item["pk"] for item in world.table(LABEL)) == ["s0#0", "s2#0"]
    assert sorted(item["pk"] for item in world.table("2026-02-28")) == ["s1#0", "s3#0"]


def test_an_event_at_the_end_of_a_period_is_of_the_next() -> None:
    world = intake()
    outcome = world.send(
        event(1) | {"time": "2026-02-28T23:59:59.999999Z"}, event(2) | {"time": "2026-03-01T00:00:00.000000Z"}
    )
    assert (outcome.accepted, outcome.packs) == (2, 2)
    assert [item["oldest"] for item in world.table("2026-02-28")] == ["2026-02-28T23:59:59.999999Z"]
    assert [item["oldest"] for item in world.table(LABEL)] == ["2026-03-01T00:00:00.000000Z"]


def test_a_table_that_was_throttled_is_left_alone_and_tried_again_later() -> None:
    world = intake()
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
