"""A period's tables: the proof that they are ours, and how long each change is waited for."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import FakeClock
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, State
from tidetable.config import TableClass
from tidetable.copies.states import describe_changing_copies, list_own_copies
from tidetable.errors import InvalidName, NotOurs, NotReady, TableMissing, TableRefused, TableUnusable
from tidetable.layout import Index, Layout
from tidetable.period_tables import (
    PeriodTables,
    list_names,
    make_table_tags,
    passes,
    specify_tables,
)
from tidetable.periods import parse_label
from tidetable.ports import Table, TableSpec
from tidetable.remaining import limit_time

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
NAME = "tidetable-t.s.2026-03-05"
TAGS = {"project": "tidetable", "tidetable:stage": "t", "tidetable:stream": "s", "tidetable:period": "2026-03-05"}
ENTRY = Entry("s", parse_label("2026-03-05"), NAME, Layout("series", 1, "id"), State.DELETED, NOON)
ACTIVE = Table(NAME, "ACTIVE", None, None, TableClass.STANDARD)
REFUSED = TableRefused("ResourceInUseException: busy", transient=True)


class Scripted:
    """A control plane that shows what a test says for each second since noon, and notes the changes."""

    def __init__(
        self,
        clock: FakeClock,
        shown: Callable[[float], Table | None],
        tags: Callable[[float], Mapping[str, str] | None] = lambda _: TAGS,
        refusals: list[Exception] | None = None,
    ) -> None:
        self._clock = clock
        self._shown = shown
        self._tags = tags
        self._refusals = refusals or []
        self.changes: list[tuple[Any, ...]] = []

    def _seconds(self) -> float:
        return (self._clock.now() - NOON).total_seconds()

    def describe(self, name: str) -> Table | None:
        table = self._shown(self._seconds())
        return None if table is None else replace(table, name=name)

    def tags(self, name: str) -> Mapping[str, str]:
        tags = self._tags(self._seconds())
        if tags is None:
            raise TableMissing(name)
        return tags

    def _note(self, *change: Any) -> None:
        self.changes.append(change)
        if self._refusals:
            raise self._refusals.pop(0)

    def delete(self, name: str) -> None:
        self._note("delete", name)

    def delete_copy(self, name: str, region: str) -> None:
        self._note("delete copy", name, region)

    def set_protection(self, name: str, protected: bool) -> None:
        self._note("protect", name, protected)

    def enable_recovery(self, name: str) -> None:
        self._note("recover", name)


def held(
    shown: Callable[[float], Table | None] = lambda _: ACTIVE, seconds: float = 1_000.0, **more: Any
) -> tuple[PeriodTables, Scripted, FakeClock]:
    """Period tables with so many seconds of time."""
    clock = FakeClock(NOON)
    tables: Any = Scripted(clock, shown, **more)
    return PeriodTables("t", tables, clock, limit_time(seconds, clock, lambda: 1e9)), tables, clock


def test_a_tables_tags_and_names_are_those_of_its_stage_stream_and_period() -> None:
    assert make_table_tags("t", "s", "2026-03-05") == TAGS
    assert list_names(ENTRY) == [NAME]
    # The period table comes last: while it exists, a deletion is seen to be unfinished.
    assert list_names(replace(ENTRY, layout=replace(ENTRY.layout, parts=True))) == [f"{NAME}.parts", NAME]


def test_the_table_of_parts_is_on_demand_and_has_nothing_of_its_table_but_its_settings() -> None:
    spec = TableSpec(
        NAME, 5, 7, TableClass.INFREQUENT, TAGS, (Index("x", "kind"),), protected=True, index_units={"x": (1, 2)},
        warm=(8, 9), most=(10, 11), encryption="aws-managed", stream="new-image", copied=True,
    )  # fmt: skip
    beside = TableSpec(
        f"{NAME}.parts", None, None, TableClass.INFREQUENT, TAGS, protected=True, encryption="aws-managed",
        sorted=False, copied=True,
    )  # fmt: skip
    assert specify_tables(ENTRY, spec) == [spec]
    assert specify_tables(replace(ENTRY, layout=replace(ENTRY.layout, parts=True)), spec) == [spec, beside]


def test_copies_that_change_and_copies_of_ours_are_told_apart() -> None:
    table = replace(ACTIVE, copies={"eu-west-1": "DELETING", "ap-south-1": "CREATING", "sa-east-1": "ACTIVE"})
    assert describe_changing_copies(table) == "ap-south-1 CREATING, eu-west-1 DELETING"
    assert describe_changing_copies(ACTIVE) == ""
    entry = change_entry(ENTRY, replicas=("sa-east-1", "us-west-2"))
    assert list_own_copies(entry, table) == ["sa-east-1"]


@pytest.mark.parametrize("status", ["ACTIVE", "CREATING", "UPDATING", "DELETING"])
def test_a_state_that_ends_by_itself_is_waited_for(status: str) -> None:
    assert passes(status)
    tables, _, clock = held(lambda seconds: replace(ACTIVE, status=status if seconds < 3 else "ACTIVE"))
    assert tables.settled(NAME).status == "ACTIVE"
    assert clock.slept == ([] if status == "ACTIVE" else [1.0] * 3)


@pytest.mark.parametrize("status", ["INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVING", "ARCHIVED"])
def test_a_state_that_stays_is_not_waited_for(status: str) -> None:
    assert not passes(status)
    tables, _, clock = held(lambda _: replace(ACTIVE, status=status))
    with pytest.raises(TableUnusable, match=f"is {status}"):
        tables.find_owned(ENTRY)
    assert clock.slept == []


@pytest.mark.parametrize(("table", "why"), [(None, "not there yet"), (replace(ACTIVE, status="UPDATING"), "UPDATING")])
def test_a_table_is_waited_for_as_long_as_there_is_a_second(table: Table | None, why: str) -> None:
    tables, _, clock = held(lambda _: table, seconds=5.0)
    with pytest.raises(NotReady, match=f"table {NAME} is {why}"):
        tables.settled(NAME)
    assert clock.slept == [1.0] * 5


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("value", [None, "another"])
def test_a_table_without_any_one_of_our_tags_is_left_alone(tag: str, value: str | None) -> None:
    others = {name: text for name, text in TAGS.items() if name != tag} | ({} if value is None else {tag: value})
    tables, _, clock = held(tags=lambda _: others)
    with pytest.raises(NotOurs, match="exists but is not tagged as ours"):
        tables.find_owned(ENTRY)
    assert clock.slept == []


@pytest.mark.parametrize("lacking", [{}, None], ids=["no tags", "not found"])
def test_the_tags_of_a_table_are_waited_for_in_its_first_minute(lacking: Any) -> None:
    """AWS: a new table may not be found for some seconds, and its tags come later still."""
    new = replace(ACTIVE, created=NOON)
    tables, _, clock = held(lambda _: new, tags=lambda seconds: TAGS if seconds >= 59 else lacking)
    assert tables.find_owned(ENTRY).name == NAME
    assert clock.slept == [1.0] * 59
    tables, _, clock = held(lambda _: new, tags=lambda _: lacking)
    with pytest.raises(TableMissing if lacking is None else NotOurs):
        tables.find_owned(ENTRY)
    assert clock.slept == [1.0] * 60
    tables, _, _ = held(lambda _: new, seconds=3.0, tags=lambda _: lacking)
    with pytest.raises(NotReady, match="is new and its tags cannot be seen yet"):
        tables.find_owned(ENTRY)


def test_a_table_of_another_name_is_not_ours_whatever_its_tags_are() -> None:
    tables, _, _ = held()
    with pytest.raises(NotOurs, match=f"table {NAME}.parts is not a table of period 2026-03-05 of s"):
        tables.find_owned(ENTRY, f"{NAME}.parts")
    with pytest.raises(InvalidName, match="is not a period table of stage t"):
        tables.find_owned(replace(ENTRY, table="tidetable-u.s.2026-03-05"))


def test_recovery_is_turned_on_as_soon_as_dynamodb_allows_it() -> None:
    tables, control, clock = held(refusals=[REFUSED, REFUSED])
    tables.make_recoverable(NAME)
    assert (control.changes, clock.slept) == ([("recover", NAME)] * 3, [2.0, 2.0])
    tables, _, clock = held(refusals=[REFUSED] * 9, seconds=5.0)
    with pytest.raises(TableRefused, match="busy"):
        tables.make_recoverable(NAME)
    assert clock.slept == [2.0, 2.0]
    tables, _, clock = held(refusals=[TableRefused("no", transient=False)])
    with pytest.raises(TableRefused, match="no"):
        tables.make_recoverable(NAME)
    assert clock.slept == []


def test_a_table_is_deleted_after_its_protection_and_its_copies_one_after_another() -> None:
    """No change is asked for while a copy changes. Each second shows the table as it is by then."""
    entry = change_entry(ENTRY, replicas=("a", "b"))
    states = [
        replace(ACTIVE, protected=True, copies={"a": "ACTIVE", "b": "ACTIVE", "foreign": "ACTIVE"}),
        replace(ACTIVE, protected=True, copies={"a": "DELETING", "b": "ACTIVE"}),
        replace(ACTIVE, protected=True, status="UPDATING", copies={"b": "ACTIVE"}),
        replace(ACTIVE, protected=True, copies={"b": "ACTIVE"}),
        replace(ACTIVE, protected=True),
        ACTIVE,
        replace(ACTIVE, status="DELETING"),
    ]
    tables, control, clock = held(lambda seconds: states[int(seconds)] if seconds < len(states) else None)
    assert tables.delete(entry)
    assert control.changes == [
        ("delete copy", NAME, "a"),
        ("delete copy", NAME, "b"),
        ("protect", NAME, False),
        ("delete", NAME),
    ]
    assert clock.slept == [1.0] * 7


def test_a_deletion_is_asked_for_again_if_the_table_was_still_changing() -> None:
    tables, control, clock = held(lambda seconds: ACTIVE if seconds < 2 else None, refusals=[REFUSED])
    assert tables.delete(ENTRY)
    assert (control.changes, clock.slept) == ([("delete", NAME)] * 2, [1.0] * 2)
    tables, _, _ = held(refusals=[TableRefused("no", transient=False)])
    with pytest.raises(TableRefused, match="no"):
        tables.delete(ENTRY)
    # A table that is gone by then needs no deletion.
    tables, _, clock = held(refusals=[TableMissing(NAME)])
    assert (tables.delete(ENTRY), clock.slept) == (True, [])
    tables, _, clock = held(seconds=2.0)
    with pytest.raises(NotReady, match=f"table {NAME} is not deleted yet"):
        tables.delete(ENTRY)


def test_a_table_whose_key_is_lost_is_deleted_too() -> None:
    lost = replace(ACTIVE, status="INACCESSIBLE_ENCRYPTION_CREDENTIALS")
    tables, control, _ = held(lambda seconds: lost if seconds < 1 else None)
    assert tables.delete(ENTRY)
    assert control.changes == [("delete", NAME)]


@pytest.mark.parametrize(
    ("state", "waits"), [(State.CREATING, 10), (State.RESTORING, 10), (State.OPEN, 0), (State.DELETED, 0)]
)
def test_a_table_that_may_have_been_made_a_moment_ago_is_looked_for_ten_seconds(state: State, waits: int) -> None:
    """AWS: a new table may not be found for a few seconds."""
    tables, _, clock = held(lambda _: None)
    assert tables.delete(replace(ENTRY, state=state)) is False
    assert clock.slept == [1.0] * waits


def test_one_copy_of_ours_is_deleted_at_a_time() -> None:
    entry = change_entry(ENTRY, replicas=("b", "a"))
    tables, control, _ = held(lambda _: replace(ACTIVE, copies={"a": "ACTIVE", "b": "ACTIVE", "c": "ACTIVE"}))
    tables.delete_copy(entry)
    assert control.changes == [("delete copy", NAME, "b")]
    tables, control, _ = held(lambda _: replace(ACTIVE, copies={"a": "ACTIVE", "c": "CREATING"}))
    with pytest.raises(NotReady, match=f"a copy of {NAME} is changing: c CREATING"):
        tables.delete_copy(entry)
    foreign, control, _ = held(lambda _: replace(ACTIVE, copies={"c": "ACTIVE"}))
    foreign.delete_copy(entry)
    assert control.changes == []
    unproven, control, _ = held(lambda _: replace(ACTIVE, copies={"a": "ACTIVE"}), tags=lambda _: {})
    with pytest.raises(NotOurs):
        unproven.delete_copy(entry)
    assert control.changes == []


def test_a_wait_ends_with_its_own_time_or_with_that_of_the_run() -> None:
    clock = FakeClock(NOON)
    left = limit_time(60.0, clock, lambda: 45.0)
    assert left() == 45.0
    clock.time += timedelta(seconds=20)
    assert left() == 40.0
