"""Configurations with one problem each. Beside each: the key that the message must name, and the fix."""

from tests.worlds.configs import GOOD, TOPIC, index, ladder, month, notify

INDEX = """
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
"""


def replica(name: str) -> str:
    return f'\n[[streams.s.index]]\nname = "{name}"\nreplica = true\n'


COLD = GOOD.replace("retention = 3", 'retention = 3\ncold = ["raw"]')


def keeping(text: str) -> str:
    return f"[archive]\n{text}\n{GOOD}"


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
        "a former Region that is none",
        GOOD + '[storage]\nformer_regions = ["Ireland"]',
        'storage.former_regions: "Ireland" is not the name of a Region',
    ),
    (
        "an archive that goes and a table that stays",
        GOOD + '[storage]\nremoval = "delete"',
        "the tables that streams.s keeps; set removal",
    ),
    (
        "two streams of one Athena table",
        GOOD.replace("streams.s", "streams.a-b") + GOOD.replace("streams.s", "streams.a_b"),
        "streams.a_b: streams.a-b has the same Athena table, a_b; rename one of the two streams",
    ),
    (
        "a tag that AWS refuses",
        GOOD + '[streams.s.table]\ntags = { team = "a&b" }',
        "s.table.tags.team: AWS takes letters, digits, spaces and + - = . _ : / @",
    ),
    ("a tag's key that AWS refuses", GOOD + '[streams.s.table]\ntags = { "a;b" = "x" }', "tags.a;b: AWS takes letters"),
    (
        "archives kept for hours",
        keeping('expire_after = "36h"'),
        "archive.expire_after: 36h is not a whole number of days",
    ),
    ("an archive gone before its table", keeping('expire_after = "1d"'), "more than lifecycle.delete_grace, 1d"),
    (
        "an archive of the close that is gone before its table",
        GOOD.replace("late =", 'archive_at = "close"\nlate =') + '[streams.s.archive]\nexpire_after = "4d"',
        "streams.s.archive.expire_after: 4d is not more than retention and lifecycle.delete_grace, 1d, as archive_at",
    ),
    (
        "an archive of the close by the rules of all streams",
        keeping('expire_after = "4d"').replace("late =", 'archive_at = "close"\nlate ='),
        "streams.s.archive.expire_after: 4d is not more than retention and",
    ),
    (
        "an archive at the close of a table that is deleted without one",
        GOOD.replace("late =", 'archive_at = "close"\non_expiry = "delete"\nlate ='),
        'streams.s.archive_at: "close" needs on_expiry = "archive", not \'delete\'',
    ),
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
    ("no TOML", "[", "the file is not TOML"),
    ("no streams", "", "streams: none is defined; add"),
    ("an unknown table", GOOD + "[nonsense]\nx = 1", "nonsense: unknown key; known here: api"),
    ("an unknown key", GOOD.replace("late", "lat"), "streams.s.lat: unknown key; known here: ahead"),
    ("an unknown key of a step", ladder("age = 0, wirte = 1"), "ladder[0].wirte: unknown key; known here: age, class"),
    ("a missing key", GOOD.replace('period = "day"', ""), "streams.s.period: missing"),
    ("a wrong type", GOOD.replace("retention = 3", 'retention = "3"'), "streams.s.retention: expected `int`"),
    ("a word that is none", GOOD.replace('"day"', '"days"'), 's.period: "days" is none of hour, day, week, month'),
    ("a word of a step", ladder('age = 0, class = "cheap"'), '"cheap" is none of standard, infrequent-access'),
    ("a wrong duration", GOOD.replace('"1d"', '"1w"'), 'streams.s.late: "1w" is not a duration'),
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
        "partition_by: with kind, name a field for each",
    ),
    ("an index of nothing", GOOD + index(""), 'partition_by: missing; name a field of data such as "status", or "*"'),
    ("all events of a kind", GOOD + index('kind = "type"\npartition_by = { a = "*" }'), "partition_by: name a field"),
    ("a path with a hole", GOOD + index('partition_by = "a..b"'), "partition_by: name a field of data"),
    ("a sort by nothing", GOOD + index('partition_by = "a"\nsort_by = ""'), 'sort_by: write "time", a field of data'),
    (
        "a hierarchy of nothing",
        GOOD + index('partition_by = "a"\nsort_by = []'),
        "sort_by: name 1 to 8 fields of data, each",
    ),
    (
        "a hierarchy with a field twice",
        GOOD + index('partition_by = "*"\nsort_by = ["b", "b"]'),
        "sort_by: name 1 to 8 fields",
    ),
    (
        "a hierarchy with a hole",
        GOOD + index('partition_by = "*"\nsort_by = ["b", "c."]'),
        "sort_by: name 1 to 8 fields",
    ),
    (
        "a hierarchy that is too deep",
        GOOD + index(f'partition_by = "*"\nsort_by = {list("abcdefghi")}'),
        "1 to 8 fields",
    ),
    (
        "a cold field in a hierarchy",
        COLD + index('partition_by = "*"\nsort_by = ["b", "raw.n"]'),
        "raw.n is a cold field",
    ),
    ("a hierarchy of numbers", GOOD + index('partition_by = "*"\nsort_by = [1]'), "sort_by"),
    (
        "a local index of a field",
        GOOD + index('partition_by = "a"\nsort_by = "n"\nlocal = true'),
        "remove partition_by, k",
    ),
    (
        "a local index with shards",
        GOOD + index('sort_by = "n"\nshards = 2\nlocal = true'),
        "partitions and the shards of",
    ),
    ("a local index by time", GOOD + index("local = true"), "sort_by: a local index in the order of time would be the"),
    ("a local replica", GOOD + index("replica = true\nlocal = true"), "a replica has the table's own keys"),
    (
        "six local indexes",
        GOOD + "".join(index('sort_by = "n"\nlocal = true').replace("own", f"own{n}") for n in range(6)),
        "index: 6 local indexes; AWS allows 5 per table: make some of them global with partition_by",
    ),
    (
        "a local index and packs",
        GOOD + '[streams.s.pack]\nspan = "1m"\n' + index('sort_by = "n"\nlocal = true'),
        "index.own: an index has no keys for the events inside a pack",
    ),
    (
        "units of a local index",
        ladder("age = 0, write = 1, read = 1, index = { own = { write = 1, read = 1 } }")
        + index('sort_by = "n"\nlocal = true'),
        "(age = 0).index.own: a local index takes its units from the table; remove it here, and raise write and read",
    ),
    ("fields projected twice", GOOD + index('partition_by = "a"\nproject = ["b", "b"]'), "project: "),
    ("a path projected", GOOD + index('partition_by = "a"\nproject = ["c", "b.a"]'), 'project: "b.a" is a path'),
    ("no fields projected", GOOD + index('partition_by = "a"\nproject = []'), "project: "),
    ("a cold field in an index", COLD + index('partition_by = "a"\nproject = ["raw"]'), "raw is a cold field"),
    ("a cold field in a ranking", COLD + index('partition_by = "a"\nsort_by = "raw.n"'), "raw.n is a cold field"),
    ("two replicas", GOOD + replica("one_more") + replica("two_more"), "two indexes are replicas"),
    ("an index's name", GOOD + INDEX.replace("by_kind", "By"), "streams.s.index.By.name: a name is 3 to 63 of a-z"),
    (
        "an index over nothing",
        GOOD + INDEX.replace('"kind"', '"a..b"'),
        "index.by_kind.partition_by: name a field of data",
    ),
    ("an index of no suffix", GOOD + INDEX + "shards = 0", "index.by_kind.shards: 0 is not within 1 to 256"),
    ("two indexes of a name", GOOD + 2 * INDEX, "index: two indexes are named 'by_kind'"),
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
        "41 tags; name at most 40",
    ),
    *(
        (
            f"the origin {origin}",
            f'[api]\ncors = ["{origin}"]\n' + GOOD,
            f'api.cors: "{origin}" is not an origin; write scheme',
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
    ("too many topics", notify(*(f"{TOPIC}{n}" for n in range(6))), "an alarm notifies at most 5 topics of its Region"),
    (
        "topics and addresses",
        notify("a@example.com", *(f"{TOPIC}{n}" for n in range(5))),
        "at most 5 topics of its Region, and all e-mail",
    ),
    ("too many addresses", notify(*(f"a{n}@example.com" for n in range(21))), "21 e-mail addresses are more than 20"),
    ("all that is missing", "[streams.s]", "streams.s.retention: missing; add it"),
    (
        "a retention as a duration",
        GOOD.replace("= 3", '= "14d"'),
        "expected `int`, got `str`: write a whole number without",
    ),
    ("a retention in quotes", GOOD.replace("= 3", '= "14"'), "it counts whole periods, such as retention = 14"),
    (
        "an age in quotes",
        ladder('age = "1", write = 1, read = 1'),
        'ladder[0].age: "1" is neither a number nor late: write a whole number without quotes; it counts',
    ),
    ("a half age", ladder("age = 0.5"), "ladder[0].age: expected `int | str`, got `float`: write a whole number"),
    ("a word for an age", ladder('age = "lat"'), '"lat" is neither a number nor late'),
    ("a word that was meant for an age", ladder('age = "lat"'), 'did you mean "late"?'),
    ("an age as a duration", ladder('age = "1d"'), "it counts whole periods since the table closed, such as age = 1"),
    (
        "a switch in quotes",
        '[lifecycle]\ndelete_expired = "yes"' + GOOD,
        "delete_expired: expected `bool`, got `str`: write true",
    ),
    ("a number for a text", GOOD.replace("shards = 4", "shards = 4\nshard_by = 1"), "streams.s.key.shard_by: "),
    ("a duration without a unit", GOOD.replace('"1d"', "1"), 'streams.s.late: expected a duration such as "15m"'),
    (
        "a text for a list",
        GOOD.replace("= 3", '= 3\ncold = "raw"'),
        "streams.s.cold: expected `array`, got `str`: write a list",
    ),
    ("a number for a table", GOOD + "[streams.s.capacity]\nwarm = 5", "capacity.warm: expected `object"),
    (
        "a slip of the pen",
        GOOD.replace("retention", "retension"),
        "streams.s.retension: unknown key; known here: ahead",
    ),
    ("what was meant", GOOD.replace("retention", "retension"), "; did you mean retention?"),
    (
        "a table that was meant",
        GOOD + "[lifecyle]\n",
        "lifecyle: unknown key; known here: api, observability, lifecycle",
    ),
    ("a word that was meant", GOOD.replace('"day"', '"days"'), '; did you mean "day"?'),
    ("a retention beyond all calendars", GOOD.replace("= 3", "= 3_000_000"), "choose at most 36525, or on_expiry"),
    ("a retention of too many digits", GOOD.replace("= 3", "= 99999999999999999999"), "streams.s.retention: "),
    (
        "a retention of many months",
        month(100_000),
        "retention: 100000 month periods are more than 100 years; choose at most 1178",
    ),
    (
        "a late of years",
        GOOD.replace('"1d"', '"9999999d"').replace("= 3", "= 30_000"),
        "raise retention to at least 9999999",
    ),
    (
        "a quota of nothing",
        "[lifecycle]\ntable_quota = 0\n" + GOOD,
        "lifecycle.table_quota: 0 is not within 1 to 10000",
    ),
    (
        "more tables than the quota",
        GOOD.replace("= 3", "= 2500"),
        "tables at once: 2,505 of 2,500 (s 2,505 and growing); lower",
    ),
    ("a body too large", "[api]\nmax_body = 5_000_000\n" + GOOD, "api.max_body: 5000000 is not within"),
]
