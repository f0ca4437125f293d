"""Ideas for a stream as lines of tidetable.toml, written out."""

from bill.ideas import list_ideas
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import LADDER, configuration

INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
STEP = "[[streams.s.capacity.ladder]]\n"


def ideas(capacity: str, *, rate: float = 2.5, reads: float = 0.0, old: float = 0.0, more: str = "") -> dict[str, str]:
    stream = configuration(capacity=capacity, more=more).streams["s"]
    load = Workload(spread_by_hour(rate, 1), 700, reads, 4096, old, stream, series_per_request=1)
    return {idea.name: idea.toml for idea in list_ideas(load)}


def test_a_step_for_late_events_leaves_the_other_steps_as_they_are() -> None:
    found = ideas(LADDER)
    assert list(found) == ["packs", "on demand", "a step for late events", "a rollup"]
    assert found["a step for late events"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 10\nread = 10\n"
        f'{STEP}age = "late"\nwrite = 1\nread = 10\n'
        f"{STEP}age = 1\nwrite = 2\nread = 5\n"
        f'{STEP}age = 3\nwrite = 1\nread = 1\nclass = "infrequent-access"'
    )
    assert found["on demand"] == (
        f'[streams.s.capacity]\nmode = "on-demand"\n{STEP}age = 0\n{STEP}age = 1\nclass = "infrequent-access"'
    )


def test_only_tables_from_age_1_on_move_to_the_cheap_class() -> None:
    ladder = (
        'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }, { age = "late", write = 2, read = 9 }, '
        "{ age = 1, write = 1, read = 3 }, { age = 2, write = 1, read = 1 }]"
    )
    assert ideas(ladder)["a cheap class for old tables"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 9\nread = 9\n"
        f'{STEP}age = "late"\nwrite = 2\nread = 9\n'
        f'{STEP}age = 1\nwrite = 1\nread = 3\nclass = "infrequent-access"\n'
        f'{STEP}age = 2\nwrite = 1\nread = 1\nclass = "infrequent-access"'
    )
    assert "a step for late events" not in ideas(ladder), "it has one"


def test_provisioned_units_are_whole_units_for_the_busiest_hour_and_one_at_the_least() -> None:
    assert ideas('mode = "on-demand"', more=INDEX)["provisioned"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 3\nread = 1\nindex = {{ status = {{ write = 3, read = 1 }} }}\n"
        f'{STEP}age = "late"\nwrite = 1\nread = 1\nindex = {{ status = {{ write = 1, read = 1 }} }}\n'
        f"{STEP}age = 1\nwrite = 1\nread = 1\nindex = {{ status = {{ write = 1, read = 1 }} }}\n"
        'class = "infrequent-access"'
    )


def test_a_local_index_gets_no_units_of_its_own() -> None:
    """It takes its units from the table, and the configuration refuses units of its own."""
    local = '[[streams.s.index]]\nname = "slowest"\nlocal = true\nsort_by = "ms"'
    assert ideas('mode = "on-demand"', more=local)["provisioned"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 5\nread = 1\n"
        f'{STEP}age = "late"\nwrite = 1\nread = 1\n'
        f'{STEP}age = 1\nwrite = 1\nread = 1\nclass = "infrequent-access"'
    )


def test_queries_of_old_events_are_spread_over_the_tables_that_are_kept() -> None:
    """41 queries of half a unit, 5 tables: 4.1 units each. 7 queries of the present take 3.5 units."""
    toml = ideas('mode = "on-demand"', reads=7.0, old=41.0)["provisioned"]
    assert f"{STEP}age = 0\nwrite = 3\nread = 4\n" in toml
    assert f'{STEP}age = 1\nwrite = 1\nread = 5\nclass = "infrequent-access"' in toml


def test_what_a_stream_has_is_offered_to_be_taken_away() -> None:
    packs = ideas('mode = "on-demand"', more='[streams.s.pack]\nspan = "1h"')
    assert packs["no packs"] == "[streams.s]\npack = false"
    rollup = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"'
    assert ideas('mode = "on-demand"', more=rollup)["no rollups"] == "[streams.s]\nrollup = []"
    assert ideas('mode = "on-demand"')["a rollup"] == rollup


def test_a_ladder_keeps_the_units_modes_and_classes_of_its_steps() -> None:
    """Steps with units of an index, and a step on demand of the class for infrequent access."""
    status = "index = { status = { write = 7, read = 3 } }"
    ladder = (
        f'mode = "provisioned"\nladder = [{{ age = 0, write = 9, read = 8, {status} }}, '
        '{ age = 2, mode = "on-demand", class = "infrequent-access" }]'
    )
    found = ideas(ladder, more=INDEX)
    assert found["a step for late events"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 9\nread = 8\n{status}\n"
        f'{STEP}age = "late"\nwrite = 1\nread = 8\n'
        f'{STEP}age = 2\nmode = "on-demand"\nclass = "infrequent-access"'
    )
    assert "a cheap class for old tables" not in found, "it has one"


def test_a_ladder_of_one_step_gets_one_for_closed_tables_in_the_cheap_class() -> None:
    alone = 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 8 }]'
    assert ideas(alone)["a cheap class for old tables"] == (
        '[streams.s.capacity]\nmode = "provisioned"\n'
        f"{STEP}age = 0\nwrite = 9\nread = 8\n"
        f'{STEP}age = 1\nwrite = 9\nread = 8\nclass = "infrequent-access"'
    )
    on_demand = ideas('mode = "on-demand"')
    assert on_demand["a cheap class for old tables"] == (
        f'[streams.s.capacity]\nmode = "on-demand"\n{STEP}age = 0\n{STEP}age = 1\nclass = "infrequent-access"'
    )
    assert "on demand" not in on_demand
    assert "a step for late events" not in on_demand


def test_queries_of_old_events_are_not_more_than_they_are_where_less_than_a_day_is_kept() -> None:
    """Tables of six hours are kept: nine queries of half a unit stay nine halves."""
    stream = configuration(capacity='mode = "on-demand"', period="hour", late="15m", retention=6).streams["s"]
    (toml,) = (
        idea.toml
        for idea in list_ideas(Workload(spread_by_hour(1.0, None), 700, 0.0, 4096, 9.0, stream))
        if idea.name == "provisioned"
    )
    assert f"{STEP}age = 1\nwrite = 1\nread = 5\n" in toml


def test_an_index_gets_the_units_of_its_items_and_one_at_the_least() -> None:
    """Events of 1,500 bytes take two units each in the table and in an index of all attributes."""
    stream = configuration(capacity='mode = "on-demand"', more=INDEX).streams["s"]
    written = {}
    for rate in (2.5, 0.25):
        workload = Workload(spread_by_hour(rate, None), 1_500, 0.0, 4096, 0.0, stream)
        (toml,) = (idea.toml for idea in list_ideas(workload) if idea.name == "provisioned")
        written[rate] = toml.split(STEP)[1]
    assert written == {
        2.5: "age = 0\nwrite = 5\nread = 1\nindex = { status = { write = 5, read = 1 } }\n",
        0.25: "age = 0\nwrite = 1\nread = 1\nindex = { status = { write = 1, read = 1 } }\n",
    }
