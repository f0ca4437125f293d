"""The periods of a stream, in pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from strict import ManualClock
from tests.fakes.catalog import FakeCatalog
from tests.fakes.serial import Serial
from tests.lifecycle.world import configuration
from tidetable.archive_expiry import PresentCatalog
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, State
from tidetable.config import parse
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import Table
from tidetable.problems import ProblemError
from tidetable.query import Seal, describe_periods, parse_periods

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
POLICY = configuration(period="hour", retention=30).streams["s"]
SEAL = Seal(lambda: b"secret")
# So many entries are read for one page.
MAX_LOOKED = 2_000


class Catalog(FakeCatalog):
    """Counts the entries that were read."""

    read = 0

    def walk(self, *args: Any, **options: Any) -> Any:
        for entry in super().walk(*args, **options):
            self.read += 1
            yield entry


class Tables:
    """Counts the tables that were described."""

    def __init__(self) -> None:
        self.described: list[str] = []

    def describe(self, name: str) -> Table | None:
        self.described.append(name)
        return None


@pytest.fixture
def tables() -> Tables:
    return Tables()


def hours(count: int, state: State = State.DELETED) -> Catalog:
    """A catalog of the stream's last hours."""
    catalog = Catalog()
    for number in range(count):
        period = find_containing(NOON - timedelta(hours=number), Kind.HOUR)
        catalog.add(Entry("s", period, f"tidetable-t.s.{period.label}", Layout("series", 1, "id"), state, NOON))
    return catalog


def page(catalog: Catalog, tables: Any, **texts: str) -> dict[str, Any]:
    parameters = {name.rstrip("_"): [value] for name, value in texts.items()}
    query = parse_periods(POLICY, parameters, NOON, SEAL)
    return describe_periods(query, POLICY, catalog, tables, NOON, SEAL, Serial)


def walk(catalog: Catalog, tables: Any, **parameters: str) -> list[list[str]]:
    """The labels of all pages."""
    pages, answer = [], page(catalog, tables, **parameters)
    limit = {"limit": parameters["limit"]} if "limit" in parameters else {}
    while True:
        pages.append([entry["period"] for entry in answer["periods"]])
        if answer["next"] is None:
            return pages
        answer = page(catalog, tables, cursor=answer["next"], **limit)


def test_pages_hold_every_period_once_and_the_newest_first(tables: Tables) -> None:
    assert walk(hours(5), tables, limit="2") == [
        ["2026-03-15T12", "2026-03-15T11"],
        ["2026-03-15T10", "2026-03-15T09"],
        ["2026-03-15T08"],
    ]
    assert walk(hours(4), tables, limit="4") == [[f"2026-03-15T{hour:02d}" for hour in (12, 11, 10, 9)]]
    assert walk(hours(0), tables) == [[]]


def test_two_years_of_hours_are_answered_in_pages_of_a_hundred_that_read_no_more_than_they_show(tables: Tables) -> None:
    catalog = hours(2 * 8_766, State.CLOSED)
    answer = page(catalog, tables)
    assert (len(answer["periods"]), len(tables.described), catalog.read) == (100, 100, 101)
    assert len(page(catalog, tables, limit="500")["periods"]) == 500


def test_a_range_shows_the_periods_that_meet_it(tables: Tables) -> None:
    shown = walk(hours(9), tables, from_="2026-03-15T08:30:00Z", to="2026-03-15T11:00:00Z", limit="2")
    assert shown == [["2026-03-15T10", "2026-03-15T09"], ["2026-03-15T08"]]
    assert walk(hours(9), tables, from_="-1h")[0] == ["2026-03-15T12", "2026-03-15T11"]
    assert walk(hours(9), tables, from_="2026-03-15T11:00:00Z")[0] == ["2026-03-15T12", "2026-03-15T11"]


def test_a_rare_state_is_found_over_pages_of_which_each_reads_a_bounded_part(tables: Tables) -> None:
    catalog = hours(4_500)
    oldest = find_containing(NOON - timedelta(hours=4_400), Kind.HOUR)
    (entry,) = [entry for entry in catalog.entries("s") if entry.period == oldest]
    catalog.move(entry, State.ARCHIVED, expected=[State.DELETED])
    answer = page(catalog, tables, state="open,archived")
    assert (answer["periods"], answer["next"] is None, catalog.read) == ([], False, MAX_LOOKED)
    assert [label for labels in walk(catalog, tables, state="open,archived") for label in labels] == [oldest.label]
    assert tables.described == [f"tidetable-t.s.{oldest.label}"], "an archived table may still be there"


def test_a_backfill_is_shown_on_its_periods_and_beside_them(tables: Tables) -> None:
    catalog = hours(3, State.OPEN)
    entry = catalog.entries("s")[0]
    until = NOON + timedelta(hours=1)
    catalog.move(entry, State.OPEN, expected=[State.OPEN], opened=Opening(until, 5, 6))
    running = Backfill("s", NOON - timedelta(hours=2), NOON - timedelta(hours=1), Opening(until, 5, 6))
    over = Backfill("s", NOON - timedelta(hours=9), NOON - timedelta(hours=8), Opening(NOON, 5, 6))
    for backfill in (running, over):
        catalog.put_backfill(backfill)
    answer = page(catalog, tables)
    assert {period["period"]: period["backfill"] for period in answer["periods"]} == {
        "2026-03-15T12": None,
        "2026-03-15T11": None,
        "2026-03-15T10": {"until": "2026-03-15T13:00:00.000000Z", "write": 5, "read": 6},
    }
    assert answer["backfills"] == [
        {
            "from": "2026-03-15T10:00:00.000000Z",
            "to": "2026-03-15T11:00:00.000000Z",
            "until": "2026-03-15T13:00:00.000000Z",
        }
    ]


BAD = [
    ({"limit": "501"}, "bad_parameter", "from 1 to 500"),
    ({"state": "closed,gone"}, "bad_parameter", "state must be one or more of creating, open, closed"),
    ({"from_": "2026-03-15T08:30:00Z", "to": "2026-03-15T08:30:00Z"}, "bad_parameter", "from must lie before to"),
    ({"states": "open"}, "unknown_parameter", "known are cursor, from, limit, state, to"),
    ({"cursor": "junk"}, "invalid_cursor", "this is not a cursor"),
]


@pytest.mark.parametrize(("parameters", "code", "message"), BAD, ids=[str(parameters) for parameters, _, _ in BAD])
def test_what_cannot_be_is_refused_with_the_fix(
    tables: Tables, parameters: dict[str, str], code: str, message: str
) -> None:
    with pytest.raises(ProblemError, match=message) as refused:
        page(hours(1), tables, **parameters)
    assert (refused.value.problem.status, refused.value.problem.code) == (400, code)


def test_a_cursor_is_good_for_its_own_stream_and_query_only(tables: Tables) -> None:
    following = page(hours(3), tables, limit="1")["next"]
    for changed in ({"state": "open"}, {"from_": "2026-03-15T08:30:00Z"}, {"to": "2026-03-15T08:30:00Z"}):
        with pytest.raises(ProblemError, match=f"another query: repeat its {next(iter(changed)).rstrip('_')}, leave"):
            page(hours(3), tables, cursor=following, **changed)
    other = configuration().streams["s"]
    with pytest.raises(ProblemError, match="belongs to another stream"):
        parse_periods(msgspec.structs.replace(other, name="t"), {"cursor": [following]}, NOON, SEAL)


def test_a_backfill_that_is_over_is_not_shown_on_its_period(tables: Tables) -> None:
    catalog = hours(1, State.OPEN)
    catalog.move(catalog.entries("s")[0], State.OPEN, expected=[State.OPEN], opened=Opening(NOON, 5, 6))
    assert page(catalog, tables)["periods"][0]["backfill"] is None
    catalog.move(
        catalog.entries("s")[0], State.OPEN, expected=[State.OPEN], opened=Opening(NOON + timedelta(seconds=1), 5, 6)
    )
    assert page(catalog, tables)["periods"][0]["backfill"] is not None


def test_an_archive_is_shown_with_the_time_at_which_it_expired(tables: Tables) -> None:
    """Readers see it from that instant on, although the catalog notes it later."""
    catalog = hours(1)
    written = NOON - timedelta(days=30)
    facts = ArchiveFacts("manifest", 5, 700, written)
    catalog.move(catalog.entries("s")[0], State.DELETED, expected=[State.DELETED], archive=facts)
    text = '[archive]\nexpire_after = "{}d"\n[streams.s]\nperiod = "hour"\nlate = "1h"\nretention = 3\n'
    for days, more in ((31, {}), (30, {"expired_at": "2026-03-15T12:00:00.000000Z"}), (0, {})):
        config = parse(text.format(days) + 'key = { partition_by = "series" }')
        present: Any = PresentCatalog(catalog, config, ManualClock(NOON))
        shown = page(present, tables)["periods"][0]["archive"]
        assert shown == {"manifest": "manifest", "events": 5, "bytes": 700, **more}
