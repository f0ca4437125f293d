"""The configuration: every problem names its key and its fix."""

from pathlib import Path

import pytest

from tidetable.config import load, parse
from tidetable.errors import ConfigError

ROOT = Path(__file__).parents[2]
GOOD = """
[streams.s]
period = "day"
late = "1d"
retention = 3
[streams.s.key]
partition_by = "time"
bucket = "6h"
shards = 4
"""
INDEX = """
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
"""
PROVISIONED = GOOD + '[streams.s.capacity]\nmode = "provisioned"\nladder = [{ages}]\n'


def index(more: str) -> str:
    """An index of these settings."""
    return f'\n[[streams.s.index]]\nname = "own"\n{more}\n'


def replica(name: str) -> str:
    return f'\n[[streams.s.index]]\nname = "{name}"\nreplica = true\n'


COLD = GOOD.replace("retention = 3", 'retention = 3\ncold = ["raw"]')


def ladder(*steps: str) -> str:
    return (
        PROVISIONED.format(ages="")
        if not steps
        else PROVISIONED.replace("{ages}", ", ".join(f"{{{one}}}" for one in steps))
    )


def keeping(text: str) -> str:
    return f"[archive]\n{text}\n{GOOD}"


CASES = [
    (
        "archives kept for hours",
        keeping('expire_after = "36h"'),
        "archive.expire_after: 36h is not a whole number of days",
    ),
    ("an archive gone before its table", keeping('expire_after = "1d"'), "more than lifecycle.delete_grace, 1d"),
    (
        "a class that is not read at once",
        keeping('storage_class = "glacier"'),
        '"glacier" is none of standard, infrequ',
    ),
    (
        "a class too early",
        keeping('storage_class = "infrequent-access"\nstorage_class_after = "10d"'),
        "archive.storage_class_after: 10d is too early; S3 takes infrequent-access from 30d on",
    ),
    (
        "a class after the end",
        keeping('storage_class = "intelligent-tiering"\nexpire_after = "30d"'),
        "archive.expire_after: 30d is not after storage_class_after, 30d",
    ),
    (
        "a stream's archives gone before its table",
        GOOD + '[streams.s.archive]\nexpire_after = "1d"',
        "streams.s.archive.expire_after: 1d is not more than lifecycle.delete_grace",
    ),
    ("no TOML", "[", "the file is no TOML"),
    ("no streams", "", "streams: none is defined; add"),
    ("an unknown table", GOOD + "[nonsense]\nx = 1", "nonsense: unknown key; known here: api"),
    ("an unknown key", GOOD.replace("late", "lat"), "streams.s.lat: unknown key; known here: ahead"),
    ("an unknown key of a step", ladder("age = 0, wirte = 1"), "ladder[0].wirte: unknown key; known here: age, class"),
    ("a missing key", GOOD.replace('period = "day"', ""), "streams.s.period: missing"),
    ("a wrong type", GOOD.replace("retention = 3", 'retention = "3"'), "streams.s.retention: expected `int`"),
    ("a word that is none", GOOD.replace('"day"', '"days"'), 's.period: "days" is none of hour, day, week, month'),
    ("a word of a step", ladder('age = 0, class = "cheap"'), '"cheap" is none of standard, infrequent-access'),
    ("a wrong duration", GOOD.replace('"1d"', '"1w"'), 'streams.s.late: "1w" is no duration'),
    ("retention shorter than late", GOOD.replace('"1d"', '"9d"'), "raise retention to at least 9 or lower late"),
    ("a stream's name", GOOD.replace("streams.s", "streams.S"), "streams.S: a stream's name is"),
    ("a bucket that does not divide", GOOD.replace('"6h"', '"7h"'), 'streams.s.key.bucket: "7h" does not divide 1d'),
    ("no bucket", GOOD.replace('bucket = "6h"', ""), "streams.s.key.bucket: missing"),
    ("too many shards", GOOD.replace("shards = 4", "shards = 257"), "streams.s.key.shards: 257 is not within 1 to 256"),
    (
        "too many open tables",
        GOOD.replace('"day"', '"hour"').replace('"1d"', '"20d"').replace("= 3", "= 999"),
        "tables open",
    ),
    ("a step without units", ladder("age = 0, write = 1"), "(age = 0).read: missing"),
    ("units of nothing", ladder("age = 0, write = 0, read = 1"), "(age = 0).write: 0 is not within 1 to 40000"),
    ("no first step", ladder("age = 1, write = 1, read = 1"), "the first step has age = 0"),
    ("ages that fall", ladder(*(f"age = {age}, write = 1, read = 1" for age in (0, 2, 1))), "ages must rise"),
    (
        "a replica of its own kind",
        GOOD + INDEX + "replica = true",
        "by_kind.replica: a replica has the table's own keys",
    ),
    (
        "kinds without a field that tells them",
        GOOD + index('partition_by = { a = "b" }'),
        "kind: missing; name the field",
    ),
    (
        "a kind of no fields",
        GOOD + index('kind = "type"\npartition_by = "a"'),
        "partition_by: with kind, a field for each",
    ),
    ("an index of nothing", GOOD + index(""), 'partition_by: missing; name a field of data such as "status", or "*"'),
    ("all events of a kind", GOOD + index('kind = "type"\npartition_by = { a = "*" }'), "partition_by: name a field"),
    ("a path with a hole", GOOD + index('partition_by = "a..b"'), "partition_by: name a field of data"),
    ("a sort by nothing", GOOD + index('partition_by = "a"\nsort_by = ""'), 'sort_by: "time", or a field'),
    ("fields projected twice", GOOD + index('partition_by = "a"\nproject = ["b", "b"]'), "project: "),
    ("no fields projected", GOOD + index('partition_by = "a"\nproject = []'), "project: "),
    ("a cold field in an index", COLD + index('partition_by = "a"\nproject = ["raw"]'), "raw is cold"),
    ("a cold field in a ranking", COLD + index('partition_by = "a"\nsort_by = "raw.n"'), "raw.n is cold"),
    ("two replicas", GOOD + replica("one_more") + replica("two_more"), "two are replicas"),
    ("an index's name", GOOD + INDEX.replace("by_kind", "By"), "streams.s.index.By.name: 3 to 63 of a-z"),
    (
        "an index over nothing",
        GOOD + INDEX.replace('"kind"', '"a..b"'),
        "index.by_kind.partition_by: name a field of data",
    ),
    ("an index of no suffix", GOOD + INDEX + "shards = 0", "index.by_kind.shards: 0 is not within 1 to 256"),
    ("two indexes of a name", GOOD + 2 * INDEX, "index: two are named 'by_kind'"),
    (
        "too many indexes",
        GOOD + "".join(INDEX.replace("kind", f"kind{n}") for n in range(21)),
        "21 indexes; AWS allows 20",
    ),
    ("a tag of ours", GOOD + '[streams.s.table]\ntags = { project = "x" }', "tags.project: this tag is not yours"),
    ("a tag too long", GOOD + f'[streams.s.table]\ntags = {{ a = "{"x" * 257}" }}', "tags.a: a key has 1 to 128"),
    (
        "too many tags",
        GOOD + "[streams.s.table.tags]\n" + "".join(f"a{n} = '1'\n" for n in range(41)),
        "41 tags; AWS allows",
    ),
    ("a body too large", "[api]\nmax_body = 5_000_000\n" + GOOD, "api.max_body: 5000000 is not within"),
]


@pytest.mark.parametrize(("name", "text", "message"), CASES)
def test_a_problem_names_its_key_and_its_fix(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace('"6h"', '"7h"').replace("shards = 4", "shards = 0"))
    assert len(caught.value.problems) == 2


def test_the_example_is_valid_and_has_a_stream_of_each_layout() -> None:
    config = load(ROOT / "tidetable.toml")
    assert {stream.layout.partition_by for stream in config.streams.values()} == {"time", "series"}


def test_a_file_that_does_not_exist_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "tidetable.toml")
