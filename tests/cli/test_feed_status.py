"""``status`` says of each feed how many open tables are read, and what waits in the queue of dead letters."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import common
from cli.account import Account
from cli.backlog import describe_feeds
from tests.fakes.stage import Stage
from tests.worlds.commands import run
from tests.worlds.hours import CONFIG
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.ports.feeds import StreamMapping

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:changes"
FED = CONFIG.replace("late =", f'feed = {{ targets = ["{QUEUE}"] }}\nlate =')
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, "ListEventSourceMappings")


class Services:
    """Lambda's and SQS's client: the mappings of the function ``feed``, and the length of the queue ``changes``."""

    def __init__(self, mappings: Any = (), waiting: int = 0) -> None:
        self.mappings = mappings
        self.waiting = waiting
        self.fails = False
        self.requests = 0

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_event_source_mappings"
        return self

    def paginate(self, FunctionName: str) -> Any:  # noqa: N803 - boto3's names
        assert FunctionName == "feed"
        self.requests += 1
        if self.fails:
            raise DENIED
        return [{"EventSourceMappings": [self._document(mapping) for mapping in self.mappings]}]

    def _document(self, mapping: StreamMapping) -> Any:
        return {"UUID": mapping.id, "EventSourceArn": mapping.source, "State": mapping.state}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: list[str]) -> Any:  # noqa: N803 - boto3's names
        if QueueUrl in ("overflow", "dead"):
            return {"Attributes": dict.fromkeys(AttributeNames, "0")}
        assert (QueueUrl, AttributeNames) == ("changes", ["ApproximateNumberOfMessages"])
        self.requests += 1
        return {"Attributes": {"ApproximateNumberOfMessages": str(self.waiting)}}


@pytest.fixture
def services(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Services:
    """The stage with a feed, after two runs: every open table is mapped."""
    stage.config = parse(FED)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(60)
    services = Services(stage.mappings.list())
    file = tmp_path / "feed.toml"
    file.write_text(FED)
    monkeypatch.setenv("TIDETABLE_CONFIG", str(file))
    queues = {"OverflowQueueUrl": "overflow", "DeadLetterQueueUrl": "dead", "FeedDeadLetterQueueUrl": "changes"}
    account = Account(stage.pipeline, queues | {"FeedFunction": "feed"}, services, services)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    return services


def open_tables(stage: Stage) -> int:
    return sum(entry.state is State.OPEN for entry in stage.catalog.entries("s", consistent=True))


def test_a_feed_that_reads_every_open_table(stage: Stage, services: Services) -> None:
    count = open_tables(stage)
    assert count >= 3
    output = run("status", "--no-metrics").output
    assert f"feed of s: {count} of {count} open tables are read" in output
    assert "dead letters" not in output


def test_a_table_that_is_not_read_and_letters_that_wait(stage: Stage, services: Services) -> None:
    first, _, *others = services.mappings
    services.mappings, services.waiting = [first._replace(state="Disabled"), *others], 7
    count = open_tables(stage)
    output = run("status", "--no-metrics").output
    assert f"feed of s: {count - 2} of {count} open tables are read" in output
    assert "about 7 messages of dead letters of feeds wait: tidetable replay --feed" in output


def test_without_the_rights_the_tables_are_shown_with_a_remedy(stage: Stage, services: Services) -> None:
    services.fails = True
    result = run("status", "--no-metrics")
    assert result.exit_code == 0
    assert "allow lambda:ListEventSourceMappings and sqs:GetQueueAttributes" in result.stderr
    assert "periods, $" in result.output


def test_json_has_the_tables_alone_and_asks_for_no_feed(stage: Stage, services: Services) -> None:
    assert {row["stream"] for row in json.loads(run("status", "--no-metrics", "--json").stdout)} == {"s"}
    assert services.requests == 0


def test_a_stage_without_the_function_of_feeds_is_asked_nothing(stage: Stage, services: Services) -> None:
    """It was deployed before its configuration had a feed."""
    account = Account(stage.pipeline, {}, services, services)
    entries = [entry for entry in stage.catalog.entries("s") if entry.state is State.OPEN]
    periods: Any = [SimpleNamespace(entry=entry) for entry in entries]
    assert (len(entries) > 0, list(describe_feeds(account, parse(FED), periods)), services.requests) == (True, [], 0)
