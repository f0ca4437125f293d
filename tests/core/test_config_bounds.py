"""Bounds of settings together: what is taken at a bound, and what is refused beyond it."""

import pytest

from tests.worlds.configs import notify
from tests.worlds.edges import INDEX, PROVISIONED, STREAM
from tidetable.config import parse
from tidetable.config.check_stage import LOG_RETENTION_DAYS
from tidetable.errors import ConfigError

SWITCHED = "[lifecycle]\ndelete_expired = true\n"
ON_DEMAND = STREAM + "[streams.s.capacity]\n"


def find_problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def ladder(*steps: str, more: str = "") -> str:
    inner = ", ".join(f"{{ {step} }}" for step in steps)
    return STREAM + f'[streams.s.capacity]\nmode = "provisioned"\nladder = [{inner}]\n' + more


def make_indexes(count: int, settings: str) -> str:
    return "".join(f'[[streams.s.index]]\nname = "own{number}"\n{settings}\n' for number in range(count))


def make_kinds(count: int) -> str:
    kinds = ", ".join(f'k{number} = "f{number}"' for number in range(count))
    return f'[[streams.s.index]]\nname = "own"\nkind = "type"\npartition_by = {{ {kinds} }}\n'


def make_rollups(count: int) -> str:
    return "".join(
        f'[[streams.s.rollup]]\nname = "r{number}"\nevery = "1h"\nretention = "30d"\n' for number in range(count)
    )


def test_logs_are_kept_as_long_as_cloudwatch_can() -> None:
    """The days that PutRetentionPolicy takes, up to ten years."""
    assert LOG_RETENTION_DAYS == (
        1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
    )  # fmt: skip


FIRST = "age = 0, write = 2, read = 2, index = { own = { write = 10, read = 2 } }"
OWN = "index = { own = { write = %d, read = 2 } }"
TAKEN = {
    "a step for late events of a table that was on demand": ladder(
        'age = 0, mode = "on-demand"', 'age = "late", write = 5, read = 5'
    ),
    "a step for late events on demand": ladder("age = 0, write = 2, read = 2", 'age = "late", mode = "on-demand"'),
    "as many units for late events": ladder("age = 0, write = 2, read = 2", 'age = "late", write = 2, read = 9'),
    "as many units of an index for late events": ladder(FIRST, f'age = "late", write = 2, read = 2, {OWN % 10}')
    + INDEX,
    "units of an index up to those of scaling": ladder(
        FIRST,
        f'age = "late", write = 2, read = 2, {OWN % 12}',
        more="autoscaling = { write = { min = 1, max = 12 } }\n",
    )
    + INDEX,
    "a class for late events on demand": ON_DEMAND
    + 'ladder = [{ age = 0 }, { age = "late", class = "infrequent-access" }]\n',
    "twenty indexes and five local ones": STREAM
    + make_indexes(20, 'partition_by = "a"')
    + make_indexes(5, 'local = true\nsort_by = "n"').replace('"own', '"near'),
    "one replica": STREAM + make_indexes(1, "replica = true"),
    "forty thousand units": ON_DEMAND + "max = { write = 40_000, read = 40_000 }\n",
    "warm as every table is": ON_DEMAND + "warm = { write = 4_000, read = 12_000 }\n",
    "the greatest scaling": PROVISIONED + "autoscaling = { write = { min = 5, max = 40_000, target = 90 } }\n",
    "units of an index as scaling says": ladder(FIRST, more="autoscaling = { write = { min = 2, max = 10 } }\n")
    + INDEX,
    "one kind of events": STREAM + make_kinds(1),
    "fifty kinds of events": STREAM + make_kinds(50),
    "five rollups": STREAM + make_rollups(5),
    "a rollup that is kept for a hundred years": STREAM + make_rollups(1).replace("30d", "36525d"),
    "a rollup whose stream has a name of 63 characters": STREAM.replace("streams.s", f"streams.{'s' * 60}")
    + make_rollups(1).replace("streams.s", f"streams.{'s' * 60}"),
    "two ways to prove who calls": '[api]\nauth = ["iam", "api-key"]\n' + STREAM,
    "twenty addresses": notify(*[f"a{number}@example.com" for number in range(20)]),
    "twenty origins": f"[api]\ncors = {[f'https://a{number}.example' for number in range(20)]}\n" + STREAM,
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_within_every_bound_is_taken(name: str) -> None:
    assert find_problems(TAKEN[name]) == []


LATE = "streams.s.capacity.ladder (age = late)"
REFUSED = {
    "write units on demand": (
        ON_DEMAND + "ladder = [{ age = 0, write = 1 }]\n",
        "(age = 0): on-demand tables have no units",
    ),
    "read units on demand": (
        ON_DEMAND + "ladder = [{ age = 0, read = 1 }]\n",
        "(age = 0): on-demand tables have no units",
    ),
    "units of an index on demand": (
        ON_DEMAND + f"ladder = [{{ age = 0, {OWN % 1} }}]\n" + INDEX,
        "(age = 0): on-demand tables have no units",
    ),
    "maxima of no writes": (
        ON_DEMAND + "max = { write = 0, read = 1 }\n",
        ".capacity.max.write: 0 is not within 1 to 40000",
    ),
    "an index with more units for late events": (
        ladder(FIRST, f'age = "late", write = 2, read = 2, {OWN % 11}') + INDEX,
        f"{LATE}.index.own.write: 11 is more than the 10 of age = 0; write 10 at the most",
    ),
    "an index with more units than scaling gives": (
        ladder(
            FIRST,
            f'age = "late", write = 2, read = 2, {OWN % 13}',
            more="autoscaling = { write = { min = 1, max = 12 } }\n",
        )
        + INDEX,
        f"{LATE}.index.own.write: 13 is more than the 12 of age = 0; write 12 at the most",
    ),
    "scaling of nothing": (PROVISIONED + "autoscaling = {}\n", ".capacity.autoscaling: says neither write nor read"),
    "an empty ladder": (ON_DEMAND + "ladder = []\n", ".capacity.ladder: the first step has age = 0"),
    "twenty-one indexes": (
        STREAM + make_indexes(21, 'partition_by = "a"'),
        ".index: 21 indexes; AWS allows 20 per table",
    ),
    "six local indexes": (
        STREAM + make_indexes(6, 'local = true\nsort_by = "n"'),
        ".index: 6 local indexes; AWS allows 5 per table",
    ),
    "two replicas": (STREAM + make_indexes(2, "replica = true"), ".index: two indexes are replicas"),
    "fifty-one kinds of events": (STREAM + make_kinds(51), ".partition_by: name 1 to 50 kinds of events"),
    "a kind of events without a name": (
        STREAM + make_kinds(2).replace("k1 =", '"" ='),
        ".partition_by: name 1 to 50 kinds of events",
    ),
    "no kinds of events": (STREAM + make_kinds(0), ".partition_by: name 1 to 50 kinds of events"),
    "a field with a hole among the fields of kinds": (
        STREAM + make_kinds(3).replace("f1", "f..1"),
        ".partition_by: name a field of data, such as",
    ),
    "six rollups": (STREAM + make_rollups(6), ".rollup: 6 rollups; choose at most 5"),
    "a rollup that is kept for more than a hundred years": (
        STREAM + make_rollups(1).replace("30d", "36526d"),
        ".rollup.r0.retention: 36526d is not within 2d",
    ),
    "a rollup whose stream has a name of 64 characters": (
        STREAM.replace("streams.s", f"streams.{'s' * 61}")
        + make_rollups(1).replace("streams.s", f"streams.{'s' * 61}"),
        "and a stream's name has 63 characters at the most; shorten it",
    ),
    "the last of nothing": (
        STREAM + make_rollups(1) + 'stats = ["last"]\n',
        '.rollup.r0.fields: missing; "last" needs fields of data',
    ),
    "the first of nothing": (
        STREAM + make_rollups(1) + 'stats = ["first"]\n',
        '.rollup.r0.fields: missing; "first" needs fields of data',
    ),
    "a group twice": (STREAM + make_rollups(1) + 'by = ["a", "a"]\n', ".rollup.r0.by: name at most 4"),
    "a field twice": (STREAM + make_rollups(1) + 'fields = ["a", "a"]\n', ".rollup.r0.fields: name at most 64"),
    "no way to prove who calls": ("[api]\nauth = []\n" + STREAM, "api.auth: name at least one way, each once"),
    "a way twice": ('[api]\nauth = ["iam", "iam"]\n' + STREAM, "api.auth: name at least one way, each once"),
    "every origin and another": (
        '[api]\ncors = ["*", "https://a.example"]\n' + STREAM,
        'api.cors: "*" allows every origin; remove it, or remove the others',
    ),
    "twenty-one addresses": (
        notify(*[f"a{number}@example.com" for number in range(21)]),
        "observability.notify: 21 e-mail addresses are more than 20",
    ),
    "twenty-one origins": (
        f"[api]\ncors = {[f'https://a{number}.example' for number in range(21)]}\n" + STREAM,
        "api.cors: name at most 20 origins, each once",
    ),
    "an origin twice": (
        '[api]\ncors = ["https://a.example", "https://a.example"]\n' + STREAM,
        "api.cors: name at most 20",
    ),
    "a name twice": (
        STREAM + make_indexes(1, "replica = true") + INDEX.replace("own", "own0"),
        "two indexes are named 'own0'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_beyond_a_bound_is_refused(name: str) -> None:
    text, problem = REFUSED[name]
    assert [problem in found for found in find_problems(text)] == [True]


def test_the_stream_with_the_most_tables_is_named_first() -> None:
    other = STREAM.replace("streams.s", "streams.t").replace("= 3", "= 30")
    (problem,) = find_problems(SWITCHED + "table_quota = 40\n" + STREAM + other)
    assert problem == (
        "lifecycle.table_quota: tables at once: 43 of 40 (s 8, t 35); lower retention or choose a longer period, first of t,"
        " or have AWS raise the quota (Service Quotas, DynamoDB) and write it here"
    )
    assert find_problems(SWITCHED + "table_quota = 43\n" + STREAM + other) == []


@pytest.mark.parametrize(
    "column",
    ["time", "series", "id", "id_hex", "shard", "data", "attributes", "stream", "period", "accepted_at", "version"],
)
def test_no_column_has_the_name_of_one_that_every_archive_has(column: str) -> None:
    text = STREAM + f'[streams.s.archive]\ncolumns = {{ {column} = "string" }}\n'
    assert ["there is another column of this name" in problem for problem in find_problems(text)] == [True]
