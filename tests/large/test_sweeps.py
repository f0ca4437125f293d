"""The sweep of objects in S3: it removes only objects to which no item refers."""

import json
from datetime import timedelta

import pytest

from tests.fakes.noise import noise
from tests.worlds.large import CONFIG, DAY, SENT, age, ask, built, event, orphan, read_entry, ready, send
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.errors import Outage, StoreUnavailable
from tidetable.large import sweep as sweeping
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.times import to_text


def test_the_sweep_removes_what_nothing_refers_to_and_nothing_else() -> None:
    stage = built()
    for seed in (1, 2):
        send(stage, "stored", event(0, {"text": noise(900_000, seed)}))
        send(stage, "kept", event(0, {"text": noise(900_000, seed)}))
    assert len(stage.values.blobs) == 4
    assert stage.sweep().document()["orphans"] == 0, "nothing younger than a day is touched"
    stage.clock.sleep(2 * 86_400)
    dry = stage.sweep(dry_run=True)
    assert (dry.orphans, dry.expired, len(stage.values.blobs)) == (1, 0, 4)
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, swept.unknown, swept.finished) == (4, 1, 0, True)
    assert stage.sweep().orphans == 0
    assert ask(stage, "stored")[0]["data"] == {"text": noise(900_000, 2)}
    both = [noise(900_000, 2), noise(900_000, 1)]
    assert [version["data"]["text"] for version in ask(stage, "kept", versions="all")] == both
    stage.clock.sleep(7 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert stage.sweep().expired == 3
    assert not stage.values.blobs
    assert [version["data"]["text"] for version in ask(stage, "kept", versions="all")] == both, "the archive has them"


def test_a_sweep_goes_on_where_the_time_was_up_and_begins_anew_once_it_is_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = built()
    send(stage, "stored", *(event(n, {"text": noise(900_000, n)}) for n in range(3)))
    send(stage, "kept", *(event(n, {"text": noise(900_000, n)}) for n in range(2)))
    for n in range(4):
        stage.values.put(orphan(stage, "kept", n))
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 2)
    looked: list[str] = []
    owner = stage.values.owner
    monkeypatch.setattr(stage.values, "owner", lambda key: looked.append(key) or owner(key))  # type: ignore[func-returns-value]
    everything = sorted(stage.values.blobs)
    runs = 0
    while True:
        # Time for two batches.
        budget = iter([100.0] * 2)
        swept = stage.sweep(remaining=lambda budget=budget: next(budget, 0.0))  # type: ignore[misc]
        runs += 1
        if swept.finished:
            break
        assert runs < 10
    assert sorted(looked) == everything, "each was looked at once"
    assert runs > 2
    assert len(stage.values.blobs) == 5
    looked.clear()
    assert stage.sweep().finished
    assert len(looked) == 5, "a new round begins at the beginning"


@pytest.mark.parametrize("batch", [1, 2])
def test_a_killed_sweep_has_noted_how_far_it_was(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    stage = built()
    for n in range(16 * batch):
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", batch)
    looked: list[str] = []
    killed = 12 * batch + 1

    def owner(key: str) -> Key | None:
        """Nobody's, so that all stay."""
        looked.append(key)
        if len(looked) == killed:
            raise KeyboardInterrupt
        return None

    monkeypatch.setattr(stage.values, "owner", owner)
    with pytest.raises(KeyboardInterrupt):
        stage.sweep()
    assert stage.sweep().finished
    assert looked[killed] == looked[10 * batch], "the tenth batch was noted"
    assert len(looked) == killed + 6 * batch


def test_what_cannot_be_looked_at_keeps_nothing_else_from_being_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = built()
    for n in range(3):
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    owner = stage.values.owner

    def refusing(key: str) -> Key | None:
        if "/11/" in key:
            raise StoreUnavailable(Outage.OTHER, "later", "SlowDown")
        return owner(key)

    monkeypatch.setattr(stage.values, "owner", refusing)
    swept = stage.sweep()
    assert (swept.orphans, swept.finished) == (2, True)
    assert [failure.partition(": ")[0] for failure in swept.failures] == [orphan(stage, "stored", 1).key]


@pytest.mark.parametrize("state", [State.ARCHIVED, State.RESTORING])
def test_objects_of_a_table_that_waits_or_is_being_restored_are_kept(state: State) -> None:
    stage = built()
    stage.config = parse(CONFIG.replace("delete_expired = true", "delete_expired = false"))
    send(stage, "stored", SENT[2])
    stage.values.put(orphan(stage, "stored", 0))
    stage.clock.sleep(7 * 86_400)
    age(stage)
    entry = next(entry for entry in stage.catalog.entries("stored", consistent=True) if entry.period.label == DAY)
    assert entry.state is State.ARCHIVED
    if state is State.RESTORING:
        stage.catalog.move(entry, state, expected=(State.ARCHIVED,))
    before = dict(stage.values.blobs)
    assert len(before) == 2
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, swept.expired, swept.finished) == (0, 0, 0, True)
    assert (swept.lapsed, swept.failures) == (0, []), "an archive without an end of its time is kept for ever"
    assert stage.values.blobs == before


def test_objects_of_a_table_that_is_archived_while_they_are_swept_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items are deleted with the table and can no longer show which objects are needed."""
    stage = built()
    for number in range(3):
        stage.values.put(orphan(stage, "stored", number))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    owner = stage.values.owner

    def archived_meanwhile(key: str) -> Key | None:
        entry = read_entry(stage)
        stage.catalog.move(entry, State.ARCHIVED, expected=(entry.state,))
        return owner(key)

    monkeypatch.setattr(stage.values, "owner", archived_meanwhile)
    assert stage.sweep().orphans == 1
    assert len(stage.values.blobs) == 2


def test_objects_of_a_deleted_period_stay_for_a_day_and_those_of_an_unknown_period_stay() -> None:
    stage = built()
    entry = read_entry(stage)
    stage.catalog.move(entry, State.DELETED, expected=(entry.state,))
    stage.values.put(orphan(stage, "stored", 0))
    for label in ("1999-01-01", "no-period"):
        stage.values.put(Blob(f"large/stream=stored/period={label}/ab/1", b"x", Key("a#0", "x")))
    swept = stage.sweep()
    assert (swept.expired, swept.unknown, len(stage.values.blobs)) == (0, 2, 3)
    stage.clock.sleep(86_400 - 1)
    assert stage.sweep().expired == 0
    stage.clock.sleep(1)
    swept = stage.sweep()
    assert (swept.expired, swept.unknown, swept.bytes) == (1, 2, 1)
    assert sorted(stage.values.blobs) == [
        "large/stream=stored/period=1999-01-01/ab/1",
        "large/stream=stored/period=no-period/ab/1",
    ]


def test_objects_of_deleted_periods_go_first() -> None:
    stage = built()
    send(stage, "stored", SENT[2])
    stage.clock.sleep(7 * 86_400)
    age(stage)
    later = stage.clock.now()
    stage.send(
        "stored",
        json.dumps({"series": "a", "id": "new", "time": to_text(later), "data": {"t": noise(900_000)}}).encode(),
    )
    assert len(stage.values.blobs) == 2
    stage.clock.sleep(2 * 86_400)
    budget = iter([100.0] * 1)
    swept = stage.sweep(remaining=lambda: next(budget, 0.0))
    assert (swept.expired, swept.finished) == (1, False)
    assert len(stage.values.blobs) == 1


def test_objects_of_a_stream_that_left_the_configuration_are_swept_too() -> None:
    stage = built()
    send(stage, "stored", SENT[2])
    send(stage, "stored", event(2, {"text": noise(900_000, 9)}))
    assert len(stage.values.blobs) == 2
    head, _, tail = CONFIG.partition("[streams.stored]")
    stage.config = parse(head + tail[tail.index("[streams.kept]") :])
    stage.clock.sleep(2 * 86_400)
    ready(stage)
    swept = stage.sweep()
    assert (swept.orphans, swept.failures) == (1, [])
    assert len(stage.values.blobs) == 1, "what the newest version refers to stays"


def test_an_object_is_kept_that_an_item_of_this_very_moment_refers_to() -> None:
    """A clock may be wrong, and an eventually consistent read does not see the item yet."""
    stage = built()
    send(stage, "stored", SENT[2])
    send(stage, "kept", SENT[2])
    send(stage, "kept", event(2, {"text": noise(900_000, 9)}))
    stage.values.written = dict.fromkeys(stage.values.written, stage.clock.now() - timedelta(days=2))
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, len(stage.values.blobs)) == (3, 0, 3)


def test_the_objects_of_every_version_of_an_event_are_kept() -> None:
    stage = built()
    for seed in range(4):
        send(stage, "kept", event(0, {"text": noise(900_000, seed)}))
    stage.clock.sleep(2 * 86_400)
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, len(stage.values.blobs)) == (4, 0, 4)


def test_a_hundred_objects_are_looked_at_and_deleted_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS: BatchGetItem takes a hundred keys."""
    stage = built()
    for number in range(101):
        stage.values.put(orphan(stage, "stored", number))
    stage.clock.sleep(2 * 86_400)
    deleted: list[int] = []
    monkeypatch.setattr(stage.values, "delete", lambda keys: deleted.append(len(keys)))
    assert stage.sweep().orphans == 101
    assert deleted == [100, 1]
