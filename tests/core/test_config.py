"""The configuration: every problem names its key and its fix."""

from pathlib import Path

import pytest

from tests.worlds.config_problems import CASES
from tests.worlds.configs import GOOD, TOPIC, notify
from tidetable.config import load, parse
from tidetable.errors import ConfigError

ROOT = Path(__file__).parents[2]


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
    # An alarm notifies only the topics of its own Region.
    parse(
        notify(*(f"arn:aws:sns:{region}:123456789012:t{n}" for region in ("eu-west-1", "us-east-1") for n in range(5)))
    )


def test_origins_are_schemes_hosts_and_ports() -> None:
    origins = ("https://app.example.com", "http://localhost:3000", "https://xn--bcher-kva.example")
    assert parse(f"[api]\ncors = {list(origins)}\n" + GOOD).api.cors == origins
    assert parse('[api]\ncors = ["*"]\n' + GOOD).api.cors == ("*",)
    assert parse(GOOD).api.cors == ()


def test_every_missing_key_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[streams.s]\nperiod = 'day'\nretension = 3\n[[streams.s.index]]\nshards = '2'\n[streams.t]\nlate = 1\n")
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        "streams.s.retension", "streams.s.late", "streams.s.retention", "streams.s.key",
        "streams.s.index[0].name", "streams.s.index[0].shards",
        "streams.t.period", "streams.t.late", "streams.t.retention", "streams.t.key",
    ]  # fmt: skip


def test_the_example_is_valid_and_has_a_stream_of_each_layout() -> None:
    config = load(ROOT / "tidetable.toml")
    assert {stream.layout.partition_by for stream in config.streams.values()} == {"time", "series"}


def test_a_file_that_does_not_exist_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "tidetable.toml")
