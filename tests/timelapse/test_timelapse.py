"""A simulated life: every query finds every acknowledged event exactly once.

``TIDETABLE_SEED=7 make test`` runs another life, ``TIDETABLE_DAYS=10`` a shorter life with fewer changes and lower
expectations. Weeks expire from day 10 on, the first month on day 30.
"""

from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import DAYS, SEED
from tests.timelapse import course
from tests.timelapse.checks import walk
from tests.timelapse.course import BEGINNING, POLICIES, START
from tests.timelapse.life import Life
from tests.timelapse.traffic import SERIES
from tests.timelapse.vocabulary import LATE_SETTLE, STAGGER, span_of
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


def found(life: Life, stream: str, **parameters: str) -> list[dict[str, Any]]:
    end = to_text(life.stage.clock.now())
    asked = {"from_": FIRST, "to": end, "limit": "1000", "fields": "*"} | parameters
    return list(walk(life.stage, life.policies[stream], life.stage.reader(), **asked))


def by_series(life: Life, stream: str, **parameters: str) -> list[dict[str, Any]]:
    events = []
    for series in SERIES:
        own = found(life, stream, series=series, order="asc", **parameters)
        assert {event["series"] for event in own} <= {series}
        assert [event["time"] for event in own] == sorted(event["time"] for event in own)
        events += own
    return events


def test_no_forbidden_action_was_taken(life: Life) -> None:
    assert life.complaints == []
    assert life.stage.queue.dead == []
    assert life.stage.queue.messages == []


def test_the_life_was_full_enough_to_prove_something(life: Life) -> None:
    """The expected minimum of each count depends on the number of days; every change of the course must have happened."""
    least: dict[str, float] = {
        "accepted": 80 * DAYS,
        "ladder checked": 5 * DAYS,
        "tables checked": 50 * DAYS,
        "lowered tables checked": 5 * DAYS,
        "create done": 20 * DAYS,
        # Six hours until the first hour expires, and a day without deletions.
        "deletions checked": 24 * (DAYS - 2),
        "large in texts": DAYS // 4,
        "large in weekly": DAYS // 4,
        "corrected in texts": DAYS // 2,
        "corrected in weekly": DAYS // 4,
        "lifecycle killed": DAYS // 4,
        "ingest failed": DAYS // 10,
        "archive failed": DAYS // 10,
        "rejected": DAYS // 4,
        "refused 422": DAYS // 4,
    }
    # Some hours are sealed while the refresher sleeps, so a rollup answers most queries and not all.
    least |= {"sealed": 40 * DAYS, "resealed": 4 * DAYS, "refresher killed": DAYS // 5}
    least |= {f"answered by {name}": DAYS // 4 for name in ("daily-hours", "daily-days", "fleeting-hours")}
    least |= {
        "answered by daily-kinds": max(0, min(DAYS, 23) - 10) // 4,
        "aggregated rows of deleted events": 20 * max(0, DAYS - 5),
    }
    storms = (DAYS + course.STORM_DAYS - 2) // course.STORM_DAYS
    least |= {"queued": 20 * storms, "throttled": 20 * storms, "refused 503": storms}
    least |= {f"change {day}": 1 for day in course.CHANGES if day < DAYS}
    least |= {"map done": 3 * DAYS // 2, "unmap done": DAYS - 6, "remap done": DAYS // 2}
    least |= {"feed of texts checked": 5 * DAYS, "feed of daily checked": 5 * max(0, min(DAYS, 18) - 6)}
    least["stream done"] = 2 * (DAYS > 6)
    least["restored"] = sum(day + 1 < DAYS for day in course.RESTORES)
    least["restored events"] = least["restored"]
    least["imported"] = 60 * (course.IMPORT_DAY + 1 < DAYS) + 70 * (course.EARLY_DAY + 1 < DAYS)
    least["import ended"] = course.EARLY_DAY + 1 < DAYS
    least["scaled"] = 5 * max(0, min(DAYS, 14) - 5)
    # The weeks of the first days are deleted with everything in them.
    least["swept expired"] = DAYS > 12
    lacking = {what: (life.outcomes[what], count) for what, count in least.items() if life.outcomes[what] < count}
    assert lacking == {}


@pytest.mark.parametrize("stream", ["daily", "monthly"])
def test_every_event_is_found_once_by_range(life: Life, stream: str) -> None:
    events = found(life, stream)
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
    for id, found_ones in versions.items():
        newest_first = sorted(found_ones, key=lambda one: -one.get("version", 1))
        time = found_ones[0]["time"]
        label = time[:7] if stream == "monthly" else time[:10]
        kept = course.keeps_versions(stream, max(span_of(label).start, START))
        assert life.traffic.sent.version_problems((stream, id), newest_first, kept=kept) == []
        newest = {name: newest_first[0][name] for name in ("series", "time", "id", "data")}
        assert newest in life.traffic.sent.may_show((stream, id))


def test_cold_fields_are_shown_only_by_name(life: Life) -> None:
    events = found(life, "monthly", fields="n")
    assert {name for event in events for name in event["data"]} == {"n"}
    plain = walk(
        life.stage, life.policies["monthly"], life.stage.reader(), from_=FIRST, to=to_text(life.stage.clock.now())
    )
    assert not any("raw" in event["data"] for event in plain)


def test_every_event_of_a_kind_is_found_once_with_the_index_and_without(life: Life) -> None:
    if not life.settings["hourly"].indexed:
        return
    events = found(life, "hourly", order="asc", **{"where.kind": "storm"})
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
    for (stream, id), ref in list(sent.refs.items())[:: 1 + len(sent.refs) // 5000]:
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
    for stream in POLICIES:
        ids = {event["id"] for event in by_series(life, stream, fields="n")}
        assert not ids & {id for name, id in sent.refused if name == stream}


def test_no_object_stays_that_no_event_needs(life: Life) -> None:
    """After a sweep two days after the last event, the bucket holds only the newest large values of existing weeks."""
    now = life.stage.clock.now()
    tables = set(life.stage.dynamo.account.tables)
    for key in life.stage.values.blobs:
        stream, label = (part.partition("=")[2] for part in key.split("/")[1:3])
        assert f"tidetable-lapse.{stream}.{label}" in tables, key
    sent = life.traffic.sent
    weekly = [key for key in life.stage.values.blobs if key.startswith("large/stream=weekly/")]
    large = [
        name
        for name in sent.sendings
        if name[0] == "weekly"
        and any(len(event["data"]["text"]) > 10_000 for event in sent.may_show(name))
        and from_text(sent.sendings[name][0].event["time"]) > now - timedelta(days=24)
    ]
    assert len(weekly) <= len(large)


def test_every_mapping_is_of_a_table_of_a_stream_with_a_feed(life: Life) -> None:
    """The last check was before the two days without a run."""
    mapped = {mapping.table for mapping in life.stage.mappings.list() if mapping.state != "Deleting"}
    assert mapped <= set(life.stage.dynamo.account.tables)
    fed = {name for name, policy in life.settings.items() if policy.feed}
    assert {table.split(".")[1] for table in mapped} == fed
    assert fed == ({"texts", "daily"} if 5 < DAYS <= 18 else {"texts"})


def test_a_removed_stream_takes_no_events_and_has_no_tables(life: Life) -> None:
    removed = {name for name in POLICIES if name not in life.settings}
    assert removed == ({"leaving"} if DAYS > 6 else set())
    for name in removed:
        with pytest.raises(ProblemError) as refused:
            life.stage.send(name, b"[]")
        assert refused.value.problem.status == 404
    left = {name for stream, name, _ in life.checks.tables() if stream in removed}
    assert left == set() or DAYS < 12


def test_auto_scaling_controls_only_open_tables(life: Life) -> None:
    policy = life.settings["hourly"]
    late = LATE_SETTLE + STAGGER if policy.lowers else policy.late
    # Auto scaling was checked last before the two days without a run.
    last = life.stage.clock.now() - timedelta(days=2, hours=1)
    for name in life.stage.scaling.tended:
        stream, label = name.removeprefix("tidetable-lapse.").split(".")
        assert stream == "hourly"
        assert span_of(label).end + late > last
    assert life.settings["hourly"].scaled or not life.stage.scaling.tended
