"""Packed streams on the strict service: refs, read units, damaged packs, archived and restored tables."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.stage import Stage
from tidetable.access import Access
from tidetable.catalog import Entry
from tidetable.packs import body, partial
from tidetable.ports import Put
from tidetable.problems import ProblemError
from tidetable.query import explain_query, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.query.periods import describe_periods, describe_streams, parse_periods
from tidetable.query.rankings import parse_ranking
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
LABEL = "2026-03-15"
KEYS = {
    "time": 'partition_by = "time"\nbucket = "6h"\nshards = 3',
    "series": 'partition_by = "series"\nshards = 2',
    "suffix": 'partition_by = "time"\nbucket = "6h"\nshards = 3\nshard_by = "series"',
}
CONFIG = """
[lifecycle]
stagger = "0s"
[streams.s]
period = "day"
late = "1h"
retention = 5
capacity = {{ mode = "on-demand" }}
pack = {{ span = "1m", max_bytes = 4096 }}
[streams.s.key]
{key}
"""
ONE = 'partition_by = "time"\nbucket = "6h"\nshards = 1'


def started(key: str) -> Stage:
    stage = Stage(NOON - timedelta(minutes=1), CONFIG.format(key=key))
    stage.run_lifecycle()
    stage.clock.sleep(60)
    return stage


def entry(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == LABEL)


def event(second: float, series: str, id: str, **data: Any) -> dict[str, Any]:
    return {"series": series, "time": to_text(NOON + timedelta(seconds=second)), "id": id, "data": data}


def send(stage: Stage, *events: dict[str, Any]) -> list[Any]:
    """Send a request; returns the refs of its answer."""
    outcome = stage.send("s", json.dumps(events).encode())
    assert outcome.accepted == len(events)
    stage.settle()
    return list(outcome.refs)


def run_on(stage: Stage, limit: int = 100, **parameters: Any) -> Any:
    policy, now = stage.config.streams["s"], stage.clock.now()
    values: dict[str, Any] = {
        "from": NOON - timedelta(hours=1),
        "to": NOON + timedelta(hours=6),
        "limit": limit,
    } | parameters
    texts = {name: value if isinstance(value, list) else [str(value)] for name, value in values.items()}
    texts |= {name: [to_text(values[name])] for name in ("from", "to")}
    return run_query(parse_query(policy, texts, now, stage.seal), policy, stage.reader(), now, lambda: 100.0)


def get_ref(stage: Stage, ref: str, **parameters: str) -> dict[str, Any]:
    return get_event(
        stage.config.streams["s"], ref, stage.reader(), {name: [value] for name, value in parameters.items()}
    )


def counted(target: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the calls of a method from now on."""
    calls: list[Any] = []
    method = getattr(target, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return method(*args, **kwargs)

    monkeypatch.setattr(target, name, call)
    return calls


def damage(stage: Stage, newest: float, oldest: str | None = None) -> None:
    """Break the pack whose newest event is of that second, and perhaps what it says of its oldest."""
    time = to_text(NOON + timedelta(seconds=newest))
    table = entry(stage).table
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    (item,) = [item for item in items if "pack" in item and item["sk"]["S"].startswith(time)]
    broken = {
        "pk": item["pk"]["S"],
        "sk": item["sk"]["S"],
        "at": 1,
        "n": int(item["n"]["N"]),
        "format": 1,
        "pack": b"no",
    }
    stage.store.write([Put(table, broken | {"oldest": oldest or item["oldest"]["S"]})])
    stage.settle()


def archived(stage: Stage) -> None:
    """Let the day pass and archive it; its table is deleted."""
    stage.clock.sleep(40 * 3600)
    stage.run_lifecycle()
    stage.archive("s", LABEL, within=800)
    stage.client.delete_table(TableName=entry(stage).table)
    stage.clock.sleep(60)


@pytest.mark.parametrize("key", KEYS)
def test_a_ref_is_answered_by_one_get_item_and_consistent_by_the_copy_that_counts(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = started(KEYS[key])
    (old, other) = send(stage, event(1, "a", "1", n=1), event(2, "a", "2", n=2))
    (new,) = send(stage, event(1, "a", "1", n=10))
    queries = counted(stage.store, "query_many", monkeypatch)
    gets = counted(stage.store, "get", monkeypatch)
    assert get_ref(stage, other) == event(2, "a", "2", n=2) | {"ref": other}
    assert (len(gets), len(queries)) == (1, 0)
    # A ref reads the copy in its own pack: packs never change.
    assert get_ref(stage, old)["data"] == {"n": 1}
    assert get_ref(stage, new)["data"] == {"n": 10}
    assert get_ref(stage, old, consistent="true") == event(1, "a", "1", n=10) | {"ref": new}
    assert get_ref(stage, other, fields="x")["data"] == {}


@pytest.mark.parametrize("key", KEYS)
def test_refs_outlive_the_archive_and_the_restored_table(key: str) -> None:
    stage = started(KEYS[key])
    events = [event(second, "a#", f"{second}%", n=second) for second in (1, 2, 50, 100)]
    refs = [*send(stage, *events[:2]), *send(stage, *events[2:])]
    archived(stage)
    assert [{**get_ref(stage, ref), "ref": ""} for ref in refs] == [{**event, "ref": ""} for event in events]
    assert stage.restore("s", LABEL).state == "closed"
    stage.settle()
    # The earlier packs do not exist any more, because a restore writes its own packs.
    assert [{**get_ref(stage, ref), "ref": ""} for ref in refs] == [{**event, "ref": ""} for event in events]
    rows = run_on(stage, series="a#", order="asc").document()["events"]
    assert [get_ref(stage, row["ref"]) for row in rows] == rows
    assert [{**row, "ref": ""} for row in rows] == [{**event, "ref": ""} for event in events]


@pytest.mark.parametrize("key", KEYS)
def test_an_event_of_packs_is_its_own_first_version(key: str) -> None:
    """The stream packed its events when the period began, and keeps versions now. In the table, and in its archive."""
    stage = started(KEYS[key])
    (ref,) = send(stage, event(1, "a", "1", n=1))
    send(stage, event(1, "a", "1", n=2))
    kept = msgspec.structs.replace(stage.config.streams["s"], pack=None, versions="keep")

    def get(**parameters: str) -> dict[str, Any]:
        return get_event(kept, ref, stage.reader(), {name: [value] for name, value in parameters.items()})

    for at in ("table", "archive"):
        # The ref names its own pack; a consistent read finds the copy that counts, as the archive has it alone.
        newest = 1 if at == "table" else 2
        assert get(version="1")["data"] == {"n": newest}
        assert get(version="1", consistent="true")["data"] == {"n": 2}
        assert get(version="1", versions="all")["versions"] == []
        assert "version" not in get(version="1")
        for number in ("2", "3"):
            with pytest.raises(ProblemError, match=f"404 unknown_event: there is no version {number} of this event"):
                get(version=number)
        if at == "table":
            archived(stage)


def test_a_query_shows_only_the_fields_that_it_names() -> None:
    stage = started(ONE)
    send(stage, event(0, "a", "1", x=1, y=2), event(1, "a", "2", y=3))
    events = run_on(stage, fields="x").document()["events"]
    assert [(event["id"], event["data"]) for event in events] == [("2", {}), ("1", {"x": 1})]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_pack_without_the_named_series_is_not_decoded_further(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = started(KEYS["suffix"].replace("3", "1"))
    send(stage, event(0, "a", "1", x=1), event(1, "b", "2", x=2))

    def refuse(*_: Any) -> Any:
        raise AssertionError("the data of a pack was decoded")

    monkeypatch.setattr(body, "decode_texts", refuse)
    monkeypatch.setattr(partial, "decode_texts", refuse)
    monkeypatch.setattr(partial.PartialPack, "read_field", refuse)
    policy, now = stage.config.streams["s"], stage.clock.now()
    texts = {"from": [to_text(NOON)], "to": [to_text(NOON + timedelta(hours=1))], "stat": ["sum"], "field": ["x"]}
    for series, decodes in (("absent", False), ("b", True)):
        aggregation = parse_aggregation(policy, texts | {"series": [series]}, now, stage.seal)
        with pytest.raises(AssertionError) if decodes else nullcontext():
            assert run_on(stage, series=series, order=order).document()["events"] == []
        with pytest.raises(AssertionError) if decodes else nullcontext():
            assert find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0).rows == []


def test_a_ref_of_no_event_is_not_found_and_of_no_pack_refused() -> None:
    from tidetable.layout import Key, Ref

    stage = started(KEYS["time"])
    (ref,) = send(stage, event(1, "a", "1", n=1))
    decoded = Ref.decode(ref)
    for key, status in (
        (Key(decoded.key.pk, f"{to_text(NOON)}#a#other"), 404),
        (Key(decoded.key.pk, "nothing"), 404),
        (Key(decoded.key.pk.replace("#", "#-", 3), decoded.key.sk), 400),
    ):
        with pytest.raises(ProblemError) as refused:
            get_ref(stage, Ref("s", decoded.period, key).encode())
        assert refused.value.problem.status == status, key


def test_a_damaged_pack_beside_an_event_that_never_was_tells_a_key_with_a_prefix_nothing() -> None:
    """The damaged pack may have held events of other series only, so its key must not learn of it."""
    from tidetable.layout import Ref

    stage = started(KEYS["time"])
    (ref,) = send(stage, event(1, "mine/a", "1", n=1))
    send(stage, event(0, "other", "2", n=1), event(2, "other", "3", n=1))
    damage(stage, 2)
    decoded = Ref.decode(ref)
    absent = Ref("s", decoded.period, decoded.key._replace(sk=decoded.key.sk.replace("#1", "#9"))).encode()
    assert get_ref(stage, absent)["incomplete"] is True
    limited = msgspec.structs.replace(stage.reader(), access=Access(series_prefix="mine/"))
    with pytest.raises(ProblemError, match="404 unknown_event"):
        get_event(stage.config.streams["s"], absent, limited)


@pytest.mark.parametrize("key", KEYS)
def test_a_damaged_pack_is_reported_and_costs_only_itself(key: str) -> None:
    stage = started(KEYS[key])
    send(stage, event(10, "a", "1", n=1), event(11, "a", "2", n=1))
    refs = send(stage, event(20, "a", "3", n=1), event(31, "a", "4", n=1))
    send(stage, event(40, "a", "5", n=1))
    damage(stage, 31)
    gap = {"from": to_text(NOON + timedelta(seconds=20)), "to": "2026-03-15T12:00:31.000001Z", "reason": "damaged pack"}
    for order, ids in (("desc", ["5", "2", "1"]), ("asc", ["1", "2", "5"])):
        document = run_on(stage, series="a", order=order).document()
        assert [event["id"] for event in document["events"]] == ids
        assert document["gaps"] == [gap]
    # A range without any of its events does not report it.
    assert run_on(stage, series="a", to=NOON + timedelta(seconds=15)).document()["gaps"] == []
    policy, now = stage.config.streams["s"], stage.clock.now()
    query_string = {
        "from": [to_text(NOON)],
        "to": [to_text(NOON + timedelta(hours=1))],
        "series": ["a"],
        "stat": ["count"],
    }
    sums = find_aggregate(
        parse_aggregation(policy, query_string, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    )
    assert (sums.rows[0]["count"], sums.document()["gaps"]) == (3, [gap])
    for asked_consistent in ("true", "false"):
        document = get_ref(stage, refs[0], consistent=asked_consistent)
        assert (document["id"], document["data"], document["incomplete"]) == ("3", {}, True)
    # If another copy exists, it is answered.
    send(stage, event(20, "a", "3", n=7))
    assert get_ref(stage, refs[0])["data"] == {"n": 7}
    if key == "series":
        damage(stage, 40)
        latest = find_latest(policy, {"series": ["a", "b"]}, stage.reader(), now, lambda: 100.0).document()["latest"]
        assert [(row["event"] and row["event"]["id"], row.get("incomplete")) for row in latest] == [
            ("3", True),
            (None, None),
        ]


def test_a_damaged_pack_that_does_not_say_its_oldest_event_may_have_held_a_whole_span() -> None:
    stage = started(ONE)
    send(stage, event(90, "a", "1", n=1))
    damage(stage, 90, oldest="no time")
    document = run_on(stage).document()
    assert (document["events"], document["gaps"]) == (
        [],
        [{"from": "2026-03-15T12:00:30.000000Z", "to": "2026-03-15T12:01:30.000001Z", "reason": "damaged pack"}],
    )


def test_the_newest_event_and_the_oldest_take_two_queries_though_the_span_has_many_packs() -> None:
    """Newest first four packs settle two events. Oldest first, the first two packs show where the page ends at the
    latest, and DynamoDB leaves out the other packs of the span.
    """
    stage = started(ONE)
    for request in range(60):
        send(stage, event(request / 2, "a", str(request), n=request))
    send(stage, event(100, "a", "last", n=1))
    newest, oldest = (run_on(stage, limit=1, order=order, **{"from": NOON}) for order in ("desc", "asc"))
    assert (newest.document()["events"][0]["id"], oldest.document()["events"][0]["id"]) == ("last", "0")
    assert (newest.cost.requests, oldest.cost.requests) == (2, 2)
    assert (newest.cost.read, oldest.cost.read) == (4, 2)


def test_a_page_of_the_newest_reads_the_packs_that_hold_them_and_few_more() -> None:
    stage = started(ONE)
    for request in range(40):
        send(stage, *(event(request + n / 50, f"device-{n}", f"{request}.{n}", n=n) for n in range(50)))
    page = run_on(stage, limit=100)
    assert page.count == 100
    # Two packs, because their contents are unknown yet, and two for the rest of the 101 events.
    assert (page.cost.requests, page.cost.units, page.cost.read) == (2, 1.0, 200)
    whole = run_on(stage, limit=10_000)
    assert (whole.count, whole.cost.read) == (2000, 2000)
    assert whole.cost.units <= 7.0
    consistent = run_on(stage, limit=100, consistent="true")
    assert consistent.cost.units == 2.0


def test_explain_names_the_conditions_that_are_checked_after_unpacking() -> None:
    stage = started(KEYS["time"])
    send(stage, event(1, "a", "1", n=1))
    policy, now = stage.config.streams["s"], stage.clock.now()
    query_string = {
        "from": [to_text(NOON)],
        "to": [to_text(NOON + timedelta(hours=1))],
        "series": ["a"],
        "where.n": ["1"],
        "id": ["1"],
    }
    plan = explain_query(parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), stage.tables, now)
    (shown_stage,) = plan["stages"]
    assert {name: shown_stage[name] for name in ("source", "ranges", "filtered_by", "fetches", "unpacks")} == {
        "source": "table", "ranges": 3, "filtered_by": ["series", "id", "where.n"], "fetches": False, "unpacks": True,
    }  # fmt: skip


@pytest.mark.parametrize(("key", "limit"), [("time", 100), ("time", 1000), ("series", 100)])
def test_an_estimate_of_packs_is_near_what_is_read(key: str, limit: int) -> None:
    stage = started(KEYS[key])
    for request in range(60):
        send(stage, *(event(request * 2 + n / 50, "a", f"{request}.{n}", n=n, text="x" * (n % 7)) for n in range(50)))
    # DynamoDB counts the items of a table about every six hours.
    stage.clock.sleep(11 * 3600)
    policy, now = stage.config.streams["s"], stage.clock.now()
    query_string = {
        "from": [to_text(NOON)],
        "to": [to_text(NOON + timedelta(hours=1))],
        "series": ["a"],
        "limit": [str(limit)],
    }
    query = parse_query(policy, query_string, now, stage.seal)
    estimated = explain_query(query, policy, stage.reader(), stage.tables, now)["estimate"]
    page = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    assert page.count == limit
    assert estimated["guessed_shares"] == 1
    # The size of an event is a guess, and so is the distribution of events over the day.
    assert page.cost.units / 4 <= estimated["page"]["read_units"] <= page.cost.units * 4


def test_rankings_are_refused_with_what_to_do() -> None:
    stage = started(KEYS["time"])
    with pytest.raises(ProblemError) as refused:
        parse_ranking(stage.config.streams["s"], {}, NOON, stage.seal)
    assert refused.value.problem.code == "needs_index"
    assert "needs a stream without [streams.s.pack]" in refused.value.problem.detail
    by_series = started(KEYS["series"])
    with pytest.raises(ProblemError) as refused:
        run_on(by_series)
    assert refused.value.problem.code == "needs_series"
    assert "an index cannot hold the events in the packs of s" in refused.value.problem.detail


def test_streams_and_periods_say_their_packs() -> None:
    stage = started(KEYS["time"])
    pack = {"span_seconds": 60, "max_bytes": 4096}
    (stream,) = describe_streams(stage.config, NOON)["streams"]
    assert stream["layout"]["pack"] == pack
    policy, now, pipeline = stage.config.streams["s"], stage.clock.now(), stage.pipeline
    query = parse_periods(policy, {}, now, stage.seal)
    document = describe_periods(
        query, policy, pipeline.catalog_reader, pipeline.table_reader, now, stage.seal, pipeline.pools
    )
    assert [period["layout"]["pack"] for period in document["periods"] if period["period"] == LABEL] == [pack]


_EVENTS = st.lists(
    st.tuples(st.sampled_from([0, 1, 59.999999, 60, 61, 120]), st.sampled_from("ab"), st.sampled_from("12"), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)  # fmt: skip


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from(sorted(KEYS)),
    st.lists(_EVENTS, min_size=1, max_size=5),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 7),
)
def test_answers_are_the_same_before_and_after_archive_and_restore(
    key: str, requests: list[Any], order: str, limit: int
) -> None:
    stage = started(KEYS[key])
    data_by_name: dict[tuple[str, str, str], Any] = {}
    for request in requests:
        events = [event(second, series, id, v=v) for second, series, id, v in request]
        send(stage, *events)
        data_by_name |= {(event["time"], event["series"], event["id"]): event["data"] for event in events}
    expected = [
        {"time": time, "series": series, "id": id, "data": data_by_name[time, series, id]}
        for time, series, id in sorted(data_by_name)
    ]

    def read() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        page = run_on(stage, limit, order=order, series=["a", "b"])
        while True:
            rows += page.document()["events"]
            if page.next is None:
                return [{name: row[name] for name in ("time", "series", "id", "data")} for row in rows]
            page = answered_cursor(stage, page.next, limit)

    if order == "desc":
        expected.reverse()
    assert read() == expected
    archived(stage)
    assert read() == expected
    assert stage.restore("s", LABEL).state == "closed"
    stage.settle()
    assert read() == expected


def answered_cursor(stage: Stage, cursor: str, limit: int) -> Any:
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, {"cursor": [cursor], "limit": [str(limit)]}, now, stage.seal)
    return run_query(query, policy, stage.reader(), now, lambda: 100.0)
