"""What follows from a configuration: layouts, indexes, rollups' streams, and advice with its numbers."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.configs import GOOD, index
from tests.worlds.edges import INDEX, KEY, PROVISIONED, STREAM
from tidetable.config import parse
from tidetable.config.capacity import Capacity
from tidetable.config.demand import give_advice
from tidetable.config.derive import count_periods_within
from tidetable.config.model import Stream
from tidetable.config.stream import IndexPolicy, KeyPolicy, PackPolicy, TablePolicy
from tidetable.durations import Duration
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind

SWITCHED = "[lifecycle]\ndelete_expired = true\n"
SERIES = 'key = { partition_by = "series", shards = 3, shard_by = "id" }'


def test_a_layout_has_everything_that_a_table_is_made_with() -> None:
    stream = parse(STREAM.replace("= 3", '= 3\nversions = "keep"\ncold = ["raw"]') + INDEX).streams["s"]
    own = Index("own", "kind")
    assert stream.layout == Layout("time", 4, "id", 21_600, (own,), versioned=True, parts=True)
    packed = parse(STREAM + '[streams.s.pack]\nspan = "90s"\nmax_bytes = 5000\n').streams["s"]
    assert packed.layout == Layout("time", 4, "id", 21_600, pack=Packing(90, 5_000))
    chunks = parse(STREAM + '[streams.s.large]\nbeyond = "chunks"\n').streams["s"]
    assert (chunks.layout.parts, chunks.layout.versioned) == (True, False)


# Another value for each key of an index.
OTHER = {
    "name": "j", "partition_by": "b", "kind": "k", "shards": 3, "sort_by": "n", "project": "keys", "replica": True,
    "local": True,
}  # fmt: skip


def test_each_key_of_an_index_is_part_of_a_layout() -> None:
    assert set(OTHER) == set(IndexPolicy.__struct_fields__)
    policy = IndexPolicy(name="i", partition_by="a")
    assert [key for key, value in OTHER.items() if replace(policy, **{key: value}).index == policy.index] == []


@pytest.mark.parametrize(
    ("policy", "made"),
    [
        (IndexPolicy(name="i", partition_by="a"), Index("i", "a")),
        (IndexPolicy(name="i", partition_by="a", shards=3, sort_by="n"), Index("i", "a", 3, "n")),
        (IndexPolicy(name="i", partition_by="a", project="keys"), Index("i", "a", project=())),
        (IndexPolicy(name="i", partition_by="a", project=("b", "c")), Index("i", "a", project=("b", "c"))),
        (
            IndexPolicy(name="i", partition_by={"x": "a", "y": "b"}, kind="type"),
            Index("i", kind="type", kinds=(("x", "a"), ("y", "b"))),
        ),
        (IndexPolicy(name="i", sort_by=("a", "b"), local=True), Index("i", levels=("a", "b"), local=True)),
        (IndexPolicy(name="i", replica=True), Index("i", replica=True)),
    ],
)
def test_an_index_is_made_as_its_policy_says(policy: IndexPolicy, made: Index) -> None:
    assert policy.index == made


@pytest.mark.parametrize(
    ("every", "period", "kind", "bucket", "retention"),
    [
        ("1m", None, Kind.DAY, "1h", 60),
        ("1h", None, Kind.MONTH, "1d", 3),
        ("30m", "month", Kind.MONTH, "1h", 3),
        ("1h", "hour", Kind.HOUR, "1h", 1440),
        ("1d", "week", Kind.WEEK, "1d", 9),
    ],
)
def test_a_rollup_is_a_stream_with_all_its_settings(
    every: str, period: str | None, kind: Kind, bucket: str, retention: int
) -> None:
    """What it has no key for is as in its source."""
    source = STREAM.replace("= 3", '= 3\nremoval = "delete"\nreplicas = ["eu-west-1"]\nahead = "1m"\npremake = 5')
    table = '[streams.s.table]\nencryption = "aws-managed"\ntags = { a = "b" }\ndeletion_protection = true\n'
    rollup = f'[[streams.s.rollup]]\nname = "r"\nevery = "{every}"\nretention = "60d"\non_expiry = "delete"\n'
    text = "[storage]\nremoval = 'delete'\n" + source + table + rollup + (f'period = "{period}"\n' if period else "")
    assert parse(text).streams["s-r"] == Stream(
        name="s-r",
        source="s",
        period=kind,
        late=Duration(days=2),
        retention=retention,
        on_expiry="delete",
        removal="delete",
        replicas=("eu-west-1",),
        key=KeyPolicy(partition_by="time", bucket=Duration.parse(bucket)),
        pack=PackPolicy(span=Duration.parse(every), max_bytes=65_536),
        capacity=Capacity(mode="on-demand"),
        table=TablePolicy(encryption="aws-managed", tags={"a": "b"}),
    )


# The fewest days of one to twelve months in a row: the shortest begin in February or end with it.
LEAST_DAYS = (28, 59, 89, 120, 150, 181, 212, 242, 273, 303, 334, 365)


def test_months_are_counted_as_if_all_were_the_shortest() -> None:
    counted = [count_periods_within(timedelta(days=days + more), Kind.MONTH) for days in LEAST_DAYS for more in (0, 1)]
    assert counted == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13]
    assert [count_periods_within(timedelta(0), kind) for kind in (Kind.MONTH, Kind.DAY)] == [1, 1]
    assert count_periods_within(timedelta(days=1, seconds=1), Kind.DAY) == 2
    # Ten times 365 days, and a day.
    assert [count_periods_within(timedelta(days=days), Kind.MONTH) for days in (3_650, 3_651)] == [120, 121]


def test_the_whole_stage_follows_from_its_streams() -> None:
    delete = STREAM.replace("= 3", '= 3\nremoval = "delete"')
    for text, tables, catalog in (
        (STREAM, True, True),
        (delete, False, True),
        ('[storage]\nremoval = "delete"\n' + delete, False, False),
    ):
        config = parse(text)
        assert (config.keeps_tables, config.keeps_catalog) == (tables, catalog)
    former = parse('[storage]\nformer_regions = ["eu-west-1"]\n' + STREAM)
    assert (former.replicas, former.has_had_copies, parse(STREAM).has_had_copies) == ((), True, False)
    copied = parse(STREAM.replace("= 3", '= 3\nreplicas = ["us-west-2", "eu-west-1"]'))
    assert (copied.replicas, copied.has_had_copies) == (("eu-west-1", "us-west-2"), True)


@pytest.mark.parametrize("door", ["influx", "otlp", "cloudevents", "firehose"])
def test_one_open_door_is_a_door(door: str) -> None:
    assert parse(f"[doors]\n{door} = true\n" + STREAM).doors.any


@pytest.mark.parametrize(
    ("auth", "found"),
    [
        ('"api-key"', (True, False)),
        ('"iam"', (False, True)),
        ('["iam"]', (False, True)),
        ('["api-key", "iam"]', (True, True)),
    ],
)
def test_callers_prove_who_they_are_in_one_way_or_two(auth: str, found: tuple[bool, bool]) -> None:
    api = parse(f"[api]\nauth = {auth}\n" + STREAM).api
    assert (api.by_key, api.by_signature) == found


def test_the_maxima_are_those_of_an_on_demand_table() -> None:
    limited = parse(STREAM + "[streams.s.capacity]\nmax = { write = 9, read = 8 }\n").streams["s"]
    assert (limited.capacity.maxima, parse(STREAM).streams["s"].capacity.maxima) == ((9, 8), None)


LOCAL = index('sort_by = "n"\nlocal = true')


def advise_local(write: int, bucket: str, more: str = "") -> list[str]:
    table = PROVISIONED.replace("write = 5", f"write = {write}").replace('"6h"', f'"{bucket}"')
    return give_advice(parse(SWITCHED + table + more + LOCAL))


@pytest.mark.parametrize(
    ("write", "bucket", "size", "more"),
    [
        # A partition takes 1,000 units per second, of 1 KB each: 22 GB in six hours, whatever the table has.
        (8_000, "6h", 21, "; 17 shards suffice"),
        (31_068, "1d", 82, "; 256 shards suffice"),
        (31_069, "1d", 82, ""),
        (40_000, "1d", 82, ""),
        # A quarter of the units for each suffix.
        (1_942, "6h", 10, "; 5 shards suffice"),
        (2_004, "6h", 10, "; 5 shards suffice"),
    ],
)
def test_a_local_index_that_may_be_full_is_advised_against_with_numbers(
    write: int, bucket: str, size: int, more: str
) -> None:
    (advice,) = advise_local(write, bucket)
    assert advice == (
        f"streams.s.index.own: at {write:,} write units per second a suffix of a bucket of {bucket} may get {size} GB, and"
        " with a local index DynamoDB takes 10 GB; further events become dead letters: choose a shorter bucket or more"
        f" shards{more}"
    )


def test_a_local_index_that_cannot_be_full_is_not_advised_against() -> None:
    # 485.25 units for each of four suffixes; 10 GB in six hours are 485.45.
    assert advise_local(1_941, "6h") == []
    assert advise_local(1_900, "6h", "autoscaling = { write = { min = 1, max = 2000 } }\n")[0].startswith(
        "streams.s.index.own: at 2,000 write units per second"
    )
    # The configuration does not say how many events come to a series.
    by_series = PROVISIONED.replace("write = 5", "write = 9000").replace(KEY, SERIES)
    assert give_advice(parse(SWITCHED + by_series + LOCAL)) == []


@pytest.mark.parametrize(("retention", "count"), [(1_995, 0), (1_996, 1)])
def test_a_quota_is_near_above_four_fifths(retention: int, count: int) -> None:
    """Besides the kept days there are five tables; the quota is 2,500."""
    assert len(give_advice(parse(SWITCHED + GOOD.replace("= 3", f"= {retention}")))) == count


def test_an_index_over_all_events_is_of_use_in_a_stream_by_series() -> None:
    text = SWITCHED + '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\n' + SERIES + "\n"
    assert give_advice(parse(text + index('partition_by = "*"'))) == []
