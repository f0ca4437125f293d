"""The one list of statistics: each is computed, kept by rollups, offered by the console and described in the documents."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from aws.sketches import DDSketches
from tests.console.lists import MODULE, render_module
from tests.worlds.cells import add_event
from tidetable.exact_json import EXACT
from tidetable.query.aggregates.stats import compute_stat
from tidetable.rollup_model.cells import Bucket, parse_cell
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.numbers import Numbers
from tidetable.statistics import KEPT, PLAIN, STATISTICS, TIMES, find_statistic, list_kept
from tidetable.times import from_text
from tidetable_client import frames

ROOT = Path(__file__).parents[1]
SKETCHES = DDSketches()
START = from_text("2026-03-05T00:00:00.000000Z")
# Of 30, 10, 20.5 and 10, in this order, a minute apart.
NUMBERS = (30, 10, Decimal("20.5"), 10)
EXPECTED: dict[str, Any] = {
    "count": 4,
    "sum": Decimal("70.5"),
    "min": 10,
    "max": 30,
    "avg": Decimal("17.625"),
    "first": 30,
    "last": 10,
    "first_at": "2026-03-05T00:00:00.000000Z",
    "last_at": "2026-03-05T00:03:00.000000Z",
    "p0": 10.0,
    "p50": pytest.approx(10, rel=0.01),
    "p90": pytest.approx(20.5, rel=0.01),
    "p95": pytest.approx(20.5, rel=0.01),
    "p99": pytest.approx(20.5, rel=0.01),
    "p100": 30.0,
}


def test_a_result_is_written_down_here_for_each_statistic() -> None:
    """A new statistic begins with its line in EXPECTED."""
    names = {name for statistic in STATISTICS for name in statistic.examples or (statistic.name,)}
    assert set(EXPECTED) == names | {"p0", "p100"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_statistic_is_the_same_from_a_cell_that_keeps_what_it_needs(name: str) -> None:
    """One cell, and two cells of half the buckets that are merged. The events come in any order."""
    stats = tuple(sorted(list_kept((name,))))
    definition = Definition("n", timedelta(hours=1), (), ("mag",), stats, 10, "s", "s-n")
    events = [(f"2026-03-05T00:0{minute}:00.000000Z#a#1", {"mag": value}) for minute, value in enumerate(NUMBERS)]
    whole, merged = Bucket(definition, SKETCHES), Bucket(definition, SKETCHES)
    for place, data in reversed(events):
        add_event(whole, "a", place, data)
    for half in (events[2:], events[:2]):
        part = Bucket(definition, SKETCHES)
        for place, data in half:
            add_event(part, "a", place, data)
        cell = parse_cell(definition, part.make_events(START)[0], SKETCHES, ("mag",))
        assert cell is not None
        merged.merge(cell)
    for bucket in (whole, merged):
        cell = parse_cell(definition, bucket.make_events(START)[0], SKETCHES, ("mag",))
        assert cell is not None
        assert compute_stat(cell.state.fields["mag"], name) == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in TIMES])
def test_a_statistic_of_many_numbers_at_once_has_the_same_result(name: str) -> None:
    numbers = Numbers()
    with localcontext(EXACT):
        for some in (NUMBERS[:1], NUMBERS[1:]):
            numbers.add_all(some, SKETCHES)
    numbers.add_ends(("1", NUMBERS[0]), ("4", NUMBERS[-1]))
    assert compute_stat(numbers, name) == EXPECTED[name]


def test_a_name_has_its_statistic() -> None:
    assert (find_statistic("sum"), find_statistic("p99.9")) == (PLAIN["sum"], KEPT["percentiles"])
    assert [name for name in ("pNN", "percentiles", "p101", "median", "") if find_statistic(name)] == []
    assert list_kept(("avg", "p50", "first_at")) == {"sum", "count", "percentiles", "first_at"}


def test_the_console_offers_the_statistics_of_the_list() -> None:
    assert MODULE.read_text() == render_module(), "run make lists"


def test_the_api_describes_each_statistic() -> None:
    """The table of docs/use/api.md has this row per statistic, and no other."""
    lines = [
        f"| `{statistic.name}` | {statistic.meaning} | {'yes' if statistic.needs_field else 'no'} |"
        f" {', '.join(f'`{kept}`' for kept in statistic.kept)} |"
        for statistic in STATISTICS
    ]
    page = (ROOT / "docs/use/api.md").read_text()
    table = page.partition("| statistic | value | needs `field` | a rollup keeps |\n|---|---|---|---|\n")[2]
    assert table.partition("\n\n")[0].splitlines() == lines


def test_the_description_of_the_api_names_each_statistic() -> None:
    operation = yaml.safe_load((ROOT / "docs/use/openapi.yaml").read_text())["paths"]["/v1/streams/{stream}/aggregate"]
    (stat,) = [each for each in operation["get"]["parameters"] if each.get("name") == "stat"]
    *others, last = (statistic.name for statistic in PLAIN.values() if not statistic.needs_field)
    assert stat["description"] == (
        f"{', '.join(PLAIN)}, and percentiles such as p95, with commas between them."
        f" Only {', '.join(others)} and {last} need no field."
    )


@pytest.mark.parametrize("document", ["tidetable.toml", "docs/design/rollups.md"])
def test_the_example_of_a_rollup_names_each_statistic_that_it_can_keep(document: str) -> None:
    (line,) = [line for line in (ROOT / document).read_text().splitlines() if re.match(r"[# ]*stats = \[", line)]
    assert [name for name in KEPT if not re.search(rf"\b{name}\b", line)] == []


def test_the_python_client_turns_times_into_timestamps() -> None:
    assert set(TIMES) <= set(frames._TIMES)
