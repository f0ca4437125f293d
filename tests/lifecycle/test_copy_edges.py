"""Copies of the catalog and of tables: what a refusal says, which states are trouble, and whose copies are made."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tests.worlds.copied import text
from tests.worlds.entries import change_entry, make_entry
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import TableClass, parse
from tidetable.copies.catalog_copies import CatalogCopy, follow_catalog, remove_catalog_copies
from tidetable.copies.table_copies import find_copies_to_mark, fit_copies, has_copies_made, lacks_copies
from tidetable.errors import CopyRefused, NotReady, TableRefused
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.upkeep.actions import Stuck

IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"
CONFIG = parse(text(IRELAND, TOKYO))
STREAM = CONFIG.streams["s"]
MINUTES = timedelta(minutes=1)
FACTS = ArchiveFacts("m", 1, 1, NOON)
REFUSED = [
    (TableRefused("LimitExceededException: later", transient=True), "deferred", "LimitExceededException: later"),
    (TableRefused("AccessDeniedException: no", transient=False), "failed", "AccessDeniedException: no"),
    (NotReady("not yet"), "deferred", "not yet"),
    (CopyRefused("catalog", TOKYO), "failed", str(CopyRefused("catalog", TOKYO))),
    (ConnectionError("no answer"), "failed", "ConnectionError: no answer"),
]


def table(**changes: Any) -> Table:
    return replace(Table("t", "ACTIVE", None, None, TableClass.STANDARD, stream_arn="arn"), **changes)


def copied(**changes: Any) -> Entry:
    held = make_entry("s", parse_label("2026-03-15"), "t", STREAM.layout, State.OPEN, NOON, replicas=(IRELAND, TOKYO))
    return change_entry(held, **changes)


class Service:
    """The catalog's table: each look sees the next description, the last again and again. ``errors`` refuse requests."""

    def __init__(self, *seen: Table | None, errors: list[Exception] | None = None) -> None:
        self.seen, self.errors = list(seen), errors or []
        self.requests: list[str] = []

    def describe(self, _: str) -> Table | None:
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]

    def create_copy(self, _: str, region: str) -> None:
        self.requests.append(region)
        if self.errors:
            raise self.errors.pop(0)

    delete_copy = create_copy


def follow(service: Service, now: Any = NOON) -> list[CatalogCopy]:
    world = World()
    world.catalog.deployed = True
    return follow_catalog(world.begin_run(config=CONFIG, tables=service), now)


@pytest.mark.parametrize(("error", "outcome", "detail"), REFUSED)
def test_a_copy_of_the_catalog_that_is_not_begun_says_why(error: Exception, outcome: str, detail: str) -> None:
    ((action, _, found, why),) = follow(Service(table(), errors=[error]))
    assert (action, found, why) == ("copy", outcome, detail)


def test_each_run_takes_another_region() -> None:
    """A Region that refuses its copy must not delay the others. Runs are five minutes apart."""
    regions = [follow(Service(table()), NOON + number * 5 * MINUTES)[0].region for number in range(4)]
    assert regions in ([IRELAND, TOKYO, IRELAND, TOKYO], [TOKYO, IRELAND, TOKYO, IRELAND])


def test_no_copy_of_the_catalog_is_begun_while_the_catalog_changes() -> None:
    service = Service(table(status="UPDATING"))
    assert (follow(service), service.requests) == ([], [])


@pytest.mark.parametrize("status", ["CREATING", "UPDATING", "DELETING", "ACTIVE"])
def test_a_copy_of_the_catalog_whose_state_passes_is_no_trouble(status: str) -> None:
    assert follow(Service(table(copies={IRELAND: status, TOKYO: "ACTIVE"}))) == []


def test_a_copy_of_the_catalog_in_a_region_that_no_stream_names_is_no_trouble() -> None:
    foreign = {"us-east-1": "INACCESSIBLE_ENCRYPTION_CREDENTIALS", IRELAND: "ACTIVE", TOKYO: "ACTIVE"}
    assert follow(Service(table(copies=foreign))) == []


def remove(service: Service, *seconds: float) -> tuple[list[str], int]:
    """Remove the copies with so many seconds left at each look; the Regions, and how often it slept."""
    left = list(seconds)
    clock = SimpleNamespace(slept=0)

    def sleep(_: float) -> None:
        clock.slept += 1

    clock.sleep = sleep
    run = World().begin_run("owner", lambda: left.pop(0) if left else 100.0, tables=service, clock=clock)
    return remove_catalog_copies(run), clock.slept


BOTH = {IRELAND: "ACTIVE", TOKYO: "ACTIVE"}


def test_the_copies_of_the_catalog_go_one_after_another() -> None:
    """While one goes, or the table is changing, AWS would refuse the next."""
    going = table(copies={IRELAND: "ACTIVE", TOKYO: "DELETING"})
    changing, alone = table(status="UPDATING", copies={IRELAND: "ACTIVE"}), table()
    service = Service(table(copies=BOTH), going, changing, table(copies={IRELAND: "ACTIVE"}), alone)
    assert remove(service) == ([TOKYO, IRELAND], 4)
    assert service.requests == [TOKYO, IRELAND]
    assert remove(Service(None)) == ([], 0), "somebody has deleted the catalog"


def test_a_copy_of_the_catalog_whose_deletion_is_refused_for_a_moment_is_tried_again() -> None:
    errors: list[Exception] = [TableRefused("ResourceInUseException", transient=True)]
    held = table(copies={IRELAND: "ACTIVE"})
    service = Service(held, held, table(), errors=errors)
    assert remove(service) == ([IRELAND], 2)
    assert service.requests == [IRELAND, IRELAND]


def test_a_removal_of_copies_waits_as_long_as_a_whole_second_is_left() -> None:
    service = Service(table(copies={IRELAND: "ACTIVE"}), table())
    assert remove(service, 1.0) == ([IRELAND], 1)
    with pytest.raises(NotReady, match="still has copies in eu-west-1"):
        remove(Service(table(copies={IRELAND: "DELETING"})), 0.9)


def test_copies_are_made_of_first_tables_until_they_expire() -> None:
    """A restored table has none. It is kept for two days after its end."""
    expired = parse_label("2026-03-15").end + timedelta(days=2)
    states = {state for state in State if has_copies_made(copied(state=state), STREAM, NOON)}
    assert states == {State.CREATING, State.OPEN, State.CLOSED, State.RETAINED}
    assert has_copies_made(copied(state=State.RETAINED, archive=FACTS), STREAM, NOON)
    assert not has_copies_made(copied(archive=FACTS, keep_until=NOON), STREAM, NOON)
    assert has_copies_made(copied(state=State.CLOSED), STREAM, expired)
    assert not has_copies_made(copied(state=State.CLOSED), STREAM, expired + timedelta(microseconds=1))
    # A table that should have copies is looked at in each run; a table that is deleted or restored is not.
    assert lacks_copies(copied(active=(IRELAND,)), STREAM)
    assert not lacks_copies(copied(active=(IRELAND, TOKYO)), STREAM)
    assert lacks_copies(copied(state=State.RETAINED, archive=FACTS), STREAM)
    assert not lacks_copies(copied(archive=FACTS, keep_until=NOON), STREAM)
    assert not lacks_copies(copied(state=State.DELETED), STREAM)


def test_the_copies_of_a_table_that_expires_are_read_until_they_go() -> None:
    held = copied(state=State.CLOSED, active=(IRELAND,))
    later = held.period.end + timedelta(days=3)
    assert find_copies_to_mark(held, STREAM, table(copies=BOTH), later) == (IRELAND,)
    assert find_copies_to_mark(held, STREAM, table(copies=BOTH), NOON) == (IRELAND, TOKYO)


def test_no_copy_is_begun_of_a_table_that_is_stuck() -> None:
    held = copied()
    stuck = Stuck(held, "its key is lost")
    assert list(fit_copies([stuck], held, STREAM, table(), NOON, makes=True)) == [stuck]
