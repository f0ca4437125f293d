"""A configuration that is changed, read again, or recorded: its problems, and what stays as it was."""

from pathlib import Path
from typing import Any

import pytest

from tests.worlds.edges import STREAM
from tidetable.config import load, parse
from tidetable.config.load import change_stream
from tidetable.config.record import parse_policy, render_policy
from tidetable.errors import ConfigError

ROLLUP = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nretention = "30d"\n'
OTHER = STREAM.replace("streams.s", "streams.t")


def find_problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    return list(refused.value.problems)


def test_a_changed_key_takes_the_place_of_the_key_and_all_below_it() -> None:
    config = parse(STREAM + '[streams.s.large]\ncompress_above = 2048\nbeyond = "s3"\n' + ROLLUP + OTHER)
    changed = change_stream(config, "s", {"retention": 9, "large": {"beyond": "chunks"}, "pack": {"span": "1m"}})
    stream = changed.streams["s"]
    assert (stream.name, stream.retention, str(stream.late), stream.key.shards) == ("s", 9, "1d", 4)
    assert (stream.large.beyond, stream.large.compress_above) == ("chunks", None)
    assert (str(stream.pack.span) if stream.pack else "", len(stream.rollup)) == ("1m", 1)
    assert sorted(changed.streams) == ["s", "s-hours", "t"]
    assert changed.streams["t"] == config.streams["t"]
    assert config.streams["s"].retention == 3


def test_a_key_that_is_false_is_removed_with_what_follows_from_it() -> None:
    config = parse(STREAM + ROLLUP)
    changed = change_stream(config, "s", {"rollup": False, "versions": False})
    assert sorted(changed.streams) == ["s"]
    assert (changed.streams["s"].rollup, changed.streams["s"].versions) == ((), "overwrite")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"retention": 0}, "streams.s.retention: 0 is too few; keep at least 1 whole period"),
        ({"retention": False}, "streams.s.retention: missing"),
        ({"nonsense": 1}, "streams.s.nonsense: unknown key; known here: ahead"),
        ({"late": "1w"}, 'streams.s.late: "1w" is not a duration'),
        ({"name": "t"}, "streams.s.name: unknown key; the stream is called by its table, [streams.s]"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_key(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        change_stream(parse(STREAM), "s", changes)
    (found,) = refused.value.problems
    assert found[: len(problem)] == problem


def test_a_stream_has_its_name_from_its_table_alone() -> None:
    assert find_problems(STREAM.replace("late", 'name = "x"\nlate')) == [
        "streams.s.name: unknown key; the stream is called by its table, [streams.s]"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "stream = 1\n" + STREAM,
            "stream: unknown key; known here: api, observability, lifecycle, work, storage, archive, lake, doors,",
        ),
        ("streams = 1\n", "streams: none is defined; add at least one [streams.NAME]"),
        ("[streams]\ns = 1\n", "streams.s: expected `object`, got `int`: write a table, { key = value }"),
        ("api = 1\n" + STREAM, "api: expected `object`, got `int`: write a table, { key = value }"),
        ("[api]\ncors = 1\n" + STREAM, "api.cors: expected `array`, got `int`: write a list, [...]"),
        (
            "[api]\nburst = 1.5\n" + STREAM,
            "api.burst: expected `int`, got `float`: write a whole number without quotes",
        ),
        ('[api]\nrate = "1"\n' + STREAM, "api.rate: expected `float`, got `str`: write a number without quotes"),
        (
            "[api]\nconsole = 1\n" + STREAM,
            "api.console: expected `bool`, got `int`: write true or false, without quotes",
        ),
        (
            "[storage]\nencryption = 1\n" + STREAM,
            "storage.encryption: expected `str`, got `int`: write a text in quotes",
        ),
        (
            '[api]\nauth = "api-keys"\n' + STREAM,
            'api.auth: "api-keys" is none of api-key, iam; did you mean "api-key"?',
        ),
        (
            "[api]\nrates = 1\n" + STREAM,
            "api.rates: unknown key; known here: auth, burst, concurrency, console, cors, key_burst,",
        ),
        (STREAM.replace("= 3", '= "3d"'), "retention = 14"),
        (STREAM.replace("= 3", '= 3\npremake = "2"'), "it counts whole periods, such as premake = 2"),
        (
            STREAM + '[streams.s.capacity]\nladder = [{ age = "latest" }]\n',
            "neither a number nor late: write a whole number without quotes; it counts whole periods since the table closed",
        ),
        (
            STREAM + "[streams.s.table]\ntags = { a = 1 }\n",
            "streams.s.table.tags.a: expected `str`, got `int`: write a text in quotes",
        ),
        (
            STREAM + '[streams.s.table]\ntags = "a"\n',
            "streams.s.table.tags: expected `object`, got `str`: write a table, { key = value }",
        ),
        (
            STREAM + '[streams.s.capacity]\nladder = [{ age = 0, index = { x = { write = "1", read = 1 } } }]\n',
            "streams.s.capacity.ladder[0].index.x.write: expected `int`, got `str`: write a whole number without quotes",
        ),
        (STREAM.replace("late = ", "ahead = 5\nlate = "), "streams.s.ahead: expected a duration such as"),
    ],
)
def test_a_value_of_another_type_is_explained(text: str, problem: str) -> None:
    (found,) = find_problems(text)
    assert problem in found


def test_a_file_that_was_checked_before_is_only_read(tmp_path: Path) -> None:
    file = tmp_path / "tidetable.toml"
    file.write_text(STREAM.replace("shards = 4", "shards = 999"))
    assert load(file, checked=True).streams["s"].key.shards == 999
    with pytest.raises(ConfigError, match="shards: 999 is not within 1 to 256"):
        load(file)


def test_a_path_behind_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"tidetable\.toml cannot be read: Not a directory"):
        load(tmp_path / "file" / "tidetable.toml")


@pytest.mark.parametrize("text", ["", "{}", '{"period":"day"}', "[]"])
def test_a_recorded_policy_that_cannot_be_read_says_what_to_do(text: str) -> None:
    with pytest.raises(ConfigError, match=r"policy of the removed stream s cannot be read.*add \[streams.s\] again"):
        parse_policy("s", text)


def test_a_recorded_policy_has_the_name_under_which_it_is_recorded() -> None:
    policy = parse(STREAM).streams["s"]
    assert parse_policy("t", render_policy(policy)).name == "t"
