"""A simulated life: every query finds every acknowledged event exactly once.

``TIDETABLE_SEED=7 make test`` runs another life, ``TIDETABLE_DAYS=10`` a shorter life with fewer changes and lower
expectations: the tests whose subject it lacks are skipped with the reason. Weeks expire from day 10 on, the first month on
day 23.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import DAYS, FULL_DAYS, SEED
from tests.timelapse import course
from tests.timelapse.checks import walk
from tests.timelapse.course import BEGINNING, POLICIES, START
from tests.timelapse.least import least_outcomes, unproven
from tests.timelapse.life import Life
from tests.timelapse.traffic import SERIES
from tests.timelapse.vocabulary import LATE_SETTLE, STAGGER, span_of
from tidetable.catalog import State
from tidetable.errors import StoreUnavailable
from tidetable.problems import ProblemError
from tidetable.query import get_event
from tidetable.times import from_text, to_text

FIRST = to_text(BEGINNING)


@pytest.fixture(scope="module")
def life() -> Life:
    print(f"time-lapse of {DAYS} days with seed {SEED}")
    life = Life(SEED, DAYS)
    life.run()
    print(dict(sorted(life.outcomes.items())))
    return life


def find_events(life: Life, stream: str, **parameters: str) -> list[dict[str, Any]]:
    end = to_text(life.stage.clock.now())
    asked = {"from_": FIRST, "to": end, "limit": "1000", "fields": "*"} | parameters
    return list(walk(life.stage, life.policies[stream], life.stage.reader(), **asked))


def by_series(life: Life, stream: str, **parameters: str) -> list[dict[str, Any]]:
    events = []
    for series in SERIES:
        own = find_events(life, stream, series=series, order="asc", **parameters)
        assert {event["series"] for event in own} <= {series}
        assert [event["time"] for event in own] == sorted(event["time"] for event in own)
        events += own
    return events


def test_no_forbidden_action_was_taken(life: Life) -> None:
    assert life.complaints == []
    assert life.stage.queue.dead == []
    assert life.stage.queue.messages == []


def need(subject: object, what: str) -> None:
    """Skip a test without its subject, so that it proves nothing in silence; a life of full length must have it."""
    if not subject:
        assert DAYS < FULL_DAYS, f"a life of {DAYS} days must have {what}"
        pytest.skip(f"a life of {DAYS} days has no {what}")


def test_the_life_was_full_enough_to_prove_something(life: Life) -> None:
    """Each count is at least what so many days bring about; every change of the course must have happened."""
    least = least_outcomes(DAYS)
    lacking = {what: (life.outcomes[what], count) for what, count in least.items() if life.outcomes[what] < count}
    assert lacking == {}


def test_what_a_short_life_does_not_prove_is_named() -> None:
    """A life of full length leaves nothing out; this test of a shorter life is skipped with the list."""
    assert unproven(FULL_DAYS) == []
    need(not unproven(DAYS), f"certain {', '.join(unproven(DAYS))}")


@pytest.mark.parametrize("stream", ["daily", "monthly"])
def test_every_event_is_found_once_by_range(life: Life, stream: str) -> None:
    events = find_events(life, stream)
    assert [event["time"] for event in events] == sorted((event["time"] for event in events), reverse=True)
    assert life.traffic.sent.differences(stream, events) == []


@pytest.mark.parametrize("stream", [*POLICIES])
def test_every_event_is_found_once_by_series_the_removed_streams_too(life: Life, stream: str) -> None:
    start = ""
    if POLICIES[stream].on_expiry == "delete":
        # What its tables held that are gone is gone, too.
        start = min(to_text(span_of(label).start) for name, label, _ in life.checks.tables() if name == stream)
        assert from_text(start) > life.stage.clock.now() - timedelta(days=5)
    assert life.traffic.sent.differences(stream, by_series(life, stream), start) == []


def test_no_bucket_stays_marked_and_each_rollup_is_sealed_to_its_last_run(life: Life) -> None:
    for stream in ("daily", "fleeting"):
        state = life.stage.rollups.read_state(stream)
        assert not state.marks
        assert not state.over
        for rollup in life.settings[stream].rollups:
            (sealed,) = [max(edge.sealed for edge in state.edges if edge.rollup == rollup.name)]
            # The last run was two days ago.
            assert sealed > life.stage.clock.now() - timedelta(days=2, hours=2) - rollup.every


@pytest.mark.parametrize("stream", ["texts", "monthly"])
def test_every_version_is_there_and_the_newest_is_the_last_that_was_sent(life: Life, stream: str) -> None:
    if life.policies[stream].versions != "keep":
        with pytest.raises(ProblemError, match="keeps no earlier versions"):
            by_series(life, stream, versions="all")
        return
    versions: dict[str, list[dict[str, Any]]] = {}
    for event in by_series(life, stream, versions="all"):
        versions.setdefault(event["id"], []).append(event)
    need(any(len(found_ones) > 1 for found_ones in versions.values()), f"corrected events of {stream}")
    for id, found_ones in versions.items():
        newest_first = sorted(found_ones, key=lambda event: -event.get("version", 1))
        time = found_ones[0]["time"]
        label = time[:7] if stream == "monthly" else time[:10]
        kept = course.keeps_versions(stream, max(span_of(label).start, START))
        assert life.traffic.sent.version_problems((stream, id), newest_first, kept=kept) == []
        newest = {name: newest_first[0][name] for name in ("series", "time", "id", "data")}
        assert newest in life.traffic.sent.may_show((stream, id))


def test_the_first_month_was_written_and_its_table_is_gone(life: Life) -> None:
    sent = life.traffic.sent.promised("monthly")
    need(
        [name for name in sent if life.traffic.sent.sendings[name][0].event["time"] < "2026-02"], "late January events"
    )
    left = {label for stream, label, _ in life.checks.tables() if stream == "monthly"}
    need("2026-01" not in left, "expired month")
    states = {entry.period.label: entry.state for entry in life.stage.catalog.entries("monthly", consistent=True)}
    assert states["2026-01"] is State.DELETED


def test_cold_fields_are_shown_only_by_name(life: Life) -> None:
    events = find_events(life, "monthly", fields="n")
    assert {name for event in events for name in event["data"]} == {"n"}
    plain = walk(
        life.stage, life.policies["monthly"], life.stage.reader(), from_=FIRST, to=to_text(life.stage.clock.now())
    )
    assert not any("raw" in event["data"] for event in plain)


def test_every_event_of_a_kind_is_found_once_with_the_index_and_without(life: Life) -> None:
    need(life.settings["hourly"].indexed, "index of kinds")
    events = find_events(life, "hourly", order="asc", **{"where.kind": "storm"})
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    sent = life.traffic.sent
    wanted = {
        name[1] for name in sent.promised("hourly") if sent.sendings[name][0].event["data"].get("kind") == "storm"
    }
    assert wanted <= {event["id"] for event in events}
    assert {event["data"]["kind"] for event in events} == {"storm"}
    problems = [event for event in sent.differences("hourly", events) if "is missing" not in event]
    assert problems == []


def test_the_index_of_each_table_agrees_with_the_table(life: Life) -> None:
    account = life.stage.dynamo.account
    indexed = [name for name, table in account.tables.items() if table.indexes]
    assert bool(indexed) == life.settings["hourly"].indexed
    for name in indexed:
        table, by_kind = (
            account.engine.call("Scan", {"TableName": name, **index})["Items"]
            for index in ({}, {"IndexName": "by_kind"})
        )
        plain = [item for item in table if "S" in item["data"]["M"].get("kind", {})]
        assert sorted(item["sk"]["S"] for item in by_kind) == sorted(item["sk"]["S"] for item in plain)


def test_every_event_is_found_by_its_ref(life: Life) -> None:
    reader, sent = life.stage.reader(), life.traffic.sent
    # Each ref is a request, so only a sample of a long life is checked.
    for (stream, id), ref in list(sent.refs.items())[:: 1 + len(sent.refs) // 600]:
        if POLICIES[stream].on_expiry == "delete":
            continue
        try:
            shown = get_event(life.policies[stream], ref, reader, {"fields": ["*"]})
        except StoreUnavailable:
            life.stage.clock.sleep(300)
            shown = get_event(life.policies[stream], ref, reader, {"fields": ["*"]})
        assert {name: shown[name] for name in ("series", "time", "id", "data")} in sent.may_show((stream, id))


def test_no_refused_event_is_found(life: Life) -> None:
    sent = life.traffic.sent
    need(sent.refused, "refused events")
    for stream in POLICIES:
        ids = {event["id"] for event in by_series(life, stream, fields="n")}
        assert not ids & {id for name, id in sent.refused if name == stream}


def test_no_object_stays_that_no_event_needs(life: Life) -> None:
    """After a sweep two days after the last event, each object is the only object of an item of an existing table."""
    need(life.outcomes["swept orphans"], "objects that no event needs")
    account = life.stage.dynamo.account
    tables = {
        table.name: account.engine.call("Scan", {"TableName": table.name}) for _, _, table in life.checks.tables()
    }
    outside = [item["out"]["M"] for table in tables.values() for item in table["Items"] if "out" in item]
    assert sorted(life.stage.values.blobs) == sorted(out["o"]["S"] for out in outside if "o" in out)


def test_each_long_text_of_an_existing_week_has_one_object(life: Life) -> None:
    """Counted by what was sent: an event whose last content is uncertain may have an object or not."""
    sent, labels = life.traffic.sent, [label for stream, label, _ in life.checks.tables() if stream == "weekly"]
    long: Counter[str] = Counter()
    perhaps: Counter[str] = Counter()
    for name, sendings in sent.sendings.items():
        if name[0] == "weekly":
            (label,) = [label for label in labels if span_of(label).holds(sendings[0].event["time"])] or [""]
            texts = [len(event["data"]["text"]) > 10_000 for event in sent.may_show(name)]
            long[label] += all(texts) and any(sending.sure for sending in sendings)
            perhaps[label] += any(texts)
    need(any(long[label] for label in labels), "long texts")
    for label in labels:
        prefix = f"large/stream=weekly/period={label}/"
        objects = sum(key.startswith(prefix) for key in life.stage.values.blobs)
        assert long[label] <= objects <= perhaps[label], label


def test_every_mapping_is_of_a_table_of_a_stream_with_a_feed(life: Life) -> None:
    """The last run was two days ago. The mapping of a deleted table stays for a day: DynamoDB keeps its records so long."""
    mapped = {mapping.table for mapping in life.stage.mappings.list() if mapping.state != "Deleting"}
    deleted = {
        entry.table
        for stream in ("daily", "texts")
        for entry in life.stage.catalog.entries(stream, consistent=True)
        if entry.deleted_at is not None and life.stage.clock.now() - entry.deleted_at < timedelta(days=3, hours=1)
    }
    assert mapped <= set(life.stage.dynamo.account.tables) | deleted
    fed = {name for name, policy in life.settings.items() if policy.feed}
    assert {table.split(".")[1] for table in mapped} == fed
    assert fed == ({"texts", "daily"} if 5 < DAYS <= 18 else {"texts"})


def test_a_removed_stream_takes_no_events_and_has_no_tables(life: Life) -> None:
    removed = {name for name in POLICIES if name not in life.settings}
    assert removed == ({"leaving"} if DAYS > 6 else set())
    need(removed, "removed streams")
    for name in removed:
        with pytest.raises(ProblemError) as refused:
            life.stage.send(name, b"[]")
        assert refused.value.problem.status == 404
    left = {name for stream, name, _ in life.checks.tables() if stream in removed}
    assert left == set() or DAYS < 12


def test_auto_scaling_controls_only_open_tables(life: Life) -> None:
    assert bool(life.stage.scaling.tended) == bool(life.settings["hourly"].scaled)
    need(DAYS > 4, "tables with auto scaling")
    policy = life.settings["hourly"]
    late = LATE_SETTLE + STAGGER if policy.lowers else policy.late
    # Auto scaling was checked last before the two days without a run.
    last = life.stage.clock.now() - timedelta(days=2, hours=1)
    for name in life.stage.scaling.tended:
        stream, label = name.removeprefix("tidetable-lapse.").split(".")
        assert stream == "hourly"
        assert span_of(label).end + late > last
