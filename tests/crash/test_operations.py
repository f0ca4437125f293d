"""Restores, sweeps, backfills and removals stopped after every single call that they make, in turn, and run again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.noise import noise
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.killed import NOON, killed_after_every_call
from tidetable.catalog import Backfill, Opened, State
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.lifecycle.removal import Removed, remove
from tidetable.ports import Blob
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

# Long periods: few tables, each of which is met by every kill.
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "month"
late = "1d"
retention = 1
premake = 1
removal = "delete"
versions = "{versions}"
cold = {cold}
large = {{ compress_above = 1024, beyond = "{beyond}" }}
key = {{ partition_by = "series" }}
table = {{ deletion_protection = true }}
[streams.s.capacity]
mode = "provisioned"
ladder = [{{ age = 0, write = 100, read = 100 }}, {{ age = 1, write = 2, read = 2, class = "infrequent-access" }}]
"""
WHOLE = CONFIG.format(versions="keep", cold='["raw"]', beyond="chunks")
STORED = CONFIG.format(versions="overwrite", cold="[]", beyond="s3")
LONG = noise(900_000, 1)


def event(id: str, **data: Any) -> dict[str, Any]:
    return {"series": "a", "id": id, "time": to_text(NOON - timedelta(hours=len(id))), "data": data}


def send(stage: Stage, *events: dict[str, Any]) -> None:
    outcome = stage.send("s", json.dumps(events).encode())
    assert (outcome.accepted, outcome.queued, outcome.rejections) == (len(events), 0, [])


def shown(stage: Stage, start: datetime = NOON - timedelta(days=60), **more: str) -> list[tuple[str, Any]]:
    """Id and data of every event of a query, whole."""
    policy, now = stage.config.streams["s"], stage.clock.now()
    asked = {"from": [to_text(start)], "to": [to_text(now)], "series": ["a"], "fields": ["*"], "limit": ["1000"]}
    query = parse_query(policy, asked | {name: [value] for name, value in more.items()}, now, stage.seal)
    answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
    assert answer["next"] is None
    return [(one["id"], one["data"]) for one in answer["events"]]


def settle(stage: Stage, runs: int = 4) -> None:
    for _ in range(runs):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    stage.dynamo.account.settle()


def tables(stage: Stage) -> list[str]:
    stage.dynamo.account.settle()
    return sorted(name.removeprefix("tidetable-lapse.") for name in stage.dynamo.account.tables if name != CATALOG)


def states(stage: Stage) -> dict[str, str]:
    return {one.period.label: one.state.value for one in stage.catalog.entries("s", consistent=True)}


def built(config: str = WHOLE, now: datetime = NOON) -> Stage:
    stage = Stage(now, config)
    stage.part_bytes = 2000
    while stage.run_lifecycle().done:
        stage.clock.sleep(30)
    return stage


FIRST = [event("a", n=1, raw="r" * 900), event("bb", n=1, text=LONG), event("ccc", n=1)]
SECOND = [event("a", n=2, raw="s" * 900), event("bb", n=2, text=LONG)]
VERSIONS = [("a", 2), ("a", 1), ("bb", 2), ("bb", 1), ("ccc", 1)]


def aged(*rounds: list[dict[str, Any]]) -> Stage:
    """A stage whose first month was archived and deleted."""
    stage = built()
    for events in rounds:
        send(stage, *events)
        stage.clock.sleep(60)
    stage.clock.time = datetime(2026, 5, 3, tzinfo=UTC)
    settle(stage, 8)
    assert "s.2026-03" not in tables(stage)
    return stage


def gone() -> Stage:
    """Such a stage with versions, cold fields, and a large value in chunks."""
    return aged(FIRST, SECOND)


def test_a_restore_of_versions_cold_fields_and_chunks_is_finished_by_the_next() -> None:
    def restore(stage: Stage) -> None:
        assert stage.restore("s", "2026-03").next is None

    def check(stage: Stage, calls: int) -> None:
        found = shown(stage, versions="all")
        assert [(id, data["n"]) for id, data in found] == VERSIONS, f"killed after {calls} calls"
        whole = [one["data"] for one in (SECOND[0], FIRST[0], SECOND[1], FIRST[1], FIRST[2])]
        assert [data for _, data in found] == whole, f"killed after {calls} calls"

    for calls, stage in killed_after_every_call(gone, restore):
        check(stage, calls)
        if states(stage)["2026-03"] != "closed":
            stage.clock.sleep(900)
            restore(stage)
        check(stage, calls)
        assert states(stage)["2026-03"] == "closed"
        assert {"s.2026-03", "s.2026-03.parts"} <= set(tables(stage))


def test_a_lifecycle_that_comes_upon_a_restore_that_was_stopped_leaves_it_alone() -> None:
    """The next restore comes hours later; until then the period is read from its archive."""
    for calls, stage in killed_after_every_call(gone, lambda stage: stage.restore("s", "2026-03")):
        before = states(stage)["2026-03"]
        settle(stage, 2)
        assert states(stage)["2026-03"] == before, f"killed after {calls} calls"
        assert [(id, data["n"]) for id, data in shown(stage, versions="all")] == VERSIONS
        if before == "restoring":
            assert stage.restore("s", "2026-03").next is None
        assert [(id, data["n"]) for id, data in shown(stage, versions="all")] == VERSIONS


def littered() -> Stage:
    """Objects: a live, a replaced, and an abandoned object, one of a deleted month, and one of a month that nobody knows."""
    stage = built(STORED)
    send(stage, event("a", n=1, text=LONG))
    send(stage, event("a", n=2, text=LONG))
    live = list(stage.values.blobs.values())[-1]
    for month in ("2026-03", "2026-04", "2025-01"):
        stage.values.put(Blob(f"large/stream=s/period={month}/other", b"other", live.owner))
    entry = next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == "2026-04")
    stage.catalog.move(entry, State.DELETED, expected=[entry.state], deleted_at=stage.clock.now())
    stage.clock.sleep(2 * 86_400)
    assert len(stage.values.blobs) == 5
    return stage


def test_a_sweep_is_finished_by_the_next() -> None:
    """It may not know of a month that it has no entry for; all else that nothing needs goes, and what is needed stays."""
    whole = littered()
    swept = whole.sweep()
    assert (swept.seen, swept.orphans, swept.expired, swept.unknown, swept.failures) == (5, 2, 1, 1, [])
    kept = sorted(whole.values.blobs)
    assert [key.split("/")[2] for key in kept] == ["period=2025-01", "period=2026-03"]
    assert kept[1] == list(littered().values.blobs)[1], "what the second event refers to"
    for calls, stage in killed_after_every_call(littered, Stage.sweep):
        assert shown(stage) == [("a", {"n": 2, "text": LONG})], f"killed after {calls} calls"
        assert stage.sweep().failures == []
        assert sorted(stage.values.blobs) == kept, f"killed after {calls} calls"
        assert shown(stage) == [("a", {"n": 2, "text": LONG})]
        assert stage.sweep().orphans == 0


START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
LATER = datetime(2026, 5, 15, 12, tzinfo=UTC)
UNTIL = LATER + timedelta(hours=24)
HISTORY = [
    {"series": "a", "id": f"h{day}", "time": to_text(START + timedelta(days=day)), "data": {"n": day}}
    for day in range(20)
]
IDS = [f"h{day}" for day in range(19, -1, -1)]
BEFORE = START - timedelta(days=1)


def grown() -> Stage:
    """A stage that looks at no period before April any more, as its first months were deleted."""
    stage = built(now=datetime(2026, 2, 10, 12, tzinfo=UTC))
    stage.clock.time = LATER - timedelta(hours=1)
    settle(stage, 6)
    assert states(stage) == {
        "2026-02": "deleted", "2026-03": "deleted", "2026-05": "open", "2026-06": "open",
    }  # fmt: skip
    return stage


def begin(stage: Stage) -> None:
    backfill = Backfill("s", START, END, Opened(UNTIL, 50, 5))
    assert open_backfill(backfill, stage.reconciler(), "begin", lambda: 280.0).healthy


def end(stage: Stage) -> None:
    end_backfills("s", stage.reconciler(), "end", lambda: 280.0)


def imports(stage: Stage) -> bool:
    """Whether the stage takes history."""
    try:
        outcome = stage.send("s", json.dumps(HISTORY).encode())
    except ProblemError:
        return False
    assert outcome.accepted == len(HISTORY)
    return True


def ages(stage: Stage) -> None:
    """Close and archive what is closed, and delete its tables."""
    stage.clock.time = max(stage.clock.now(), UNTIL) + timedelta(hours=1)
    settle(stage, 8)


def test_the_begin_of_a_backfill_is_finished_by_the_next_request() -> None:
    for calls, stage in killed_after_every_call(grown, begin):
        begin(stage)
        stage.clock.sleep(60)
        assert imports(stage), f"killed after {calls} calls"
        assert {"s.2026-01", "s.2026-01.parts"} <= set(tables(stage))
        ages(stage)
        assert states(stage)["2026-01"] == "deleted", f"killed after {calls} calls"
        assert [id for id, _ in shown(stage, BEFORE)] == IDS, f"killed after {calls} calls"


def test_a_backfill_that_was_stopped_is_finished_by_the_lifecycle_or_never_was() -> None:
    recorded = set()
    for calls, stage in killed_after_every_call(grown, begin):
        settle(stage, 2)
        requested = bool(stage.catalog.backfills("s"))
        recorded.add(requested)
        assert imports(stage) == requested, f"killed after {calls} calls"
        assert ("s.2026-01" in tables(stage)) == requested
        ages(stage)
        assert [id for id, _ in shown(stage, BEFORE)] == IDS * requested, f"killed after {calls} calls"
        assert not [name for name in tables(stage) if "2026-01" in name], "it closed by itself"
    assert recorded == {False, True}


def test_the_end_of_a_backfill_is_finished_by_the_next_request() -> None:
    def imported() -> Stage:
        stage = grown()
        begin(stage)
        stage.clock.sleep(60)
        assert imports(stage)
        return stage

    for calls, stage in killed_after_every_call(imported, end):
        end(stage)
        stage.clock.sleep(10)
        assert stage.catalog.backfills("s") == []
        assert not imports(stage), f"killed after {calls} calls"
        assert [id for id, _ in shown(stage, BEFORE)] == IDS
        # Fifteen minutes after it was closed, and not a day later.
        stage.clock.sleep(1200)
        settle(stage, 4)
        assert stage.clock.now() < UNTIL
        assert states(stage)["2026-01"] == "deleted", f"killed after {calls} calls"
        assert [id for id, _ in shown(stage, BEFORE)] == IDS


def removing(stage: Stage) -> Removed:
    end_of_time = stage.clock.now() + timedelta(seconds=585)
    parts = stage.reconciler()

    def remaining() -> float:
        return (end_of_time - stage.clock.now()).total_seconds()

    world = parts.world(remaining)
    return remove(stage.config, world, stage.clock.now(), f"removal {stage.clock.now()}")


def test_a_removal_is_finished_by_the_next() -> None:
    """Of a month that is being restored, a month that is being archived, and open months, each with its table of parts."""

    def lived() -> Stage:
        stage = aged(FIRST[2:])
        assert stage.restore("s", "2026-03").next is None
        entry = next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == "2026-04")
        stage.catalog.move(entry, State.ARCHIVING, expected=[State.CLOSED, State.OPEN])
        entry = next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == "2026-03")
        stage.catalog.move(entry, State.RESTORING, expected=[State.CLOSED])
        return stage

    whole = lived()
    months = ("2026-03", "2026-04", "2026-05", "2026-06")
    assert tables(whole) == [f"s.{month}{kind}" for month in months for kind in ("", ".parts")]
    removing(whole)
    archives = sorted(whole.bucket.objects)
    for calls, stage in killed_after_every_call(lived, removing):
        removing(stage)
        assert tables(stage) == [], f"killed after {calls} calls"
        assert set(states(stage).values()) == {"deleted"}
        assert sorted(stage.bucket.objects) == archives, "archives stay"
        assert [id for id, _ in shown(stage)] == ["ccc"], "and are read"
        assert removing(stage).tables == []
