"""Queries with ``consistent=true`` on a service whose other reads are stale; and tables that are archived during a query."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.fakes.items import read_event
from tests.fakes.stage import Stage
from tests.worlds.days import NOW, START, STREAM, Fixture, many, run
from tidetable.catalog import ArchiveFacts, State
from tidetable.copies.reader import Copies
from tidetable.events import Event
from tidetable.layout import Ref
from tidetable.problems import ProblemError
from tidetable.query import find_latest, get_event, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[streams.s]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "series", shards = 2 }
"""
EVENT = {"series": "a", "id": "1", "time": to_text(NOON), "data": {"n": 1}}
SPAN = {"from": [to_text(NOON - timedelta(hours=1))], "to": [to_text(NOON + timedelta(hours=1))], "series": ["a"]}


def lagging(*, settled: bool) -> tuple[Stage, str]:
    """A stage whose eventually consistent reads lag by up to ten minutes, with an event that was just stored, and its ref.

    The catalog's entries are new as well, or ``settled``. If ingest does not see them yet, it queues the event. The
    drain reads the catalog consistently and stores it.
    """
    stage = Stage(NOON, CONFIG, seed=5, stale_seconds=600.0)
    stage.run_lifecycle()
    if settled:
        stage.clock.sleep(700)
    outcome = stage.send("s", json.dumps(EVENT).encode())
    assert (outcome.accepted, outcome.queued) == ((1, 0) if settled else (0, 1))
    stage.drain()
    assert stage.queue.messages == []
    ref = latest(stage, consistent="true")["ref"]
    assert outcome.refs == [ref if settled else None]
    return stage, ref


def events(stage: Stage, **more: str) -> list[str]:
    query_string = {**SPAN, **{name: [value] for name, value in more.items()}}
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, query_string, now, stage.seal)
    return [event["id"] for event in run_query(query, policy, stage.reader(), now, lambda: 100.0).document()["events"]]


def latest(stage: Stage, **more: str) -> Any:
    query_string = {"series": ["a"], **{name: [value] for name, value in more.items()}}
    policy = stage.config.streams["s"]
    return find_latest(policy, query_string, stage.reader(), stage.clock.now(), lambda: 100.0).document()["latest"][0][
        "event"
    ]


def test_a_consistent_query_has_what_was_stored_just_now_and_another_has_it_later() -> None:
    stage, _ = lagging(settled=True)
    assert events(stage) == []
    assert events(stage, consistent="true") == ["1"]
    stage.clock.sleep(700)
    assert events(stage) == ["1"]


def test_so_has_the_latest_event_of_a_series() -> None:
    stage, _ = lagging(settled=True)
    assert latest(stage) is None
    assert latest(stage, consistent="true")["id"] == "1"


def test_so_has_an_event_by_its_ref() -> None:
    stage, ref = lagging(settled=True)
    policy = stage.config.streams["s"]
    with pytest.raises(ProblemError, match="no event of this ref"):
        get_event(policy, ref, stage.reader(), {})
    assert get_event(policy, ref, stage.reader(), {"consistent": ["true"]})["data"] == {"n": 1}


def test_a_consistent_query_knows_of_a_period_that_was_recorded_just_now() -> None:
    stage, ref = lagging(settled=False)
    policy = stage.config.streams["s"]
    assert events(stage, consistent="true") == ["1"]
    assert latest(stage, consistent="true")["id"] == "1"
    assert get_event(policy, ref, stage.reader(), {"consistent": ["true"]})["id"] == "1"


def archived_meanwhile(fixture: Fixture) -> None:
    """The first day was archived and its table deleted; eventually consistent reads of the catalog do not see it yet."""
    catalog = fixture.catalog
    catalog.stale = dict(catalog.items)
    ((key, entry),) = [(key, entry) for key, entry in catalog.items.items() if entry.period.start == START]
    items = fixture.store.tables.pop(entry.table)
    fixture.archive.keep(entry.table, entry.layout, [read_event(entry.layout, item) for item in items.values()])
    facts = ArchiveFacts(entry.table, len(items), 0, NOW)
    catalog.items[key] = replace(entry, state=State.DELETED, archive=facts)


SPAN_OF_FIXTURE: Mapping[str, str] = {"from": START.isoformat(), "to": (START + timedelta(days=1)).isoformat()}


def test_a_table_that_was_archived_while_it_was_read_is_read_from_its_archive() -> None:
    fixture = Fixture(many(10))
    archived_meanwhile(fixture)
    page = run(fixture, **SPAN_OF_FIXTURE)
    assert (page.count, page.gaps) == (10, [])
    assert [scan.source for scan in page.sources] == [("archive", None)]


@pytest.mark.parametrize("copies", [None, Copies("eu-west-1", "us-east-1")], ids=["stage", "reader"])
def test_an_event_of_a_table_that_was_archived_just_now_is_found_by_its_ref(copies: Copies | None) -> None:
    fixture = Fixture([Event("a", START, "1", {"n": 1})])
    ((key, entry),) = [(key, item) for key, item in fixture.catalog.items.items() if item.period.start == START]
    ref = Ref("s", key[1], entry.layout.make_key(Event("a", START, "1", {}))).encode()
    archived_meanwhile(fixture)
    reader = replace(fixture.reader, copies=copies)
    assert get_event(STREAM, ref, reader, {})["data"] == {"n": 1}


@pytest.mark.parametrize("consistent", ["true", "false"])
def test_the_catalog_is_read_as_consistently_as_the_query_wants(consistent: str) -> None:
    fixture = Fixture(many(10))
    fixture.catalog.reads.clear()
    assert run(fixture, **SPAN_OF_FIXTURE, consistent=consistent).count == 10
    assert [consistently for _, _, consistently in fixture.catalog.reads] == [consistent == "true"]


@pytest.mark.parametrize("consistent", ["true", "false"])
def test_the_catalog_is_read_as_consistently_as_an_aggregate_wants(consistent: str) -> None:
    fixture = Fixture(many(10))
    fixture.catalog.reads.clear()
    texts = {**SPAN_OF_FIXTURE, "consistent": consistent}
    aggregation = parse_aggregation(STREAM, {name: [text] for name, text in texts.items()}, NOW, SEAL)
    assert find_aggregate(aggregation, STREAM, fixture.reader, NOW, lambda: 100.0).rows[0]["count"] == 10
    assert [consistently for _, _, consistently in fixture.catalog.reads] == [consistent == "true"]


def test_a_ref_of_another_stream_is_refused_and_names_its_own() -> None:
    fixture = Fixture(many(1))
    (entry,) = [item for item in fixture.catalog.items.values() if item.period.start == START]
    ref = Ref("other", entry.period, entry.layout.make_key(many(1)[0])).encode()
    with pytest.raises(ProblemError, match="this ref belongs to stream 'other'") as refused:
        get_event(STREAM, ref, fixture.reader, {})
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "bad_ref")


def test_the_future_is_not_a_gap() -> None:
    """The range ends two days after now; there are no tables yet for these days."""
    fixture = Fixture(many(10))
    page = run(
        fixture, **{"from": (NOW - timedelta(hours=12)).isoformat(), "to": (NOW + timedelta(days=2)).isoformat()}
    )
    assert [(to_text(gap.start), to_text(gap.end)) for gap in page.gaps] == [
        ("2026-03-06T00:00:00.000000Z", "2026-03-08T00:00:00.000000Z")
    ]
    page = run(fixture, **{"from": NOW.isoformat(), "to": (NOW + timedelta(days=2)).isoformat()})
    assert len(page.gaps) == 1, "it begins now"
    page = run(
        fixture,
        **{"from": (NOW + timedelta(seconds=1)).isoformat(), "to": (NOW + timedelta(days=2)).isoformat()},
    )
    assert page.gaps == []
