"""Other settings of a stream as lines of tidetable.toml, written out."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bill.alternatives import list_alternatives
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import LADDER, configuration
from tidetable.durations import Duration

INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
ON_DEMAND = 'mode = "on-demand"'
COLD = 'class = "infrequent-access"'
ONE = "index = { status = { write = 1, read = 1 } }"


def settings(
    capacity: str, *, rate: float = 2.5, reads: float = 0.0, old: float = 0.0, size: int = 700, **facts: str
) -> dict[str, str]:
    stream = configuration(capacity=capacity, **facts).streams["s"]
    load = Workload(spread_by_hour(rate, min(rate, 1)), size, reads, 4096, old, stream, series_per_request=1)
    return {setting.name: setting.toml for setting in list_alternatives(load)}


def write(mode: str, *steps: str) -> str:
    """The lines of a ladder with these steps."""
    lines = "".join(f"    {{ {step} }},\n" for step in steps)
    return f'[streams.s.capacity]\nmode = "{mode}"\nladder = [\n{lines}]'


def test_a_step_for_late_events_leaves_the_other_steps_as_they_are() -> None:
    found = settings(LADDER)
    assert list(found) == ["packs", "on demand", "a step for late events", "a rollup"]
    first, *later = (
        "age = 0, write = 10, read = 10",
        "age = 1, write = 2, read = 5",
        f"age = 3, write = 1, read = 1, {COLD}",
    )
    late = 'age = "late", write = 1, read = 10'
    assert found["a step for late events"] == write("provisioned", first, late, *later)
    assert found["on demand"] == write("on-demand", "age = 0", f"age = 1, {COLD}")


def test_packs_of_many_series_are_for_a_shard_per_thirty_events_of_a_request() -> None:
    load = Workload([1.0] * 24, 200, 0.0, 4096, 0.0, configuration().streams["s"], 119)
    for series, shards in ((None, 3), (30, 3), (29, None)):
        changed = replace(load, series_per_request=series)
        found = {setting.name: setting.toml for setting in list_alternatives(changed)}
        assert found.get("packs of many series") == (
            f'[streams.s.key]\npartition_by = "time"\nbucket = "24h"\nshards = {shards}\nshard_by = "series"\n'
            '[streams.s.pack]\nspan = "1m"'
            if shards
            else None
        )
    hourly = replace(load, stream=configuration(period="hour", late="1h").streams["s"])
    assert (
        'bucket = "1h"' in {setting.name: setting.toml for setting in list_alternatives(hourly)}["packs of many series"]
    )


@pytest.mark.parametrize(
    ("key", "rates", "size", "shards"),
    [
        ({"shards": 64}, [1.0], 700, 1),
        ({"shards": 4}, [100.0, 900.0], 700, 2),
        # An event of 2 KB takes two units.
        ({"shards": 4}, [900.0], 2_048, None),
        ({"shards": 2}, [500.1], 700, None),
        ({"shards": 2}, [500.0], 700, 1),
        ({"shards": 1}, [1.0], 700, None),
        # The rate of a single series is not known.
        ({"shards": 64, "partition_by": "series", "bucket": None}, [1.0], 700, None),
    ],
)
def test_fewer_shards_take_twice_the_busiest_hour(
    key: dict[str, Any], rates: list[float], size: int, shards: int | None
) -> None:
    stream = configuration(capacity=ON_DEMAND).streams["s"]
    own = msgspec.structs.replace(stream.key, **{"partition_by": "time", "bucket": Duration(hours=24)} | key)
    load = Workload(rates, size, 1.0, 4096, 0.0, msgspec.structs.replace(stream, key=own))
    found = {setting.name: setting.toml for setting in list_alternatives(load)}
    assert found.get("fewer shards") == (f"[streams.s.key]\nshards = {shards}" if shards else None)


def test_fewer_shards_are_for_packs_that_each_query_reads() -> None:
    stream = configuration(capacity=ON_DEMAND, more='[streams.s.pack]\nspan = "1h"').streams["s"]
    for by, name in (("id", "fewer shards"), ("series", None)):
        key = msgspec.structs.replace(
            stream.key, partition_by="time", bucket=Duration(hours=24), shards=64, shard_by=by
        )
        load = Workload([1.0] * 24, 200, 1.0, 4096, 0.0, msgspec.structs.replace(stream, key=key))
        assert [one.name for one in list_alternatives(load) if "shards" in one.name] == ([name] if name else [])


def test_a_step_for_late_events_keeps_the_read_units_of_indexes() -> None:
    own = "index = { status = { write = 50, read = 2 } }"
    steps = f"age = 0, write = 50, read = 100, {own}", "age = 1, write = 1, read = 1"
    found = settings(f'mode = "provisioned"\nladder = [{{ {steps[0]} }}, {{ {steps[1]} }}]', more=INDEX)
    late = 'age = "late", write = 1, read = 100, index = { status = { write = 1, read = 2 } }'
    assert found["a step for late events"] == write("provisioned", steps[0], late, steps[1])


def test_only_tables_from_age_1_on_move_to_the_cheap_class() -> None:
    steps = (
        "age = 0, write = 9, read = 9",
        'age = "late", write = 2, read = 9',
        "age = 1, write = 1, read = 3",
        "age = 2, write = 1, read = 1",
    )
    found = settings(f'mode = "provisioned"\nladder = [{", ".join(f"{{ {step} }}" for step in steps)}]')
    cold = write("provisioned", steps[0], steps[1], f"{steps[2]}, {COLD}", f"{steps[3]}, {COLD}")
    assert found["a cheap class for old tables"] == cold
    assert "a step for late events" not in found, "it has one"
    assert found["no step for late events"] == write("provisioned", steps[0], steps[2], steps[3])


def test_provisioned_units_are_whole_units_for_the_busiest_hour_and_one_at_the_least() -> None:
    assert settings(ON_DEMAND, more=INDEX)["provisioned"] == write(
        "provisioned",
        "age = 0, write = 3, read = 1, index = { status = { write = 3, read = 1 } }",
        f'age = "late", write = 1, read = 1, {ONE}',
        f"age = 1, write = 1, read = 1, {ONE}, {COLD}",
    )


def test_a_local_index_gets_no_units_of_its_own() -> None:
    """It takes its units from the table, and the configuration refuses units of its own."""
    local = '[[streams.s.index]]\nname = "slowest"\nlocal = true\nsort_by = "ms"'
    late, closed = 'age = "late", write = 1, read = 1', f"age = 1, write = 1, read = 1, {COLD}"
    assert settings(ON_DEMAND, more=local)["provisioned"] == write(
        "provisioned", "age = 0, write = 5, read = 1", late, closed
    )


def test_queries_of_old_events_are_spread_over_the_tables_that_are_kept() -> None:
    """41 queries of half a unit, 5 tables: 4.1 units each. 7 queries of the present take 3.5 units."""
    toml = settings(ON_DEMAND, reads=7.0, old=41.0)["provisioned"]
    assert "{ age = 0, write = 3, read = 4 }" in toml
    assert f"{{ age = 1, write = 1, read = 5, {COLD} }}" in toml


def test_what_a_stream_has_is_offered_to_be_taken_away() -> None:
    assert settings(ON_DEMAND, more='[streams.s.pack]\nspan = "1h"')["no packs"] == "[streams.s]\npack = false"
    assert settings(ON_DEMAND)["packs"] == '[streams.s.pack]\nspan = "1h"'
    rollup = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"'
    assert settings(ON_DEMAND, more=rollup)["no rollups"] == "[streams.s]\nrollup = []"
    assert settings(ON_DEMAND)["a rollup"] == rollup


def test_a_ladder_keeps_the_units_modes_and_classes_of_its_steps() -> None:
    """Steps with units of an index, and a step on demand of the class for infrequent access."""
    first = "age = 0, write = 9, read = 8, index = { status = { write = 7, read = 3 } }"
    closed = f"age = 2, {ON_DEMAND}, {COLD}"
    found = settings(f'mode = "provisioned"\nladder = [{{ {first} }}, {{ {closed} }}]', more=INDEX)
    late = 'age = "late", write = 1, read = 8, index = { status = { write = 1, read = 3 } }'
    assert found["a step for late events"] == write("provisioned", first, late, closed)
    assert "a cheap class for old tables" not in found, "it has one"


def test_a_ladder_of_one_step_gets_one_for_closed_tables_in_the_cheap_class() -> None:
    alone = 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 8 }]'
    steps = "age = 0, write = 9, read = 8", f"age = 1, write = 9, read = 8, {COLD}"
    assert settings(alone)["a cheap class for old tables"] == write("provisioned", *steps)
    found = settings(ON_DEMAND)
    assert found["a cheap class for old tables"] == write("on-demand", "age = 0", f"age = 1, {COLD}")
    assert not {"on demand", "a step for late events", "no step for late events"} & set(found)


def test_queries_of_old_events_are_not_more_than_they_are_where_less_than_a_day_is_kept() -> None:
    """Tables of six hours are kept: nine queries of half a unit stay nine halves."""
    toml = settings(ON_DEMAND, rate=1.0, old=9.0, period="hour", late="15m", retention="6")["provisioned"]
    assert "{ age = 1, write = 1, read = 5, " in toml


def test_an_index_gets_the_units_of_its_items_and_one_at_the_least() -> None:
    """Events of 1,500 bytes take two units each in the table and in an index of all attributes."""
    for rate, units in ((2.5, 5), (0.25, 1)):
        toml = settings(ON_DEMAND, rate=rate, size=1_500, more=INDEX)["provisioned"]
        assert (
            f"{{ age = 0, write = {units}, read = 1, index = {{ status = {{ write = {units}, read = 1 }} }} }}" in toml
        )
