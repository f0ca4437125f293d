"""The needs and warnings of a configuration: tables, quotas, advice, tags and keys."""

from pathlib import Path

import pytest

from tests.worlds.configs import GOOD, index, ladder, month
from tidetable.config import load, parse
from tidetable.config.demand import describe_tables, give_advice, list_demands, list_remarks
from tidetable.errors import ConfigError

SWITCHED = '[lifecycle]\ndelete_expired = true\ndelete_grace = "1d"\n'


DEMANDS = [
    # Three days that are kept and the day of grace, the present one, two ahead, and one that leaves while the next begins.
    ("days", SWITCHED + GOOD, [("s", 8, 0)]),
    ("no grace for what is not archived", SWITCHED + GOOD.replace("= 3", '= 3\non_expiry = "delete"'), [("s", 7, 0)]),
    ("a table of parts beside each", SWITCHED + GOOD.replace("= 3", '= 3\ncold = ["raw"]'), [("s", 16, 0)]),
    ("hours", SWITCHED + GOOD.replace('"day"', '"hour"').replace("6h", "1h").replace('"1d"', '"2h"'), [("s", 31, 0)]),
    # Events of the next 24 hours are accepted, so tables of 24 more hours exist.
    (
        "hours ahead",
        SWITCHED + GOOD.replace('"day"', '"hour"').replace("6h", "1h").replace('"1d"', '"2h"\nahead = "1d"'),
        [("s", 55, 0)],
    ),
    ("a day ahead", SWITCHED + GOOD.replace("= 3", '= 3\nahead = "1d"'), [("s", 9, 0)]),
    # Three months of 28 days and a day: four, the present one, two ahead, one that leaves.
    ("months", SWITCHED + month(3), [("s", 8, 0)]),
    ("never deleted", GOOD, [("s", 8, 365)]),
    ("kept", SWITCHED + GOOD.replace("= 3", '= 3\non_expiry = "keep"'), [("s", 7, 365)]),
]


@pytest.mark.parametrize(("name", "text", "needed"), DEMANDS)
def test_the_tables_that_a_configuration_needs_at_once(
    name: str, text: str, needed: list[tuple[str, int, int]]
) -> None:
    assert [(need.stream, need.tables, need.yearly) for need in list_demands(parse(text))] == needed


def test_a_raised_quota_lets_more_tables_be() -> None:
    many = SWITCHED + "table_quota = 2505\n" + GOOD.replace("= 3", "= 2500")
    assert describe_tables(parse(many)) == "tables at once: 2,505 of 2,505 (s 2,505)"
    with pytest.raises(ConfigError, match="have AWS raise the quota"):
        parse(many.replace("2505", "2504"))


def two_steps(age: int) -> str:
    return ladder("age = 0, write = 1, read = 1", f"age = {age}, write = 1, read = 1")


KEPT = two_steps(99).replace("= 3", '= 3\non_expiry = "keep"')

# Of the bucket of 6 hours each of the four suffixes gets a quarter of the units, 1 KB each.
LOCAL = ladder("age = 0, write = 1, read = 1") + index('sort_by = "n"\nlocal = true')
LIMITED = GOOD + index('sort_by = "n"\nlocal = true') + "[streams.s.capacity]\nmax = { write = 8000, read = 1 }"
SCALED = "[streams.s.capacity.autoscaling]\nwrite = { min = 1, max = 2500 }"


def many_streams(count: int) -> str:
    """Streams that need few tables each."""
    others = [GOOD.replace("streams.s", f"streams.n{number}") for number in range(count - 1)]
    return GOOD + "".join(others)


ADVICE = [
    ("nothing to say", SWITCHED + GOOD, None),
    ("a burst below the rate", SWITCHED + "[api]\nrate = 50\nburst = 10\n" + GOOD, "api.burst: 10 is less than the rate of 50"),
    ("no grace", SWITCHED.replace("1d", "0s") + GOOD, 'lifecycle.delete_grace: with "0s" a table is deleted by the run'),
    ("a step that no table reaches", SWITCHED + two_steps(5), "(age = 5): no table gets so old"),
    ("a step that the oldest reaches", SWITCHED + two_steps(4), None),
    ("a step that tables reach as none goes", SWITCHED + KEPT, "never deleted"),
    ("tables that never go", GOOD, "365 more per year, so that the quota of 2,500 is reached in about 2,492 days"),
    ("near the quota", SWITCHED + GOOD.replace("= 3", "= 2000"), "2,005 tables at once are near the quota of 2,500"),
    ("an index for nothing", SWITCHED + GOOD + index('partition_by = "*"'), 'own: a stream partitioned by "time" answers'),
    ("a local index", SWITCHED + LOCAL, None),
    ("a local index of a long bucket", SWITCHED + LOCAL.replace("write = 1,", "write = 3000,"), "may get 15 GB, and with a"),
    ("a local index that grows", SWITCHED + LOCAL + SCALED, "2,500 write units per second a suffix of a bucket of 6h may get 13"),
    ("a local index on demand", SWITCHED + GOOD + index('sort_by = "n"\nlocal = true'), None),
    ("a local index on demand up to a maximum", SWITCHED + LIMITED, "17 shards suffice"),
    ("a ranking", SWITCHED + GOOD + index('partition_by = "*"\nsort_by = "mag"'), None),
    ("many streams, which are no resources of the stack", SWITCHED + many_streams(106), None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), ADVICE)
def test_what_is_hardly_meant_is_advised_against(name: str, text: str, message: str | None) -> None:
    hints = give_advice(parse(text))
    assert (len(hints), message or "") == (0 if message is None else 1, message or "")
    assert message is None or message in hints[0]


def test_synthesis_tells_the_tables_first_and_then_what_is_hardly_meant() -> None:
    first, second = list_remarks(parse(SWITCHED + "[api]\nrate = 50\nburst = 10\n" + GOOD))
    assert first == "tables at once: 8 of 2,500 (s 8)"
    assert second.startswith("warning: api.burst: 10 is less than the rate of 50")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory: name the file in it"):
        load(tmp_path)
    file = tmp_path / "tidetable.toml"
    file.write_text(GOOD, encoding="utf-16")
    with pytest.raises(ConfigError, match="is not UTF-8: save it in that encoding"):
        load(file)
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert list(load(file).streams) == ["s"]


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
