"""The example with alerts: one message per crossing of the limit, whatever comes twice, late or not at all."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import pytest

from examples.alerts.target import Crossings, publish_alerts
from local.dynamodb_local import DynamoDBLocal
from local.stack import make_aws_client
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.stage import Stage
from tests.worlds.configs import ROOT
from tidetable.catalog import Entry, State
from tidetable.config import load
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.feed import ChangeReader, StreamRecord
from tidetable.periods import Kind, find_containing
from tidetable.where import read_feed_conditions

NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)
FOLDER = ROOT / "examples" / "alerts"
README = (FOLDER / "README.md").read_text()
STREAM = load(FOLDER / "tidetable.toml").streams["telemetry"]
LIMIT = 80.0
_numbers = count()


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    with DynamoDBLocal() as started:
        yield started.endpoint


class Topic:
    """SNS's client; it publishes nothing while it is ``shut``."""

    def __init__(self) -> None:
        self.shut = False
        self.messages: list[str] = []

    def publish(self, TopicArn: str, Subject: str, Message: str) -> None:  # noqa: N803 - boto3's names
        if self.shut:
            raise ConnectionError
        assert TopicArn == "topic"
        assert len(Subject) <= 100
        self.messages.append(Message)


@pytest.fixture
def crossings(local: str) -> Crossings:
    """What the function remembers, in the table of the README."""
    (command,) = re.findall(r"aws dynamodb create-table ((?:.*\\\n)?.*)$", README, re.MULTILINE)
    name, attribute, key = re.findall(r"--table-name (\S+)|AttributeName=series,(\S+)", command)
    assert (attribute[1], key[1]) == ("AttributeType=S", "KeyType=HASH")
    client = make_aws_client(local, "dynamodb")
    table = f"{name[0]}-{next(_numbers)}"
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "series", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "series", "KeyType": "HASH"}],
    )
    return Crossings(client, table)


def change(minute: int, temp: Any, series: str = "d2", sequence: str = "5") -> dict[str, Any]:
    time = f"{NOON + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%S.%fZ}"
    return {"series": series, "time": time, "id": f"r{minute}", "sequence": sequence, "data": {"temp": temp}}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_states_of_a_reading_the_later_accepted_counts_in_whatever_order_they_come(
    crossings: Crossings, order: tuple[int, int]
) -> None:
    """In a stream with packs both are inserts, and have no order. 91 was corrected to 71, so the next 90 is a crossing."""
    topic = Topic()
    states = [change(1, 91, sequence="1"), change(1, 71, sequence="2")]
    alerts([change(0, 70)], crossings, topic)
    for number in order:
        alerts([states[number]], crossings, topic)
    before = len(topic.messages)
    assert alerts([change(2, 90)], crossings, topic) == 1
    assert before == (1 if order == (0, 1) else 0)


def alerts(changes: list[dict[str, Any]], crossings: Crossings, topic: Topic) -> int:
    return publish_alerts(changes, LIMIT, crossings, topic, "topic")


def test_an_alert_is_published_when_the_limit_is_reached_and_again_after_the_value_was_below(
    crossings: Crossings,
) -> None:
    topic = Topic()
    values = [70, 79.99, 80, 95, 81, 79, 90, 12, 13]
    assert alerts([change(minute, value) for minute, value in enumerate(values)], crossings, topic) == 2
    assert topic.messages == [
        "d2: temp is 80 at 2026-03-31T12:02:00.000000Z, the limit is 80",
        "d2: temp is 90 at 2026-03-31T12:06:00.000000Z, the limit is 80",
    ]


def test_a_first_reading_above_the_limit_is_a_crossing_and_each_series_has_its_own(crossings: Crossings) -> None:
    topic = Topic()
    assert alerts([change(0, 90), change(0, 90, "d3"), change(1, 91), change(1, 70, "d3")], crossings, topic) == 2
    assert [message[:2] for message in topic.messages] == ["d2", "d3"]


@pytest.mark.parametrize("seed", range(5))
def test_changes_that_come_twice_and_late_make_no_second_alert(crossings: Crossings, seed: int) -> None:
    topic, random = Topic(), Random(seed)
    waves = [change(minute, 90 if minute // 10 % 2 else 70) for minute in range(100)]
    for start in range(0, 100, 10):
        some = waves[start : start + 10] * 2 + waves[max(0, start - 25) : start]
        random.shuffle(some)
        alerts(some, crossings, topic)
    assert len(topic.messages) == 5
    alerts(waves, crossings, topic)
    assert len(topic.messages) == 5


def test_a_topic_that_fails_loses_the_alert_and_no_crossing_has_two(crossings: Crossings) -> None:
    topic = Topic()
    topic.shut = True
    with pytest.raises(ConnectionError):
        alerts([change(0, 90)], crossings, topic)
    topic.shut = False
    assert alerts([change(0, 90), change(1, 91)], crossings, topic) == 0
    assert alerts([change(2, 70), change(3, 91)], crossings, topic) == 1


def test_a_change_without_its_data_or_its_temperature_is_passed_over(crossings: Crossings) -> None:
    assert alerts([{**change(0, 90), "data": None}, change(1, None), change(2, "hot")], crossings, Topic()) == 0


@pytest.mark.parametrize(
    ("data", "kind", "passes"),
    [
        ({"temp": 91.5, "ok": True}, "insert", True),
        ({"temp": 20, "ok": True}, "insert", True),
        ({"temp": 91.5, "ok": False}, "insert", False),
        ({"ok": True}, "insert", False),
        ({"temp": 91.5, "ok": True}, "replace", False),
    ],
)
def test_the_feed_passes_new_readings_of_sensors_that_work(data: Any, kind: Any, passes: bool) -> None:
    assert STREAM.feed is not None
    entry = Entry("telemetry", find_containing(NOON, Kind.DAY), "table", STREAM.layout, State.OPEN, NOON)
    whole = unpacker(FakeStore(FakeCatalog()), FakeValues())
    reader = ChangeReader(whole, frozenset(STREAM.feed.kinds), read_feed_conditions(STREAM, STREAM.feed.where))
    record = StreamRecord(
        "1", kind, "table", STREAM.layout.make_item(Event("d2", NOON, "r1", decode_json(json.dumps(data))), at=1), NOON
    )
    assert bool(reader.read(record, entry)) is passes


def test_the_event_of_the_readme_is_taken_and_makes_an_alert(crossings: Crossings) -> None:
    ((stream, body),) = re.findall(r"/streams/(\w+)/events\" \\\n +-d '(.*)'$", README, re.MULTILINE)
    stage = Stage(NOON, (FOLDER / "tidetable.toml").read_text())
    stage.run_lifecycle()
    stage.clock.sleep(60)
    assert stage.send(stream, body.encode()).accepted == 1
    assert alerts([{**change(0, 0), "data": json.loads(body)["data"]}], crossings, Topic()) == 1
