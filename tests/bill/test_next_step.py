"""The next step of a table: dates written out, and the same as a look at every minute."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from bill.next_step import find_next_step
from tests.lifecycle.world import configuration
from tidetable.catalog import Entry, Opening, State
from tidetable.config import Stream
from tidetable.expiry import is_expired
from tidetable.ladder import choose_level
from tidetable.layout import Layout
from tidetable.periods import parse_label

MINUTE = timedelta(minutes=1)
LADDER = (
    'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }, { age = "late", write = 2, read = 9 }, '
    '{ age = 1, write = 1, read = 3 }, { age = 3, write = 1, read = 3, class = "infrequent-access" }]'
)
ENTRY = Entry(
    "s", parse_label("2026-03-15"), "tidetable-t.s.2026-03-15", Layout("series", 1, "id"), State.OPEN,
    datetime(2026, 3, 13, tzinfo=UTC),
)  # fmt: skip


def stream(**changes: str) -> Stream:
    return configuration(**{"late": "1d", "retention": "5", "capacity": LADDER} | changes).streams["s"]


@pytest.mark.parametrize(
    ("now", "at", "change"),
    [
        # Five minutes in the future are taken, and a raise takes up to a quarter of an hour.
        ("2026-03-14T12:00", "2026-03-14T23:40", (9, 9)),
        ("2026-03-15T12:00", "2026-03-16T00:15", (2, 9)),
        ("2026-03-16T12:00", "2026-03-17T00:00", (1, 3)),
        ("2026-03-17T12:00", "2026-03-19T00:00", (1, 3)),
        ("2026-03-19T12:00", "2026-03-21T00:00", "archived"),
        # A step whose instant is now is still to come.
        ("2026-03-17T00:00", "2026-03-17T00:00", (1, 3)),
        ("2026-03-21T00:00", "2026-03-21T00:00", "archived"),
    ],
)
def test_the_steps_of_a_table_are_dated(now: str, at: str, change: object) -> None:
    step = find_next_step(ENTRY, stream(), datetime.fromisoformat(f"{now}+00:00"), timedelta(0))
    assert step is not None
    assert step.at == datetime.fromisoformat(f"{at}+00:00")
    assert (step.end if step.level is None else (step.level.write, step.level.read)) == change


@pytest.mark.parametrize("stagger", [timedelta(0), timedelta(minutes=10)])
@pytest.mark.parametrize("late", ["1d", "36h", "15m", "50m"])
def test_no_step_is_missed_and_none_is_made_up(late: str, stagger: timedelta) -> None:
    policy, now = stream(late=late), datetime(2026, 3, 14, 12, tzinfo=UTC)
    seen = []
    present = choose_level(ENTRY, policy, now, stagger)
    at = now
    while not is_expired(ENTRY, policy, at):
        level = choose_level(ENTRY, policy, at, stagger)
        if (level.write, level.read, level.table_class) != (present.write, present.read, present.table_class):
            seen.append(at)
            present = level
        at += MINUTE
    seen.append(at)
    found, at = [], now
    while (step := find_next_step(ENTRY, policy, at, stagger)) is not None:
        found.append(step.at)
        at = step.at + timedelta(milliseconds=2)
    assert len(found) == len(seen)
    assert all(
        timedelta(0) < saw - found_at <= MINUTE or saw == found_at for saw, found_at in zip(seen, found, strict=True)
    )


@pytest.mark.parametrize(
    ("minutes", "at"), [("00:00", "2026-03-17T00:06:04"), ("06:04", "2026-03-17T00:06:04"), ("06:05", "2026-03-19T00:06:04")]
)  # fmt: skip
def test_a_step_that_is_staggered_is_to_come_until_its_own_time(minutes: str, at: str) -> None:
    """The first four bytes of SHA-256 of the table's name are 9b64bf52: 0.60701 of ten minutes, 364.2 seconds."""
    now = datetime.fromisoformat(f"2026-03-17T00:{minutes}+00:00")
    step = find_next_step(ENTRY, stream(), now, timedelta(minutes=10))
    assert step is not None
    assert step.at.replace(microsecond=0) == datetime.fromisoformat(f"{at}+00:00")


INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'


@pytest.mark.parametrize(
    "later",
    [
        "age = 1, write = 8, read = 9",
        "age = 1, write = 9, read = 8",
        "age = 1, write = 9, read = 9, index = { status = { write = 7, read = 9 } }",
        'age = 1, write = 9, read = 9, class = "infrequent-access"',
        'age = 1, mode = "on-demand"',
    ],
)
def test_a_change_of_anything_that_a_table_has_is_a_step(later: str) -> None:
    ladder = f'mode = "provisioned"\nladder = [{{ age = 0, write = 9, read = 9 }}, {{ {later} }}]'
    step = find_next_step(
        ENTRY, stream(capacity=ladder, more=INDEX), datetime(2026, 3, 15, 12, tzinfo=UTC), timedelta(0)
    )
    assert step is not None
    assert (step.at, step.end) == (datetime(2026, 3, 17, tzinfo=UTC), "")


def test_a_table_that_expires_has_no_step_at_that_time_and_none_later() -> None:
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }, { age = 5, write = 1, read = 1 }]'
    expires = datetime(2026, 3, 21, tzinfo=UTC)
    for policy, end in (("archive", "archived"), ("delete", "deleted")):
        step = find_next_step(
            ENTRY, stream(capacity=ladder, on_expiry=policy), expires - timedelta(hours=9), timedelta(0)
        )
        assert step is not None
        assert (step.at, step.level, step.end) == (expires, None, end)
    assert find_next_step(ENTRY, stream(), expires + timedelta(minutes=1), timedelta(0)) is None


def test_a_backfill_ends() -> None:
    until = datetime(2026, 3, 18, 12, tzinfo=UTC)
    raised = replace(ENTRY, state=State.CLOSED, opened=Opening(until, 50, 5))
    step = find_next_step(raised, stream(), datetime(2026, 3, 17, 12, tzinfo=UTC), timedelta(0))
    assert step is not None
    assert step.at == until
    assert step.level is not None
    assert (step.level.write, step.level.read) == (1, 3)


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_a_table_that_is_leaving_has_no_next_step(state: State) -> None:
    now = datetime(2026, 3, 17, tzinfo=UTC)
    assert find_next_step(replace(ENTRY, state=state), stream(), now, timedelta(0)) is None


def test_a_kept_table_on_demand_stays_as_it_is() -> None:
    policy = stream(capacity='mode = "on-demand"', on_expiry="keep")
    assert find_next_step(ENTRY, policy, datetime(2026, 3, 17, tzinfo=UTC), timedelta(0)) is None
