"""More rules of the plan: tables in the making, the stagger, and backfills that are prolonged."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, configuration
from tests.worlds.entries import make_entry
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.config import Config, TableClass
from tidetable.lifecycle.observe import Observed
from tidetable.lifecycle.plan import plan
from tidetable.lifecycle.premake import find_missing_periods
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.upkeep.actions import Action, Create, Lost, Open, SetCapacity

DAY = timedelta(days=1)
START = NOON.replace(hour=0)
LABEL = "2026-03-15"
TABLE = f"tidetable-t.s.{LABEL}"
RECOVERED = "table = { point_in_time_recovery = true }"


def recorded(config: Config, state: State, **more: Any) -> Entry:
    return make_entry("s", parse_label(LABEL), TABLE, config.streams["s"].layout, state, START, **more)


def planned(
    config: Config, entry: Entry | None, there: Table | None, now: datetime, backfills: Sequence[Backfill] = ()
) -> list[Action]:
    tables = {TABLE: there} if there is not None else {}
    observed = Observed([entry] if entry is not None else [], tables, backfills=backfills)
    return [action for action in plan(config, "t", now, {"s": observed}) if action.entry.period.label == LABEL]


def make_table(write: int | None = 10, read: int | None = 10, status: str = "ACTIVE") -> Table:
    return Table(TABLE, status, write, read, TableClass.STANDARD)


def test_a_table_in_the_making_is_opened_as_soon_as_it_is_active() -> None:
    config = configuration(more=RECOVERED)
    entry = recorded(config, State.CREATING)
    assert planned(config, entry, make_table(status="CREATING"), START) == []
    (action,) = planned(config, entry, make_table(), NOON)
    assert isinstance(action, Open)
    assert action.recoverable
    # Only another attempt to create the table beside it tells whether it exists, too.
    config = configuration(more=f'{RECOVERED}\ncold = ["raw"]')
    (made,) = planned(config, recorded(config, State.CREATING), make_table(), NOON)
    assert isinstance(made, Create)
    assert (made.recoverable, made.entry.tables) == (True, (TABLE, f"{TABLE}.parts"))


def test_the_table_of_a_new_period_is_recorded_with_its_backfill() -> None:
    config = configuration()
    opened = Opening(START + 10 * DAY, 3, 4)
    now = START + 9 * DAY
    (made,) = planned(config, None, None, now, [Backfill("s", START, START + DAY, opened)])
    assert isinstance(made, Create)
    assert (made.entry.opened, made.spec.write, made.spec.read, made.recoverable) == (opened, 3, 4, False)
    assert made.reason == "a backfill asks for it"


@pytest.mark.parametrize(("hours", "names"), [(5, []), (6, ["reopen"])])
def test_a_period_that_is_open_is_opened_again_for_longer(hours: int, names: list[str]) -> None:
    config = configuration()
    now = START + 3 * DAY
    opened, asked = (Opening(now + timedelta(hours=more), None, None) for more in (5, hours))
    entry = recorded(config, State.OPEN, opened=opened)
    actions = planned(config, entry, make_table(None, None), now, [Backfill("s", START, START + DAY, asked)])
    assert [action.name for action in actions] == names


def test_a_table_steps_down_later_and_rises_earlier_by_its_stagger() -> None:
    """Each table has a delay of its own, of up to an hour here. So the tables of many streams do not change at once."""
    config, staggered = configuration(), configuration(stagger="1h")
    closes, rises = START + 2 * DAY, START - timedelta(minutes=20)
    second = timedelta(seconds=1)
    for policy, lowered in ((config, ["capacity", "close"]), (staggered, ["close"])):
        entry = recorded(policy, State.OPEN)
        assert [action.name for action in planned(policy, entry, make_table(), closes + second)] == lowered
        after = planned(policy, entry, make_table(), closes + timedelta(hours=1))
        assert [action.name for action in after] == ["capacity", "close"]
    for policy, write in ((config, 1), (staggered, 10)):
        (made,) = planned(policy, recorded(policy, State.CREATING), None, rises - second)
        assert isinstance(made, Create)
        assert made.spec.write == write


def test_a_change_says_whether_somebody_has_made_the_former_one_by_hand() -> None:
    config = configuration()
    here = make_table(7, 7)
    step = "age 0: step 0 of the ladder"
    for seen, reason in ((make_table().seen, f"changed by hand, put back; {step}"), (here.seen, step), (None, step)):
        (action,) = planned(config, recorded(config, State.OPEN, seen=seen), here, NOON)
        assert action.reason == f"7/7 to 10/10; {reason}"


def test_an_open_table_gets_the_maxima_of_its_stream() -> None:
    config = configuration(capacity='mode = "on-demand"\nmax = { write = 500, read = 600 }')
    entry = recorded(config, State.OPEN)
    (action,) = planned(config, entry, make_table(None, None), NOON)
    assert isinstance(action, SetCapacity)
    assert (action.level.most, action.lowers) == ((500, 600), False)
    assert action.reason == "maxima (500, 600); age 0: step 0 of the ladder"
    assert planned(config, entry, replace(make_table(None, None), most=(500, 600)), NOON) == []


@pytest.mark.parametrize(
    ("changes", "lost"),
    [({}, True), ({"on_expiry": "delete", "delete": "false"}, True), ({"on_expiry": "delete"}, False)],
)
def test_an_expired_table_that_is_missing_is_lost_unless_it_was_to_be_deleted_without_an_archive(
    changes: dict[str, str], *, lost: bool
) -> None:
    config = configuration(**changes)
    actions = planned(config, recorded(config, State.CLOSED), None, START + 7 * DAY)
    assert [isinstance(action, Lost) for action in actions] == ([True] if lost else [False])


def test_a_period_of_two_backfills_has_the_greater_units_and_the_later_end() -> None:
    stream, now = configuration().streams["s"], START + 9 * DAY
    some = [
        Backfill("s", START, START + DAY, Opening(now + hours * timedelta(hours=1), write, 5))
        for hours, write in ((1, 9), (2, 3))
    ]
    (_, opened), *_ = find_missing_periods(stream, now, [], some)
    assert opened == Opening(now + timedelta(hours=2), 9, 5)


def test_days_fill_a_month_of_which_a_day_has_its_table() -> None:
    """A week would reach beyond the month, or hold the day."""
    stream = configuration(period="month", late="7d", retention=2).streams["s"]
    day = recorded(configuration(), State.OPEN)
    labels = [period.label for period, _ in find_missing_periods(stream, NOON, [day])]
    days = [f"2026-03-{number:02d}" for number in (*range(8, 15), *range(16, 32))]
    assert labels == [*days, "2026-04", "2026-05"]
