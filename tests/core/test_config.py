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


TOPIC = "arn:aws:sns:us-east-1:123456789012:ops"


def notify(*targets: str) -> str:
    """A configuration whose alarms notify these."""
    return f"[observability]\nnotify = {list(targets)}\n" + GOOD


def replica(name: str) -> str:
    return f'\n[[streams.s.index]]\nname = "{name}"\nreplica = true\n'


COLD = GOOD.replace("retention = 3", 'retention = 3\ncold = ["raw"]')


def ladder(*steps: str) -> str:
    return (
        PROVISIONED.format(ages="")
        if not steps
        else PROVISIONED.replace("{ages}", ", ".join(f"{{{one}}}" for one in steps))
    )


CASES = [
    (
        "storage by no key",
        GOOD + '[storage]\nencryption = "aws-managed"',
        'storage.encryption: "aws-managed" is neither',
    ),
    (
        "a former key that is none",
        GOOD + '[storage]\nformer_keys = ["alias/x"]',
        "is not the ARN of a KMS key, such as",
    ),
    (
        "an archive that goes and a table that stays",
        GOOD + '[storage]\nremoval = "delete"',
        "the tables that streams.s keeps; set removal",
    ),
    (
        "two streams of one Athena table",
        GOOD.replace("streams.s", "streams.a-b") + GOOD.replace("streams.s", "streams.a_b"),
        "streams.a_b: its Athena table a_b is that of streams.a-b already; rename one of them",
    ),
    (
        "a tag that AWS refuses",
        GOOD + '[streams.s.table]\ntags = { team = "a&b" }',
        "s.table.tags.team: AWS takes letters, digits, spaces and + - = . _ : / @",
    ),
    ("a tag's key that AWS refuses", GOOD + '[streams.s.table]\ntags = { "a;b" = "x" }', "tags.a;b: AWS takes letters"),
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
    *(
        (
            f"the origin {origin}",
            f'[api]\ncors = ["{origin}"]\n' + GOOD,
            f'api.cors: "{origin}" is no origin; write scheme',
        )
        for origin in (
            *("app.example.com", "https://app.example.com/", "https://App.example.com", "ftp://a.example", "null", ""),
            *("https://*.example.com", "https://a.example:0", "https://a.example ", "https://a.example' || '1"),
        )
    ),
    (
        "every origin and another",
        '[api]\ncors = ["*", "https://a.example"]\n' + GOOD,
        'api.cors: "*" allows every origin',
    ),
    (
        "an origin twice",
        f"[api]\ncors = {['https://a.example'] * 2}\n" + GOOD,
        "api.cors: name at most 20 origins, each",
    ),
    (
        "too many origins",
        f"[api]\ncors = {[f'https://a{n}.example' for n in range(21)]}\n" + GOOD,
        "at most 20 origins",
    ),
    ("an origin that is no list", '[api]\ncors = "https://a.example"\n' + GOOD, "api.cors: expected `array`"),
    *(
        (f"the target {target}", notify(target), f'observability.notify: "{target}" is neither an e-mail address')
        for target in ("ops", "ops@example", "@example.com", "a b@example.com", "a@example.com,b@example.com", "")
    ),
    *(
        (
            f"the topic {topic}",
            notify(topic),
            f'observability.notify: "{topic}" is not the ARN of an SNS topic; write it as',
        )
        for topic in (
            "arn:aws:sns:us-east-1:1:ops",
            "arn:aws:sqs:us-east-1:123456789012:ops",
            f"{TOPIC}:1b2c-subscription",
        )
    ),
    ("a target twice", notify("a@example.com", "a@example.com"), "observability.notify: a target is named twice"),
    ("too many topics", notify(*(f"{TOPIC}{n}" for n in range(6))), "an alarm notifies at most 5 topics"),
    (
        "topics and addresses",
        notify("a@example.com", *(f"{TOPIC}{n}" for n in range(5))),
        "at most 5 topics, and all e-mail",
    ),
    ("too many addresses", notify(*(f"a{n}@example.com" for n in range(21))), "21 e-mail addresses are more than 20"),
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


def test_targets_are_addresses_or_topics() -> None:
    policy = parse(notify("ops@example.com", TOPIC, "first.last+alarms@mail.example.co.uk")).observability
    assert policy.addresses == ("ops@example.com", "first.last+alarms@mail.example.co.uk")
    assert policy.topics == ("arn:aws:sns:us-east-1:123456789012:ops",)
    parse(notify("ops@example.com", *(f"{TOPIC}{n}" for n in range(4))))


def test_origins_are_schemes_hosts_and_ports() -> None:
    origins = ("https://app.example.com", "http://localhost:3000", "https://xn--bcher-kva.example")
    assert parse(f"[api]\ncors = {list(origins)}\n" + GOOD).api.cors == origins
    assert parse('[api]\ncors = ["*"]\n' + GOOD).api.cors == ("*",)
    assert parse(GOOD).api.cors == ()


def test_the_example_is_valid_and_has_a_stream_of_each_layout() -> None:
    config = load(ROOT / "tidetable.toml")
    assert {stream.layout.partition_by for stream in config.streams.values()} == {"time", "series"}


def test_a_file_that_does_not_exist_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "tidetable.toml")


def test_tags_hold_what_aws_lets_them_hold() -> None:
    tags = 'tags = { "Kosten stelle" = "Zürich: a/b@c.d_e+f-g=1" }'
    assert parse(GOOD + f"[streams.s.table]\n{tags}").streams["s"].table.tags == {
        "Kosten stelle": "Zürich: a/b@c.d_e+f-g=1"
    }


KEY = "arn:aws:kms:us-east-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890"


def test_the_keys_of_tables_and_storage_are_those_of_now_and_before() -> None:
    text = GOOD + f'[streams.s.table]\nencryption = "{KEY}1"\n'
    config = parse(text + f'[storage]\nencryption = "{KEY}2"\nformer_keys = ["{KEY}3"]')
    assert config.table_keys == [f"{KEY}1", f"{KEY}3"]
    assert config.storage_keys == [f"{KEY}2", f"{KEY}3"]
    assert (parse(GOOD).table_keys, parse(GOOD).storage_keys) == ([], [])
