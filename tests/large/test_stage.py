"""Large events, cold fields and versions through the whole pipeline, on the strict service; and a stop after every call."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_change
from tests.worlds.large import CONFIG, DAY, NOON, SENT, STREAMS, age, ask, built, event, read_entry, ready, send
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.errors import ArchiveFailed
from tidetable.problems import ProblemError
from tidetable.query import get_event, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text


def plain(events: list[dict[str, Any]], *without: str) -> list[dict[str, Any]]:
    """Events as they were sent, newest first."""
    return [
        {**row, "data": {name: value for name, value in row["data"].items() if name not in without}}
        for row in ({name: event[name] for name in ("series", "id", "time", "data")} for event in events)
    ]


@pytest.mark.parametrize("stream", STREAMS)
def test_large_events_come_back_whole_from_table_archive_and_restored_table(stream: str) -> None:
    stage = built()
    outcome = send(stage, stream, *SENT)
    assert (outcome.accepted, outcome.rejections, outcome.queued) == (4, [], 0)
    cold = ["raw"] if stream in ("chunked", "texts") else []

    def check(state: State) -> None:
        entry = next(entry for entry in stage.catalog.entries(stream, consistent=True) if entry.period.label == DAY)
        assert entry.state is state
        assert plain(ask(stage, stream)) == plain(SENT, *cold)
        assert plain(ask(stage, stream, fields="*", limit="1")) == plain(SENT)
        assert [event["data"] for event in ask(stage, stream, fields="n,raw")] == [
            {name: event["data"][name] for name in ("n", "raw") if name in event["data"]} for event in SENT
        ]
        assert [event["id"] for event in ask(stage, stream, **{"where.kind": "large"})] == ["e2", "e3"]
        ref = outcome.refs[2]
        assert ref is not None
        shown = get_event(stage.config.streams[stream], ref, stage.reader(), {"fields": ["*"]})
        assert shown["data"] == SENT[2]["data"]

    check(State.OPEN)
    stage.clock.sleep(7 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert not [name for name in stage.dynamo.account.tables if DAY in name]
    check(State.DELETED)
    assert stage.restore(stream, DAY).state == "closed"
    check(State.CLOSED)
    stage.clock.sleep(9 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    check(State.DELETED)


def test_an_index_finds_packed_events() -> None:
    stage = built()
    send(stage, "chunked", *SENT)
    stage.settle()
    policy, now = stage.config.streams["chunked"], stage.clock.now()
    parameters = {"from": [to_text(NOON - timedelta(days=1))], "where.kind": ["large"]}
    answer: Any = run_query(
        parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    assert plain(answer["events"]) == plain(SENT[2:], "raw")


@pytest.mark.parametrize("stream", STREAMS)
def test_a_kill_between_any_two_writes_leaves_nothing_half_visible_and_a_retry_completes_it(stream: str) -> None:
    before = event(2, {"kind": "old", "text": noise(450_000, 9), "raw": "old"})
    after = SENT[2]

    def prepare() -> Stage:
        stage = built()
        send(stage, stream, before)
        return stage

    seen = set()
    for _, stage in killed_after_every_change(prepare, lambda stage: send(stage, stream, after)):
        shown = plain(ask(stage, stream, fields="*"))
        assert shown in ([before], [after]), "the one or the other, and whole"
        seen.add(shown == [after])
        assert send(stage, stream, after).accepted == 1
        assert plain(ask(stage, stream, fields="*")) == [after]
        if stream in ("kept", "texts"):
            everything = plain(ask(stage, stream, versions="all", fields="*"))
            assert everything == [after, before], "no version twice, and none lost"
    assert False in seen


def test_events_wait_in_the_overflow_whatever_their_size_and_drain_in_their_form() -> None:
    stage = built()
    for stream in ("chunked", "stored"):
        stage.circuit.trip([f"tidetable-lapse.{stream}.{DAY}"])
        outcome = send(stage, stream, SENT[0], SENT[2])
        assert outcome.queued == 2
        assert ask(stage, stream) == []
    stage.clock.sleep(60)
    stage.drain()
    for stream in ("chunked", "stored"):
        assert plain(ask(stage, stream, fields="*")) == plain([SENT[0], SENT[2]])


def test_an_event_that_waited_does_not_replace_one_that_was_accepted_after_it() -> None:
    stage = built()
    table = f"tidetable-lapse.stored.{DAY}"
    stage.circuit.trip([table])
    assert send(stage, "stored", event(0, {"n": "first"})).queued == 1
    stage.clock.sleep(60)
    assert send(stage, "stored", event(0, {"n": "second"})).accepted == 1
    stage.drain()
    assert not stage.queue.messages
    assert [event["data"] for event in ask(stage, "stored")] == [{"n": "second"}]


def test_an_event_that_waited_replaces_one_that_was_accepted_before_it() -> None:
    stage = built()
    send(stage, "stored", event(0, {"n": "first"}))
    stage.clock.sleep(60)
    stage.circuit.trip([f"tidetable-lapse.stored.{DAY}"])
    assert send(stage, "stored", event(0, {"n": "second"})).queued == 1
    stage.clock.sleep(60)
    stage.drain()
    assert [event["data"] for event in ask(stage, "stored")] == [{"n": "second"}]


@pytest.mark.parametrize("stream", ["chunked", "kept"])
def test_a_period_of_before_takes_what_its_layout_allows(stream: str) -> None:
    """Chunks and versions begin with the next period; compression and S3 hold at once."""
    stage = Stage(
        NOON, CONFIG.replace('"chunks"', '"refuse"').replace('cold = ["raw"]', "").replace('"keep"', '"overwrite"')
    )
    ready(stage)
    stage.config = parse(CONFIG)
    if stream == "chunked":
        with pytest.raises(ProblemError) as refused:
            send(stage, stream, SENT[2])
        assert refused.value.problem.status == 422
        assert send(stage, stream, SENT[1]).accepted == 1
        assert plain(ask(stage, stream, fields="*")) == [SENT[1]]
    else:
        for data in (SENT[2]["data"], SENT[3]["data"]):
            assert send(stage, stream, event(2, data)).accepted == 1
        assert [event["data"] for event in ask(stage, stream, versions="all")] == [SENT[3]["data"]]


def test_an_archive_that_has_expired_is_a_gap_with_a_reason_and_the_catalog_is_told() -> None:
    stage = built()
    kept = CONFIG.replace("[lifecycle]", '[archive]\nexpire_after = "30d"\n[lifecycle]')
    stage.config = parse(kept)
    send(stage, "stored", SENT[0])
    stage.clock.sleep(7 * 86_400)
    age(stage)
    assert plain(ask(stage, "stored")) == plain(SENT[:1])
    archived = read_entry(stage).archive
    assert archived is not None
    # The query waits two seconds before it reads.
    stage.clock.time = archived.at + timedelta(days=30) - timedelta(seconds=3)
    assert plain(ask(stage, "stored")) == plain(SENT[:1])
    stage.clock.sleep(1)

    def gaps() -> list[str]:
        policy, now = stage.config.streams["stored"], stage.clock.now()
        parameters = {"from": [f"{DAY}T00:00:00Z"], "to": [f"{DAY}T23:00:00Z"], "series": ["a"]}
        answer: Any = run_query(
            parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        ).document()
        assert answer["events"] == []
        return [gap["reason"] for gap in answer["gaps"]]

    assert gaps() == ["archive expired"]
    with pytest.raises(ArchiveFailed, match="expired at 2026-04-2"):
        stage.restore("stored", DAY)
    assert stage.sweep().lapsed == 0, "the bucket has not deleted it yet"
    assert read_entry(stage).archived is not None
    stage.bucket.objects = {key: body for key, body in stage.bucket.objects.items() if "stored" not in key}
    assert stage.sweep(dry_run=True).lapsed >= 1
    assert read_entry(stage).archived is not None
    assert stage.sweep().lapsed >= 1
    stage.settle()
    # A longer expiry from now on does not bring it back.
    stage.config = parse(CONFIG)
    archive = read_entry(stage).archive
    assert archive is not None
    assert archive.expired_at == archived.at + timedelta(days=30)
    assert gaps() == ["archive expired"]
    assert stage.sweep().lapsed == 0


def test_a_dangling_object_is_told_and_stops_the_archive() -> None:
    stage = built()
    send(stage, "stored", SENT[0], SENT[2])
    stage.values.blobs.clear()
    events = ask(stage, "stored")
    assert [event.get("incomplete") for event in events] == [None, True]
    stage.clock.sleep(7 * 86_400)
    report = stage.run_lifecycle()
    failed = [result.detail for result in report.done if result.action.name == "archive" and result.outcome == "failed"]
    assert len(failed) == 1
    assert "is not complete" in failed[0]
    assert [name for name in stage.dynamo.account.tables if f"stored.{DAY}" in name], "so nothing is deleted"


def test_data_that_is_damaged_in_its_item_is_told_and_the_others_are_shown() -> None:
    stage = built()
    refs = send(stage, "chunked", SENT[0], SENT[1]).refs
    (table,) = (name for name in stage.dynamo.account.tables if name.endswith(f"chunked.{DAY}"))
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    (packed,) = (item for item in items if "z" in item)
    stage.dynamo.call("PutItem", {"TableName": table, "Item": {**packed, "z": {"B": b"\x00"}}})
    events = ask(stage, "chunked")
    assert [(event["id"], event.get("incomplete"), event["data"]) for event in events] == [
        ("e0", None, SENT[0]["data"]),
        ("e1", True, {}),
    ]
    assert refs[1] is not None
    shown = get_event(stage.config.streams["chunked"], refs[1], stage.reader())
    assert (shown["incomplete"], shown["data"]) == (True, {})
    # Nobody knows whether it meets a condition, or what it adds to a sum.
    gap = {"from": "2026-03-15T11:59:00.000000Z", "to": "2026-03-15T11:59:00.000001Z", "reason": "damaged data"}
    policy, now = stage.config.streams["chunked"], stage.clock.now()
    span = {"from": ["2026-03-15T00:00:00Z"], "to": ["2026-03-16T00:00:00Z"], "series": ["a"]}
    query = parse_query(policy, span | {"where.n": ["1"]}, now, stage.seal)
    document: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
    assert ([event["id"] for event in document["events"]], document["gaps"]) == (["e0"], [gap])
    aggregation = parse_aggregation(policy, span | {"field": ["n"], "stat": ["count,sum"]}, now, stage.seal)
    answer: Any = find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0).document()
    assert [(row["count"], row["sum"]) for row in answer["aggregates"]] == [(1, 1)]
    assert answer["gaps"] == [gap]
