"""The bounds of the configuration: the last accepted and the first refused value of each."""

import pytest

from tests.worlds.edges import INDEX, KEY, PROVISIONED, STREAM
from tidetable.config import parse
from tidetable.config.demand import list_demands
from tidetable.errors import ConfigError

SERIES = STREAM.replace(KEY, 'key = { partition_by = "series", shards = 2 }')


def tags(number: int) -> str:
    return ", ".join(f'a{n} = "1"' for n in range(number))


# The setting, as text with a gap; accepted values; refused values; the key that the problem names.
EDGES = [
    ("[api]\nmax_events = {}\n" + STREAM, ["1", "10_000"], ["0", "10_001"], "api.max_events: "),
    ("[api]\nmax_body = {}\n" + STREAM, ["1_000", "4_400_000"], ["999", "4_400_001"], "api.max_body: "),
    ("[api]\nrate = {}\n" + STREAM, ["1", "10_000"], ["0.5", "10_001"], "api.rate, api.burst: "),
    ("[api]\nburst = {}\n" + STREAM, ["1", "5_000"], ["0", "5_001"], "api.rate, api.burst: "),
    ("[api]\nkey_rate = {}\n" + STREAM, ["0.1", "200"], ["0.09", "200.1"], "api.key_rate, api.key_burst: "),
    ("[api]\nkey_burst = {}\n" + STREAM, ["1", "400"], ["0", "401"], "api.key_rate, api.key_burst: "),
    ("[api]\nrate = 10\nkey_rate = {}\n" + STREAM, ["10"], ["11"], "api.key_rate, api.key_burst: "),
    ("[api]\nconcurrency = {}\n" + STREAM, ["1", "10_000"], ["0", "10_001"], "api.concurrency: "),
    (
        "[observability]\nlog_retention_days = {}\n" + STREAM,
        ["1", "400", "3653"],
        ["0", "2", "366"],
        "log_retention_days: ",
    ),
    ('[lifecycle]\ndelete_grace = "{}"\n' + STREAM, ["0s", "365d"], ["366d"], "lifecycle.delete_grace: 366d is not"),
    ('[lifecycle]\nstagger = "{}"\n' + STREAM, ["0s", "1h"], ["61m"], "lifecycle.stagger: 61m is not within"),
    ("[lifecycle]\ntable_quota = {}\n" + STREAM, ["8", "10_000"], ["0", "10_001"], "lifecycle.table_quota: "),
    ("[work]\nworkers = {}\n" + STREAM, ["2", "1_000"], ["1", "1_001"], "work.workers: "),
    ("[work]\nconsumers = {}\n" + STREAM, ["2", "1_000"], ["1", "1_001"], "work.consumers: "),
    ("[lake]\nkeep_snapshots = {}\n" + STREAM, ["1", "1_000"], ["0", "1_001"], "lake.keep_snapshots: "),
    ("[lifecycle]\nmax_deletes = {}\n" + STREAM, ["1", "2_500"], ["0", "2_501"], "lifecycle.max_deletes: "),
    (STREAM + "[streams.s.archive]\nread_share = {}\n", ["0.01", "1"], ["0", "1.01"], "s.archive.read_share: "),
    (STREAM + "[streams.s.archive]\nsegments = {}\n", ["1", "32"], ["0", "33"], "s.archive.segments: "),
    (STREAM + "[streams.s.archive]\nread_units = {}\n", ["1", "40_000"], ["0", "40_001"], "s.archive.read_units: "),
    (STREAM.replace("= 3", "= 3\nahead = '{}'"), ["0s", "1d"], ["25h"], "streams.s.ahead: "),
    (STREAM.replace("= 3", "= 3\npremake = {}"), ["1", "10"], ["0", "11"], "streams.s.premake: "),
    # A hundred years.
    (STREAM.replace("= 3", "= {}").replace('"day"', '"month"'), ["2", "1178"], ["0", "1179"], "streams.s.retention: "),
    # Three days are kept: an event three days late still has its table.
    (STREAM.replace('"1d"', '"{}"'), ["3d"], ["73h"], "streams.s.retention: 3 day periods end before"),
    # Three Februaries have 84 days.
    (
        STREAM.replace('"day"', '"month"').replace('"1d"', '"{}"'),
        ["84d"],
        ["85d", "93d"],
        "raise retention to at least 4",
    ),
    # 200 tables: those of 197 hours, of the present one and of the one before, and one made ahead.
    (
        STREAM.replace('"day"', '"hour"')
        .replace("6h", "1h")
        .replace("= 3", "= 999\npremake = 1")
        .replace('"1d"', '"{}"'),
        ["197h"],
        ["198h"],
        "would hold 201 tables open",
    ),
    (STREAM.replace("shards = 4", "shards = {}"), ["1", "256"], ["0", "257"], "streams.s.key.shards: "),
    (STREAM.replace("6h", "{}"), ["60s", "1d"], ["30s", "59s", "5h", "2d"], "streams.s.key.bucket: "),
    # A week divides into such buckets, but keys count them from midnight.
    (STREAM.replace("6h", "{}").replace('"day"', '"week"'), ["1d"], ["7d", "28h"], "streams.s.key.bucket: "),
    (
        STREAM.replace("6h", "{}").replace('"day"', '"hour"').replace("= 3", "= 30"),
        ["1h", "15m"],
        ["2h", "7m"],
        "does not divide 1h",
    ),
    (SERIES.replace("shards = 2", "shards = {}, shard_by = 'series'"), ["1"], ["2"], "streams.s.key.shard_by: "),
    (STREAM + INDEX + "shards = {}\n", ["1", "256"], ["0", "257"], "streams.s.index.own.shards: "),
    (
        STREAM + INDEX + "project = {}\n",
        [str([f"f{n}" for n in range(20)])],
        [str([f"f{n}" for n in range(21)])],
        "streams.s.index.own.project: ",
    ),
    (STREAM + "[streams.s.table]\ntags = {{ {} }}\n", [tags(40)], [tags(41)], "streams.s.table.tags: 41 tags"),
    (STREAM + "[streams.s.table]\ntags = {{ '{}' = 'x' }}\n", ["a" * 128], ["a" * 129], "a key has 1 to 128"),
    (STREAM + "[streams.s.table]\ntags = {{ k = '{}' }}\n", ["", "a" * 256], ["a" * 257], "a value 256 at the most"),
    (
        STREAM + "[streams.s.table]\ntags = {{ '{}' = 'x' }}\n",
        ["projects", "awsome", "tide"],
        ["project", "aws:x", "AWS:x", "tidetable:stage", "TideTable:period"],
        "is not yours to set",
    ),
    (
        STREAM + "[streams.s.large]\ncompress_above = {}\n",
        ["1024", "4_400_000"],
        ["1023", "4_400_001"],
        "streams.s.large.compress_above: ",
    ),
    (
        STREAM.replace("= 3", "= 3\ncold = {}"),
        ['["a"]', str([f"f{n}" for n in range(20)])],
        [str([f"f{n}" for n in range(21)]), '["a", "a"]'],
        "streams.s.cold: name at most 20 fields, each once",
    ),
    (STREAM.replace("= 3", "= 3\ncold = ['{}']"), ["a b"], ["a,b", ""], "cannot be named in a query"),
    (STREAM.replace("= 3", "= 3\ncold = ['{}']"), ["a"], ["a.b"], '.cold: "a.b" is a path'),
    (
        STREAM + "[streams.s.archive]\ncolumns = {{ {} = 'string' }}\n",
        ["place", "pkx", "a" * 64],
        ["pk_kind", "PK_kind", "_a", "a" * 65],
        "a column's name is",
    ),
    (
        STREAM + "[streams.s.archive]\ncolumns = {{ {} = 'string', Place = 'string' }}\n",
        ["places"],
        ["place", "PLACE", "Series", "TIME", "accepted_at"],
        "there is another column of this name",
    ),
    (
        STREAM + "[streams.s.archive]\ncolumns = {{ n = '{}' }}\n",
        ["integer", "decimal(38,38)", "decimal(1, 0)"],
        ["int", "decimal(39,2)", "decimal(5,6)", "decimal(0,0)"],
        "decimal(precision, scale)",
    ),
    (PROVISIONED.replace("write = 5", "write = {}"), ["1", "40_000"], ["0", "40_001"], "(age = 0).write: "),
    (PROVISIONED.replace("read = 7", "read = {}"), ["1", "40_000"], ["0", "40_001"], "(age = 0).read: "),
    (PROVISIONED + "warm = {{ write = {}, read = 7 }}\n", ["5", "40_000"], ["4", "40_001"], "capacity.warm.write: "),
    (PROVISIONED + "warm = {{ write = 5, read = {} }}\n", ["7", "40_000"], ["6", "40_001"], "capacity.warm.read: "),
    (
        STREAM + "[streams.s.capacity]\nwarm = {{ write = 4_000, read = {} }}\n",
        ["12_000"],
        ["11_999"],
        "capacity.warm.read: ",
    ),
    (
        STREAM + "[streams.s.capacity]\nwarm = {{ write = {}, read = 12_000 }}\n",
        ["4_000"],
        ["3_999"],
        "capacity.warm.write: ",
    ),
    (
        PROVISIONED + "autoscaling = {{ write = {{ min = 1, max = 9, target = {} }} }}\n",
        ["20", "90"],
        ["19", "91"],
        "autoscaling.write.target: ",
    ),
    (
        PROVISIONED + "autoscaling = {{ read = {{ min = 1, max = {} }} }}\n",
        ["7", "40_000"],
        ["6", "40_001"],
        "capacity.autoscaling.read",
    ),
    (
        PROVISIONED + "autoscaling = {{ read = {{ min = {}, max = 9 }} }}\n",
        ["1", "7"],
        ["0", "8"],
        "capacity.autoscaling.read",
    ),
    (
        '[lifecycle]\ndelete_grace = "2d"\n[archive]\nexpire_after = "{}"\n' + STREAM,
        ["3d", "0s"],
        ["2d", "1d"],
        "archive.expire_after: ",
    ),
    # With more, the day on which an archive expires could lie after the year 9999.
    (
        '[archive]\nexpire_after = "{}"\n' + STREAM,
        ["36525d"],
        ["36526d", "9999999d"],
        "archive.expire_after: ",
    ),
    (
        STREAM + '[streams.s.archive]\nexpire_after = "{}"\n',
        ["36525d"],
        ["36526d"],
        "streams.s.archive.expire_after: ",
    ),
    (
        '[archive]\nstorage_class = "infrequent-access"\nstorage_class_after = "{}"\n' + STREAM,
        ["30d"],
        ["29d", "721h"],
        "archive.storage_class_after: ",
    ),
    (
        '[archive]\nstorage_class = "intelligent-tiering"\nstorage_class_after = "5d"\nexpire_after = "{}"\n' + STREAM,
        ["6d"],
        ["5d"],
        "archive.expire_after: 5d is not after",
    ),
]


@pytest.mark.parametrize(
    ("text", "value", "key"), [(text, value, key) for text, taken, _, key in EDGES for value in taken]
)
def test_the_last_value_within_a_bound_is_taken(text: str, value: str, key: str) -> None:
    # Of the others none depends on the quota.
    own = "table_quota" in text
    config = parse(_filled(text, value) if own else _with_quota(_filled(text, value)))
    assert list(config.streams) == ["s"], key


@pytest.mark.parametrize(
    ("text", "value", "key"), [(text, value, key) for text, _, refused, key in EDGES for value in refused]
)
def test_the_first_value_beyond_a_bound_is_refused_by_its_key(text: str, value: str, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(_filled(text, value))
    assert key in str(refused.value)


def _filled(text: str, value: str) -> str:
    if "{{" in text:
        return text.replace("{{", "<").replace("}}", ">").replace("{}", value).replace("<", "{").replace(">", "}")
    return text.replace("{}", value)


def _with_quota(text: str) -> str:
    """The same configuration in an account with a high table quota."""
    if "[lifecycle]" in text:
        return text.replace("[lifecycle]", "[lifecycle]\ntable_quota = 10_000")
    return "[lifecycle]\ntable_quota = 10_000\ndelete_expired = false\n" + text


def test_the_quota_itself_is_enough() -> None:
    """Three kept days, the present day, an expiring day while the next begins, two made ahead and a day of grace."""
    assert [need.tables for need in list_demands(parse(STREAM))] == [8]
    parse("[lifecycle]\ntable_quota = 8\n" + STREAM)
    with pytest.raises(ConfigError, match="tables at once: 8 of 7"):
        parse("[lifecycle]\ntable_quota = 7\n" + STREAM)
