"""Archives of retained tables: late writes at every moment of an archive, functions that are stopped, and a long history."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.stage import Killed, Stage
from tests.worlds.killed import NOON, killed_after_every_change
from tests.worlds.retained import (
    FORMS,
    LABEL,
    divide_small_tables,
    drain,
    find_entry,
    make_closed,
    make_retained,
    queue_late,
    read_archive,
    read_table,
    work,
    work_on_messages,
)
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.times import from_text, to_text


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    divide_small_tables(monkeypatch)


@contextmanager
def interrupt(stage: Stage, act: Callable[[], object]) -> Iterator[None]:
    """Call ``act`` before each call that a function makes to AWS, apart from those of ``act`` itself."""
    acting, changed = False, list[tuple[Any, str]]()

    def enter() -> None:
        nonlocal acting
        if not acting:
            acting = True
            try:
                act()
            finally:
                acting = False

    def before(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def call(*given: Any, **options: Any) -> Any:
            enter()
            return method(*given, **options)

        setattr(owner, name, call)
        changed.append((owner, name))

    before(stage.client, "count")
    for name in ("begin_segments", "move", "entries"):
        before(stage.catalog, name)
    for name in ("add", "claim", "release", "list_items", "remove"):
        before(stage.work, name)
    yield
    for owner, name in changed:
        delattr(owner, name)


def finish(stage: Stage) -> None:
    """Run until the archive has all writes, and until the retention has ended; look at both."""
    for days in (0, 3):
        stage.clock.sleep(days * 86_400 + 3_700)
        for _ in range(16):
            work(stage)
            if find_entry(stage).is_retained:
                break
            stage.clock.sleep(900)
        assert find_entry(stage).is_retained
        assert read_archive(stage) == read_table(stage)


@pytest.mark.parametrize("form", ["items", "packs", "versions"])
def test_a_write_at_any_moment_of_an_archive_comes_into_the_archive(form: str) -> None:
    """Each of the first calls of the archive is followed by a write into another segment, or into the same."""
    stage = make_closed(form, hours=43)
    stage.at_once_bytes, stage.segment_bytes = 0, 300
    hours = iter(range(1, 70))

    def write() -> None:
        hour = next(hours, None)
        if hour is not None:
            queue_late(stage, hour * 7 % 24, label="e" if hour % 3 else "f", n=hour)
            drain(stage)

    with interrupt(stage, write):
        for _ in range(4):
            work(stage)
    assert next(hours, None) is None, "the archive has enough calls"
    assert not stage.queue.dead
    finish(stage)
    # At the end of the retention, too. A write that comes after the fence is in the queue of dead letters.
    hours = iter(range(1, 40))
    stage.at_once_bytes = 10**9
    with interrupt(stage, write):
        for _ in range(4):
            with suppress(ArchiveBusy):
                stage.archive("s", LABEL, within=230)
    assert find_entry(stage).state is State.ARCHIVED
    assert stage.queue.dead
    assert read_archive(stage) == read_table(stage)


def test_a_drain_that_does_not_know_yet_that_the_table_is_retained_tries_again() -> None:
    stage = make_closed()
    queue_late(stage, 5)
    transact: Any = stage.store.transact

    def after_the_begin(*given: Any, **options: Any) -> Any:
        while find_entry(stage).state is State.CLOSED:
            stage.clock.sleep(900)
            work(stage)
        return transact(*given, **options)

    stage.store.transact = after_the_begin  # type: ignore[method-assign]
    stage.drain()
    del stage.store.transact
    assert find_entry(stage).marks.numbers == ()
    stage.clock.sleep(3_600)
    drain(stage)
    assert not stage.queue.dead
    assert find_entry(stage).marks.numbers == (0,)


def test_marks_that_come_during_the_last_round_are_worked_on_before_the_table_goes() -> None:
    stage = make_retained("items", 3)
    queue_late(stage, 1)
    drain(stage)
    stage.clock.sleep(3_600)
    stage.run_lifecycle()
    queue_late(stage, 20)
    drain(stage)
    entry = find_entry(stage)
    assert (entry.has_all_segments, entry.marks.numbers) == (False, (2,)), "a round of the first segment is under way"
    stage.clock.sleep(5 * 86_400)
    for _ in range(5):
        work(stage)
        stage.clock.sleep(900)
    assert find_entry(stage).state is State.DELETED
    assert {"late1", "late20"} <= {row[1].rpartition("#")[2] for row in read_archive(stage)}


def test_a_run_that_is_stopped_after_any_change_is_followed_by_others_and_no_write_is_lost() -> None:
    def prepare() -> Stage:
        stage = make_retained("items", 3)
        queue_late(stage, 1, 5, 20)
        drain(stage)
        stage.clock.sleep(3_600)
        return stage

    def act(stage: Stage) -> None:
        stage.run_lifecycle()
        work_on_messages(stage)

    for calls, stage in killed_after_every_change(prepare, act):
        queue_late(stage, 5, label="late", n=99)
        drain(stage)
        stage.clock.sleep(3_600)
        for _ in range(8):
            work(stage)
            stage.clock.sleep(600)
        assert find_entry(stage).is_retained, calls
        assert read_archive(stage) == read_table(stage), calls


def test_a_run_that_is_stopped_at_the_end_of_the_retention_deletes_nothing_that_is_not_archived() -> None:
    def prepare() -> Stage:
        stage = make_retained()
        queue_late(stage, 5)
        drain(stage)
        stage.clock.sleep(4 * 86_400)
        stage.dynamo.account.settle()
        assert find_entry(stage).marks.numbers == (0,)
        stage.restart()
        return stage

    expected = read_table(prepare())
    for calls, stage in killed_after_every_change(prepare, lambda stage: stage.archive("s", LABEL, within=230)):
        queue_late(stage, 7, n=3)
        drain(stage)
        for _ in range(3):
            work(stage)
        assert find_entry(stage).state is State.DELETED, calls
        found = read_archive(stage)
        late = [row for row in found if "late7" in row[1]]
        # The write came before the fence, or it is in the queue of dead letters with the way out.
        assert (len(late), len(stage.queue.dead)) in ((1, 0), (0, 1)), calls
        assert [row for row in found if row not in late] == expected, calls


def test_a_worker_that_wakes_a_day_late_changes_nothing() -> None:
    stage = make_retained("items", 3)
    queue_late(stage, 1, 20)
    drain(stage)
    stage.clock.sleep(3_600)
    stage.run_lifecycle()
    messages = list(stage.work_queue.messages)
    assert len(messages) == 1, "one for each reader of a slow table"
    work(stage)
    queue_late(stage, 1, n=2)
    drain(stage)
    stage.clock.sleep(86_400)
    for _ in range(3):
        work(stage)
    whole = read_archive(stage)
    stage.work_queue.messages.extend(messages)
    work_on_messages(stage)
    assert read_archive(stage) == whole == read_table(stage)


class Fortnight:
    """A stage over two weeks, and what was acknowledged: the last state of each event, by id and time."""

    def __init__(self, form: str) -> None:
        self.chance = random.Random(form)
        self.stage = Stage(NOON, FORMS[form])
        self.stage.run_lifecycle()
        self.last: dict[tuple[str, str], int] = {}

    def send(self, step: int) -> None:
        """Send two events of the last day; and again older ones, in a message that waited for days."""
        stage, chance, now = self.stage, self.chance, self.stage.clock.now()
        for number in range(2):
            id, time = f"e{step * 2 + number}", to_text(now - timedelta(minutes=chance.randrange(1_200)))
            body = json.dumps([{"series": "a", "id": id, "time": time, "data": {"n": step}}])
            assert stage.send("s", body.encode()).status < 300
            self.last[id, time] = step
        for id, time in chance.sample(sorted(self.last), k=2) if step % 3 else ():
            event = Event("a", from_text(time), id, {"n": 1_000 + step})
            if now - event.time < timedelta(days=4.5):
                assert not stage.queue.send("s", [event], int(now.timestamp() * 1000) + 1)
                self.last[id, time] = 1_000 + step

    def run_functions(self) -> None:
        """Run some functions, of which some are stopped after some calls."""
        stage, chance = self.stage, self.chance
        for _ in range(3):
            stage.client.calls = 0
            stage.client.allowance = chance.randrange(5, 60) if chance.random() < 0.4 else None
            with suppress(Killed):
                chance.choice([work, work, drain])(stage)
            if stage.client.allowance is not None:
                stage.client.allowance = None
                stage.restart()
            stage.clock.sleep(7_000)

    def read_archives(self) -> dict[tuple[str, str], int]:
        """Read the archives of the periods, all of which are deleted."""
        found: dict[tuple[str, str], int] = {}
        for entry in self.stage.catalog.entries("s", None, NOON + timedelta(days=14), consistent=True):
            assert entry.state is State.DELETED, entry.period.label
            for _, sk, data in read_archive(self.stage, entry.period.label):
                time, _, id = sk.split("#")
                assert (id, time) not in found
                found[id, time] = int(float(json.loads(data)["n"]))
        return found


@pytest.mark.parametrize("form", ["items", "packs"])
def test_two_weeks_of_late_events_with_functions_that_are_stopped(form: str) -> None:
    """At the end each event that was acknowledged is in an archive, in its last state, and no table is left."""
    world = Fortnight(form)
    stage = world.stage
    for step in range(56):
        world.send(step)
        world.run_functions()
    for _ in range(3):
        stage.clock.sleep(900)
        drain(stage)
        work(stage)
    stage.clock.sleep(7 * 86_400)
    for _ in range(8):
        work(stage)
        stage.clock.sleep(1_000)
    assert not stage.queue.dead
    assert world.read_archives() == world.last


def test_the_last_write_before_the_fence_is_archived() -> None:
    """It comes after the run has read the entry, and before the entry's state changes."""
    stage = make_retained()
    move = stage.catalog.move

    def write_first(*given: Any, **options: Any) -> Any:
        if find_entry(stage).state is State.RETAINED:
            queue_late(stage, 5)
            drain(stage)
        return move(*given, **options)

    stage.catalog.move = write_first  # type: ignore[method-assign]
    stage.archive("s", LABEL, within=230)
    del stage.catalog.move
    assert find_entry(stage).state is State.ARCHIVED
    assert not stage.queue.dead
    assert "late5" in {row[1].rpartition("#")[2] for row in read_archive(stage)}
