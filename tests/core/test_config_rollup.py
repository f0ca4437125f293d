"""``[[streams.NAME.rollup]]``: the stream that it becomes, its bounds, and what a later version of the file remembers."""

from datetime import timedelta

import pytest

from tidetable.config import Config, RollupPolicy, Stream, parse
from tidetable.config.derive import count_periods_within
from tidetable.config.record import parse_policy, render_policy
from tidetable.durations import Duration
from tidetable.errors import ConfigError
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind
from tidetable.rollup_model.definition import make_definition

QUAKES = (
    '[streams.quakes]\nperiod = "day"\nlate = "7d"\nretention = 14\nremoval = "delete"\n'
    'key = { partition_by = "time", bucket = "6h", shards = 4 }\n'
    'table = { tags = { team = "sea" }, encryption = "aws-managed" }\n'
)
HOURS = '[[streams.quakes.rollup]]\nname = "hours"\nevery = "1h"\nretention = "730d"\n'
RICH = HOURS + 'by = ["series", "net"]\nfields = ["mag"]\nstats = ["count", "percentiles"]\n'


def derived(rollup: str, name: str = "quakes-hours") -> Stream:
    return parse(QUAKES + rollup).streams[name]


def problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def test_a_rollup_needs_a_name_a_step_and_a_retention() -> None:
    assert parse(QUAKES + HOURS).streams["quakes"].rollup == (
        RollupPolicy(
            name="hours",
            every=Duration(hours=1),
            by=(),
            fields=(),
            stats=("count", "sum", "min", "max"),
            retention=Duration(days=730),
            period=None,
            max_groups=None,
            on_expiry="archive",
        ),
    )
    missing = "missing; add it (the commented tidetable.toml shows its values)"
    assert problems(QUAKES + "[[streams.quakes.rollup]]\n") == [
        f"streams.quakes.rollup[0].{key}: {missing}" for key in ("name", "every", "retention")
    ]


def test_a_rollup_is_a_stream_of_its_own_that_comes_after_the_written_ones() -> None:
    config = parse(QUAKES + RICH)
    assert list(config.streams) == ["quakes", "quakes-hours"]
    assert [stream.name for stream in config.rolled_up] == ["quakes"]
    stream = config.streams["quakes-hours"]
    assert (stream.name, stream.source, stream.rollup) == ("quakes-hours", "quakes", ())
    assert (stream.period, stream.retention, stream.on_expiry) == (Kind.MONTH, 24, "archive")
    # As late as an event of the source, and a day in which its bucket is sealed anew.
    assert stream.late == timedelta(days=8)
    assert stream.layout == Layout("time", 1, "id", 86_400, pack=Packing(3_600, 65_536))
    assert stream.capacity.mode == "on-demand"
    assert (stream.removal, stream.table.tags, stream.table.encryption) == ("delete", {"team": "sea"}, "aws-managed")


@pytest.mark.parametrize(
    ("every", "period", "bucket", "span"),
    [
        ("1m", Kind.DAY, 3_600, 60),
        ("30m", Kind.DAY, 3_600, 1_800),
        ("1h", Kind.MONTH, 86_400, 3_600),
        ("1d", Kind.MONTH, 86_400, 86_400),
    ],
)
def test_fine_steps_have_tables_by_the_day_and_coarse_ones_by_the_month(
    every: str, period: Kind, bucket: int, span: int
) -> None:
    stream = derived(HOURS.replace("1h", every))
    assert (stream.period, stream.layout.bucket) == (period, bucket)
    assert stream.layout.pack == Packing(span, 65_536)


def test_a_rollup_may_choose_its_period_and_what_becomes_of_it() -> None:
    stream = derived(HOURS.replace("730d", "9d") + 'period = "hour"\non_expiry = "delete"\n')
    assert (stream.period, stream.retention, stream.on_expiry) == (Kind.HOUR, 216, "delete")
    assert stream.layout.bucket == 3_600


@pytest.mark.parametrize(
    ("days", "kind", "periods"),
    [
        (1, Kind.DAY, 1),
        (8, Kind.WEEK, 2),
        (28, Kind.MONTH, 1),
        (29, Kind.MONTH, 2),
        (59, Kind.MONTH, 2),
        (60, Kind.MONTH, 3),
        (365, Kind.MONTH, 12),
        (366, Kind.MONTH, 13),
        (730, Kind.MONTH, 24),
        (3_650, Kind.MONTH, 120),
    ],
)
def test_retention_is_as_many_whole_periods_as_take_so_long_in_any_year(days: int, kind: Kind, periods: int) -> None:
    assert count_periods_within(timedelta(days=days), kind) == periods


MISTAKES = {
    "a step that does not divide a day": (
        RICH.replace("1h", "7h"),
        '.hours.every: 7h is not within 1m to 1d, or does not divide a day; choose such as "1m", "1h" or "1d"',
    ),
    "no step": (
        RICH.replace("1h", "0s"),
        '.hours.every: 0s is not within 1m to 1d, or does not divide a day; choose such as "1m", "1h" or "1d"',
    ),
    "a step of a week": (
        RICH.replace("1h", "7d"),
        '.hours.every: 7d is not within 1m to 1d, or does not divide a day; choose such as "1m", "1h" or "1d"',
    ),
    "steps that do not fit": (
        RICH.replace("1h", "6h") + HOURS.replace('"hours"', '"quarters"').replace("1h", "4h"),
        '.hours.every: 6h is not a multiple of the 4h of quarters; choose such as "1m", "1h" and "1d"',
    ),
    "an unknown statistic": (
        RICH.replace("percentiles", "median"),
        '[0].stats[1]: "median" is none of count, sum, min, max, first, last, first_at, last_at, percentiles',
    ),
    "a statistic twice": (
        RICH.replace("percentiles", "count"),
        '.hours.stats: name each statistic once, such as ["count", "sum"]',
    ),
    "percentiles of nothing": (
        RICH.replace('fields = ["mag"]', ""),
        '.hours.fields: missing; "percentiles" needs fields of data that hold numbers, such as ["mag"]',
    ),
    "five groups": (
        RICH.replace('"net"', '"a", "b", "c", "d"'),
        '.hours.by: name at most 4 "series" and fields of data, each once',
    ),
    "a path with a hole": (
        RICH.replace('"net"', '"place..state"'),
        (
            '.hours.by: "place..state" cannot be named in a query; name a field of data without commas,'
            ' such as "mag" or "place.depth"'
        ),
    ),
    "series as a number": (
        RICH.replace('["mag"]', '["series"]'),
        '.hours.fields: "series" can only group events; name it in by',
    ),
    "a name of another form": (
        RICH.replace('"hours"', '"Hours"'),
        ".Hours.name: a name is 1 to 31 of a-z, 0-9, _ and -, and begins with a letter; rename it",
    ),
    "the same name twice": (RICH + HOURS, ': two rollups are named "hours"; rename one of them'),
    "too short a retention": (
        RICH.replace("730d", "7d"),
        '.hours.retention: 7d is not within 8d (until then late events change the rollup) to 36525d; choose such as "730d"',
    ),
    "too short a period": (
        RICH.replace("1h", "6h") + 'period = "hour"\n',
        '.hours.period: a table of an hour does not hold a step of 6h; choose "day" or longer',
    ),
    "too many open tables": (
        RICH + 'period = "hour"\n',
        ".hours.period: with late = 7d more than 200 tables would be open; choose a longer period",
    ),
    "more groups than fit": (
        RICH.replace('["mag"]', '["mag", "depth"]') + "max_groups = 50001\n",
        ".hours.max_groups: 50001 is not within 1 to 50000, 100000 divided by the number of fields",
    ),
    "no groups": (
        RICH + "max_groups = 0\n",
        ".hours.max_groups: 0 is not within 1 to 100000, 100000 divided by the number of fields",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_key_and_its_fix(mistake: str) -> None:
    text, problem = MISTAKES[mistake]
    quakes = QUAKES.replace('"7d"', '"9d"') if mistake == "too many open tables" else QUAKES
    assert problems(quakes + text) == [f"streams.quakes.rollup{problem.replace('late = 7d', 'late = 9d')}"]


@pytest.mark.parametrize(
    ("fields", "more", "groups"),
    [
        (0, "", 10_000),
        (1, "", 10_000),
        (10, "", 10_000),
        (11, "", 9_090),
        (16, "", 6_250),
        (64, "", 1_562),
        (16, "max_groups = 6250\n", 6_250),
        (16, "max_groups = 7\n", 7),
    ],
)
def test_the_default_of_groups_fits_the_fields(fields: int, more: str, groups: int) -> None:
    names = ", ".join(f'"f{number}"' for number in range(fields))
    config = parse(QUAKES + HOURS + f"fields = [{names}]\n{more}")
    (rollup,) = config.streams["quakes"].rollup
    assert make_definition(config.streams["quakes"], rollup).max_groups == groups


def test_a_rollup_has_at_most_64_fields() -> None:
    names = ", ".join(f'"f{number}"' for number in range(65))
    (problem,) = problems(QUAKES + HOURS + f"fields = [{names}]\n")
    assert problem == "streams.quakes.rollup.hours.fields: name at most 64 fields of data, each once"


def test_the_bounds_themselves_are_fine() -> None:
    text = RICH.replace('"net"', '"a", "b", "c.d"') + "max_groups = 100000\n"
    assert problems(QUAKES + text.replace("730d", "8d")) == []
    assert problems(QUAKES + RICH.replace('"hours"', f'"{"a" * 31}"')) == []
    steps = ("1m", "5m", "1h", "6h", "1d")
    assert problems(QUAKES + "".join(HOURS.replace("1h", step).replace("hours", f"r{step}") for step in steps)) == []


@pytest.mark.parametrize(("late", "are_too_many"), [(196, False), (197, True)])
def test_two_hundred_tables_may_be_open(late: int, are_too_many: bool) -> None:
    """A day more than the stream takes events, and four tables that are made ahead or about to close."""
    quakes = QUAKES.replace('"7d"', f'"{late - 24}h"')
    found = problems(quakes + RICH + 'period = "hour"\n')
    assert any("more than 200 tables would be open" in problem for problem in found) is are_too_many


def test_a_cold_field_is_neither_grouped_by_nor_aggregated() -> None:
    cold = QUAKES.replace("retention", 'cold = ["net", "mag"]\nretention')
    detail = "is a cold field, which is shown and not searched; remove it here or from cold"
    assert problems(cold + RICH.replace('["mag"]', '["mag.ml"]')) == [
        f'streams.quakes.rollup.hours.by: "net" {detail}',
        f'streams.quakes.rollup.hours.fields: "mag.ml" {detail}',
    ]


def test_a_stream_that_is_partitioned_by_series_may_have_rollups() -> None:
    serial = QUAKES.replace('{ partition_by = "time", bucket = "6h", shards = 4 }', '{ partition_by = "series" }')
    assert problems(serial + RICH) == []


@pytest.mark.parametrize("order", [0, 1])
def test_no_other_stream_may_have_the_name_of_a_rollup(order: int) -> None:
    other = QUAKES.replace("streams.quakes", "streams.quakes-hours")
    assert problems("".join([QUAKES + RICH, other][:: 1 - 2 * order])) == [
        (
            "streams.quakes.rollup.hours.name: the rollup is the stream quakes-hours, and there is another stream of that name;"
            " rename one of them"
        )
    ]


def test_rollups_of_two_streams_may_not_meet_in_a_name() -> None:
    other = (QUAKES + HOURS).replace("streams.quakes", "streams.quakes-all")
    messages = problems(QUAKES + HOURS.replace('"hours"', '"all-hours"') + other)
    assert messages == [
        (
            "streams.quakes.rollup.all-hours.name: the rollup is the stream quakes-all-hours, and there is another stream of that"
            " name; rename one of them"
        )
    ]


def test_packs_and_versions_can_be_rolled_up() -> None:
    assert problems(QUAKES + 'pack = { span = "1m" }\n' + RICH) == []
    assert problems(QUAKES.replace("retention", 'versions = "keep"\nretention') + RICH) == []


def test_the_source_is_no_key_of_a_file() -> None:
    assert problems(QUAKES.replace("late", 'source = "x"\nlate')) == [
        "streams.quakes.source: unknown key; add [[streams.quakes.rollup]] to the stream that is to be rolled up"
    ]


def test_the_tables_of_rollups_count_towards_the_quota() -> None:
    text = "[lifecycle]\ntable_quota = 40\ndelete_expired = true\n"
    assert problems(text + QUAKES) == []
    (problem,) = problems(text + QUAKES + HOURS)
    # 14 days, the grace, and four more; 24 months of 28 days, the grace, and four more.
    assert problem.startswith("lifecycle.table_quota: tables at once: 48 of 40 (quakes 19, quakes-hours 29)")


def test_what_the_catalog_keeps_of_a_rollup_is_read_back_after_it_has_left_the_file() -> None:
    config: Config = parse(QUAKES + RICH)
    for name, stream in config.streams.items():
        assert parse_policy(name, render_policy(stream)) == stream
