"""What a deploy refuses before it changes anything: names whose tables hold something else, and copies left to nobody."""

from datetime import timedelta

import pytest

from tests.fakes.stage import Stage
from tests.worlds.copied import DAYS, IRELAND, TOKYO, made, run, text
from tests.worlds.deploys import CONFIG, NOON
from tidetable.config import parse
from tidetable.lifecycle.deploy import Deployed, deploy

ROLLUP = """
[[streams.{source}.rollup]]
name = "{name}"
every = "1h"
retention = "30d"
"""
STREAM = """
[streams.{name}]
period = "day"
late = "1d"
retention = 2
on_expiry = "delete"
[streams.{name}.key]
partition_by = "series"
"""
ROLLED = CONFIG + ROLLUP.format(source="s", name="hours")
SENT = CONFIG + STREAM.format(name="s-hours")
# Two rollups whose streams have the same name.
TWO = CONFIG + STREAM.format(name="s-a")
OF_LONGER, OF_SHORTER = TWO + ROLLUP.format(source="s-a", name="b"), TWO + ROLLUP.format(source="s", name="a-b")


def deployed(stage: Stage, configuration: str) -> Deployed:
    stage.config = parse(configuration)
    end = stage.clock.now() + timedelta(seconds=300)
    return deploy(
        stage.begin_run("deploy", lambda: (end - stage.clock.now()).total_seconds()), configuration, first=False
    )


def expire(stage: Stage, configuration: str, stream: str) -> None:
    """Run the lifecycle until a stream that left the configuration has no table any more."""
    stage.config = parse(configuration)
    for _ in range(6):
        stage.clock.sleep(86_400)
        while stage.run_lifecycle().done:
            stage.clock.sleep(60)
    assert not any(entry.live for entry in stage.catalog.entries(stream, consistent=True))


EVENTS = "events that were sent"


@pytest.mark.parametrize(
    ("before", "after", "name", "held", "wanted", "kind"),
    [
        pytest.param(SENT, ROLLED, "s-hours", EVENTS, "a rollup of s", "rollup", id="a stream becomes a rollup"),
        pytest.param(ROLLED, SENT, "s-hours", "a rollup of s", EVENTS, "stream", id="a rollup becomes a stream"),
        pytest.param(
            OF_LONGER, OF_SHORTER, "s-a-b", "a rollup of s-a", "a rollup of s", "rollup", id="of another stream"
        ),
    ],
)
def test_a_name_that_would_hold_something_else_is_refused(
    before: str, after: str, name: str, held: str, wanted: str, kind: str
) -> None:
    why = f"{name}: its tables or archives hold {held}, and the configuration makes it {wanted}: give the {kind} another name"
    stage = Stage(NOON, before)
    assert deployed(stage, before).failure is None
    tables, policies = set(stage.dynamo.account.tables), list(stage.catalog.list_policies())
    refused = deployed(stage, after)
    assert (refused.failure, refused.reports) == (why, [])
    assert (set(stage.dynamo.account.tables), list(stage.catalog.list_policies())) == (tables, policies)
    # CloudFormation rolls back.
    assert deployed(stage, before).failure is None


def test_a_name_is_free_again_when_its_last_table_is_gone() -> None:
    stage = Stage(NOON, SENT)
    assert deployed(stage, SENT).failure is None
    assert deployed(stage, CONFIG).failure is None
    assert "give the rollup another name" in str(deployed(stage, ROLLED).failure)
    expire(stage, CONFIG, "s-hours")
    # The table of rollups, which a stage without any does not have, is not what this is about.
    assert "another name" not in str(deployed(stage, ROLLED).failure)


def test_copies_that_the_functions_could_not_delete_any_more_are_refused() -> None:
    stage = made(IRELAND, TOKYO)
    run(stage, 6)
    first, second, *_ = stage.catalog.entries("s", consistent=True)
    stage.catalog.note_far(first)
    stage.catalog.set_horizon("s", second.period.start)
    alone = text()
    refused = deployed(stage, alone)
    remedy = f'write former_regions = ["{TOKYO}", "{IRELAND}"] under [storage] until these tables are deleted'
    named = f"have copies in {TOKYO}, {IRELAND}, and the configuration names no Region any more: {remedy}"
    assert refused.failure == f"{len(DAYS)} tables {named}"
    assert refused.reports == []
    # A stream that goes leaves its copies, too.
    other = STREAM.format(name="other")
    assert "names no Region any more" in str(deployed(stage, other).failure)
    former = f'[storage]\nformer_regions = ["{IRELAND}", "{TOKYO}"]\n'
    assert deployed(stage, alone + former).failure is None
    assert deployed(stage, other + former).failure is None


KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
OTHER_KEY = KEY.replace("1111", "9999")
ENCRYPTED = """
[streams.{name}.table]
encryption = "{key}"
"""


@pytest.mark.parametrize("after", ["", ENCRYPTED.format(name="t", key=OTHER_KEY)], ids=["default key", "another key"])
def test_a_key_that_leaves_while_tables_are_encrypted_with_it_is_refused(after: str) -> None:
    both = CONFIG + STREAM.format(name="t")
    before = both + ENCRYPTED.format(name="t", key=KEY)
    stage = Stage(NOON, before)
    assert deployed(stage, before).failure is None
    refused = deployed(stage, both + after)
    assert refused.failure == (
        f"the tables of t are encrypted with {KEY}, and the configuration does not name this key any more: add it to"
        " former_keys under [storage] until these tables are deleted"
    )
    assert refused.reports == []
    former = f'[storage]\nformer_keys = ["{KEY}"]\n'
    assert deployed(stage, both + after + former).failure is None


def test_the_key_of_a_stream_that_leaves_with_tables_is_missed() -> None:
    before = CONFIG + STREAM.format(name="t") + STREAM.format(name="u")
    before += ENCRYPTED.format(name="t", key=KEY) + ENCRYPTED.format(name="u", key=KEY)
    stage = Stage(NOON, before)
    assert deployed(stage, before).failure is None
    assert str(deployed(stage, CONFIG).failure).startswith(f"the tables of t, u are encrypted with {KEY}, and")
    # Another stream that goes on to use the key keeps the rights on it.
    one = CONFIG + STREAM.format(name="t") + ENCRYPTED.format(name="t", key=KEY)
    assert deployed(stage, one).failure is None


def test_the_key_of_tables_that_are_deleted_may_leave() -> None:
    former = f'[storage]\nformer_keys = ["{KEY}"]\n'
    before = CONFIG + STREAM.format(name="t") + ENCRYPTED.format(name="t", key=KEY)
    stage = Stage(NOON, before)
    assert deployed(stage, before).failure is None
    assert deployed(stage, CONFIG + former).failure is None
    assert "former_keys" in str(deployed(stage, CONFIG).failure)
    expire(stage, CONFIG + former, "t")
    assert deployed(stage, CONFIG).failure is None
