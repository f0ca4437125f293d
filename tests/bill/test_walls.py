"""The first wall of a load, calculated by hand: quotas of AWS, shards, units of the ladder, the gateway and workers."""

from typing import Any

import pytest

from bill.walls import find_met_wall, list_walls
from bill.workload import Workload
from tidetable.config import Config, parse

PACK = 'pack = { span = "1m" }'
TOP = '[[streams.s.index]]\nname = "top"\npartition_by = "*"\nsort_by = "n"\n'


def configure(more: str = "", *, shards: int = 4, api: str = "") -> Config:
    return parse(
        f"""
        {api}
        [streams.s]
        period = "day"
        late = "1h"
        retention = 5
        {more if more.startswith("pack") else ""}
        [streams.s.key]
        partition_by = "time"
        bucket = "1h"
        shards = {shards}
        {"" if more.startswith("pack") else more}
        """
    )


def walls(config: Config, rate: float = 1.0, **facts: Any) -> dict[str, tuple[int, bool]]:
    """The rate of each wall, in whole events per second, the lowest first, and whether the load meets it."""
    known = {"event_bytes": 500, "reads": 0.0, "batch": 100} | facts
    workload = Workload(
        [rate] * 24, known["event_bytes"], known["reads"], 4096, 0.0, config.streams["s"], known["batch"]
    )
    return {wall.name: (int(wall.rate), wall.met) for wall in list_walls(workload, config)}


def test_the_walls_of_plain_events_on_demand() -> None:
    # Four shards of 1,000 units; 200 requests of 100 events; 40,000 units of the table.
    assert list(walls(configure()).items()) == [
        ("the bucket's 4 shards", (4_000, False)),
        ("the gateway", (20_000, False)),
        ("the table's quota", (40_000, False)),
    ]


@pytest.mark.parametrize(("rate", "met"), [(4_000, False), (4_001, True)])
def test_a_wall_is_met_above_its_rate(rate: float, met: bool) -> None:
    config = configure()
    assert walls(config, rate)["the bucket's 4 shards"] == (4_000, met)
    wall = find_met_wall(Workload([1.0] * 23 + [rate], 500, 0.0, 4096, 0.0, config.streams["s"], 100), config)
    assert (wall is not None and wall.name == "the bucket's 4 shards") == met


def test_events_of_more_units_and_packs_have_other_walls() -> None:
    # Three units per event of 2,100 bytes; a pack of 100 events of 500 bytes takes 13 units.
    assert walls(configure(), event_bytes=2_100)["the table's quota"] == (13_333, False)
    packed = walls(configure(PACK, shards=256))
    assert (packed["the table's quota"][0], packed["the bucket's 256 shards"][0]) == (307_692, 1_969_230)
    assert next(iter(packed)) == "the gateway"


def test_a_million_events_per_second_meet_the_gateway_first_and_then_the_table() -> None:
    found = walls(configure(shards=256), 1e6)
    assert [name for name, (_, met) in found.items() if met] == [
        "the gateway",
        "the table's quota",
        "the bucket's 256 shards",
    ]


@pytest.mark.parametrize(("reads", "batch", "rate"), [(0.0, 1, 200), (50.0, 10, 1_500), (300.0, 10, 0)])
def test_queries_use_the_gateways_rate_too(reads: float, batch: int, rate: int) -> None:
    assert walls(configure(), reads=reads, batch=batch)["the gateway"][0] == rate


def test_the_gateways_rate_is_that_of_the_file() -> None:
    assert walls(configure(api="[api]\nrate = 2000\nburst = 2000\n"))["the gateway"] == (200_000, False)


def test_a_request_has_at_most_the_events_of_the_file() -> None:
    assert "requests of 1,000 events" not in walls(configure(), batch=1_000)
    assert walls(configure(), batch=1_001)["requests of 1,001 events"] == (0, True)


def test_an_index_over_all_events_has_its_own_shards_and_its_own_quota() -> None:
    found = walls(configure(TOP))
    assert found["the index top with 1 shard"] == (1_000, False)
    assert found["the index top's quota"] == (40_000, False)


def test_an_index_by_a_field_has_no_wall_of_shards_as_its_values_are_not_known() -> None:
    assert "the index by_f with 1 shard" not in walls(
        configure('[[streams.s.index]]\nname = "by_f"\npartition_by = "f"\n')
    )


def test_a_stream_by_series_has_no_wall_of_shards_as_its_series_are_not_known() -> None:
    text = '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 5\nkey = { partition_by = "series" }'
    assert list(walls(parse(text))) == ["the gateway", "the table's quota"]


LADDER = 'mode = "provisioned"\nladder = [{ age = 0, write = 50, read = 5, index = { top = { write = 9, read = 1 } } }]'


@pytest.mark.parametrize(
    ("capacity", "table", "index"),
    [
        (LADDER, 50, 9),
        (LADDER.replace(", index = { top = { write = 9, read = 1 } }", ""), 50, 50),
        (LADDER + "\nautoscaling = { write = { min = 1, max = 70 } }", 70, 70),
    ],
)
def test_the_ladders_units_of_an_open_table_and_its_indexes_are_walls(capacity: str, table: int, index: int) -> None:
    found = walls(configure(f"{TOP}[streams.s.capacity]\n{capacity}"))
    assert (found["the table's capacity"][0], found["the index top's capacity"][0]) == (table, index)


def test_the_maximum_of_a_table_on_demand_is_a_wall() -> None:
    found = walls(configure('[streams.s.capacity]\nmode = "on-demand"\nmax = { write = 600, read = 100 }'), 601)
    assert found["the table's capacity.max"] == (600, True)


ROLLUP = '[[streams.s.rollup]]\nname = "{0}"\nevery = "{1}"\nby = ["{2}"]\nretention = "90d"\n'


@pytest.mark.parametrize(
    ("rollups", "workers", "rate", "reading"),
    [
        # All workers at 2.0 microseconds per event; 40,000 read units of 4 KB, of 500 bytes.
        ((("m", "1m", "series"),), 5, 2_500_000, 327_680),
        ((("m", "1m", "series"),), 16, 8_000_000, 327_680),
        # Hours are made from minutes: events are read once.
        ((("m", "1m", "series"), ("h", "1h", "series")), 5, 2_500_000, 327_680),
        ((("m", "1m", "series"), ("h", "1h", "status")), 5, 1_250_000, 163_840),
    ],
)
def test_workers_seal_so_many_events(
    rollups: tuple[tuple[str, str, str], ...], workers: int, rate: int, reading: int
) -> None:
    found = walls(
        configure("".join(ROLLUP.format(*rollup) for rollup in rollups), api=f"[work]\nworkers = {workers}\n"), 1_000.0
    )
    assert (found["sealing of rollups"], found["reading by rollups"]) == ((rate, False), (reading, False))
    # A hundred parts of 100 groups are merged in 0.28 s.
    assert "merging of parts" not in found


@pytest.mark.parametrize(("groups", "rate"), [(21_428, None), (21_429, 166_663), (100_000, 35_714)])
def test_many_groups_take_longer_to_merge_than_a_bucket_lasts(groups: int, rate: int | None) -> None:
    """28 microseconds per cell: a hundred parts of 21,428 groups take a minute."""
    config = configure(ROLLUP.format("m", "1m", "series"))
    load = Workload([10_000.0] * 24, 500, 0.0, 4096, 0.0, config.streams["s"], groups=groups)
    found = {wall.name: wall for wall in list_walls(load, config)}
    assert (int(found["merging of parts"].rate) if "merging of parts" in found else None) == rate
    if rate is not None:
        assert found["merging of parts"].how.startswith(
            f"computed: one worker merges the cells of all parts of a bucket, {groups:,} per 100,000 events"
        )


@pytest.mark.parametrize(
    ("by", "span", "every", "rate"),
    [
        # 1.8 and 2.0 microseconds per event. A part of packs by content has four spans, so a minute of packs of 5 s has
        # three; a long bucket has two at least. Series and suffixes of series are divided among all five workers.
        ("series", "", "1m", 2_500_000),
        ("series", "1h", "1m", 2_777_777),
        ("time", "1h", "1m", 1_111_111),
        ("time", "5s", "1m", 1_666_666),
        ("time", "30s", "1m", 1_111_111),
        ("time", "1s", "1m", 2_777_777),
        ("suffix", "1h", "1m", 2_777_777),
    ],
)
def test_a_bucket_is_read_by_as_many_workers_as_it_has_parts(by: str, span: str, every: str, rate: int) -> None:
    pack = f'pack = {{ span = "{span}" }}\n' if span else ""
    text = f'[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 5\n{pack}'
    keys = {
        "time": 'key = { partition_by = "time", bucket = "1h" }\n',
        "series": 'key = { partition_by = "series" }\n',
        "suffix": 'key = { partition_by = "time", bucket = "1h", shards = 8, shard_by = "series" }\n',
    }
    assert walls(parse(text + keys[by] + ROLLUP.format("m", every, "series")))["sealing of rollups"][0] == rate


def test_the_wall_of_sealing_says_that_it_is_computed() -> None:
    config = configure(ROLLUP.format("m", "1m", "series"))
    found = list_walls(Workload([1.0] * 24, 500, 0.0, 4096, 0.0, config.streams["s"]), config)
    texts = {wall.name: wall.how for wall in found}
    assert texts["sealing of rollups"] == (
        "computed: 5 of 5 workers read each event for 1 rollup, at 2.0 microseconds; beyond it rollups fall behind, and"
        " aggregates read events: raise [work] workers, have fewer rollups, or rollups that can be made from finer rollups"
    )
    assert "sealing reads each event for 1 rollup, 0.122 units" in texts["reading by rollups"]
