"""The feeds of a stage: which records go to which targets, and dead letters that are sent again."""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

import wiring
from aws.feed_records import read_records
from aws.zstd import Zstd
from tests.api.gateway import Context
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tests.worlds.codec import to_wire
from tests.worlds.packing import make_packs
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.errors import BadInvocation, ChangesRefused, NotReady
from tidetable.events import Event
from tidetable.feed import StreamRecord
from tidetable.feed.feeds import Feeds
from tidetable.feed.targets import FeedMessage
from tidetable.layout import Layout, Packing, Ref
from tidetable.periods import Kind, find_containing
from wiring_upkeep import Upkeep

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "tidetable-t.orders.2026-03-01"
ONE, TWO = "arn:aws:sqs:eu-central-1:123456789012:one", "arn:aws:sqs:eu-central-1:123456789012:two"
LAYOUT = Layout("series", 1, "id", pack=Packing(60, 65_536))
TEXT = f"""
[streams.orders]
period = "day"
late = "1d"
retention = 5
key = {{ partition_by = "series" }}
feed = {{ targets = ["{ONE}", "{TWO}"], kinds = ["insert"], where = {{ "total:ge" = "10", "status" = "paid" }} }}
[streams.plain]
period = "day"
late = "1d"
retention = 5
key = {{ partition_by = "series" }}
"""
CONFIG = parse(TEXT)


class Target:
    """A target that takes everything unless it is ``shut``."""

    most_bytes, most_messages, most_together = 10_000, 10, 100_000

    def __init__(self, arn: str) -> None:
        self.arn = arn
        self.shut = False
        self.bodies: list[bytes] = []
        self.requests: list[int] = []

    def send(self, messages: Sequence[FeedMessage]) -> None:
        self.requests.append(len(messages))
        if self.shut:
            raise ChangesRefused("the target is shut", range(len(messages)))
        self.bodies += [message.body for message in messages]


class Letters:
    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        raise AssertionError((stream, target, reason, bodies))


class Stage:
    def __init__(self) -> None:
        self.targets = {arn: Target(arn) for arn in (ONE, TWO)}
        self.catalog = FakeCatalog()
        for name in ("orders", "plain"):
            period = find_containing(NOW, Kind.DAY)
            entry = Entry(name, period, f"tidetable-t.{name}.2026-03-01", LAYOUT, State.OPEN, NOW)
            self.catalog.add(entry)
        self.whole = unpacker(FakeStore(self.catalog), FakeValues())
        self.clock = FakeClock(NOW)
        self.made: list[str] = []
        self.feeds = Feeds(CONFIG, "t", self.catalog, self.whole, Letters(), self.clock, self.make_target)
        self.pipeline = Upkeep(feeds=self.feeds, read_records=read_records, clock=self.clock)

    def make_target(self, arn: str, stream: str) -> Target:
        self.made.append(f"{stream} {arn}")
        return self.targets[arn]

    def taken(self, arn: str) -> list[Any]:
        return [json.loads(body)["id"] for body in self.targets[arn].bodies]


def event(id: str, total: Any = 10, status: str = "paid") -> Event:
    return Event("shop", NOW, id, {"total": total, "status": status})


def as_sent(item: Any, name: str = "INSERT", sequence: str = "1", table: str = TABLE) -> dict[str, Any]:
    """A record as Lambda has it: JSON, in which binary values are Base64."""

    def text(value: Any) -> Any:
        ((kind, inner),) = value.items()
        if kind == "B":
            return {kind: b64encode(inner).decode()}
        if kind == "M":
            return {kind: {name: text(element) for name, element in inner.items()}}
        return value

    image = {name: text(value) for name, value in to_wire(item).items()}
    change = {"NewImage": image, "SequenceNumber": sequence, "ApproximateCreationDateTime": NOW.timestamp()}
    arn = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{table}/stream/2026-03-01T00:00:00.000"
    return json.loads(json.dumps({"eventName": name, "dynamodb": change, "eventSourceARN": arn}))  # type: ignore[no-any-return]


def call(stage: Stage, payload: Any) -> Any:
    from handlers import feed

    with wiring.serve_pipeline(stage.pipeline):
        return feed.handler(payload, Context())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")


def test_records_become_changes_of_the_kinds_and_conditions_of_the_configuration() -> None:
    stage = Stage()
    sent = [event("a"), event("b", 9), event("c", 11, "open"), event("d", 12)]
    items = [LAYOUT.make_item(some, at=1) for some in sent]
    (pack,) = make_packs(items, LAYOUT, Zstd()).packs
    other = LAYOUT.make_item(event("e", Decimal("10.000000000000000000000000000000001")), at=1)
    again = LAYOUT.make_item(event("f"), at=1)
    records = [as_sent(pack.item), as_sent(other, sequence="2"), as_sent(again, "MODIFY", "3")]
    assert call(stage, {"Records": records}) == {"batchItemFailures": []}
    assert stage.taken(ONE) == stage.taken(TWO) == ["a", "d", "e"]
    # Every digit arrives.
    assert b'"total":10.000000000000000000000000000000001' in stage.targets[ONE].bodies[2]


def test_the_first_record_that_fails_is_answered() -> None:
    stage = Stage()
    stage.targets[TWO].shut = True
    records = [as_sent(LAYOUT.make_item(event(id), at=1), sequence=id) for id in "ab"]
    assert call(stage, {"Records": records}) == {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert stage.taken(ONE) == ["a", "b"]


def test_a_batch_that_comes_again_goes_to_the_target_alone_that_did_not_take_it() -> None:
    stage = Stage()
    stage.targets[TWO].shut = True
    records = [as_sent(LAYOUT.make_item(event("a"), at=1))]
    for _ in range(2):
        assert call(stage, {"Records": records}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert stage.taken(ONE) == ["a"]


def test_a_run_is_counted_and_its_lag_is_that_of_its_oldest_record(monkeypatch: pytest.MonkeyPatch) -> None:

    counted: dict[str, tuple[str, float]] = {}
    monkeypatch.setattr(
        "handlers._observe.metrics.add_metric",
        lambda name, unit, value: counted.update({name: (unit.value, value)}),
    )
    stage = Stage()
    records = [as_sent(LAYOUT.make_item(event(id), at=1), sequence=id) for id in "ab"]
    records[1]["dynamodb"]["ApproximateCreationDateTime"] += 30
    stage.clock.sleep(90)
    call(stage, {"Records": records})
    assert counted == {"ChangesDelivered": ("Count", 4), "FeedLag": ("Seconds", 90.0)}
    stage.targets[TWO].shut = True
    call(stage, {"Records": records})
    assert counted["FeedFailures"] == ("Count", 1)
    monkeypatch.setattr(Letters, "bury", lambda *_: None)
    stage.clock.sleep(3_600)
    call(stage, {"Records": records})
    assert counted["ChangesBuried"] == ("Count", 2)
    # A clock of Lambda that is behind that of DynamoDB is no negative lag.
    stage.clock.sleep(-3_700)
    call(stage, {"Records": records[:1]})
    assert counted["FeedLag"] == ("Seconds", 0.0)


def test_five_seconds_of_an_invocation_are_kept_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 seconds are left, of which sending keeps 5 for dead letters: another try would have less than that."""
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 9_999)
    stage = Stage()
    stage.targets[TWO].shut = True
    call(stage, {"Records": [as_sent(LAYOUT.make_item(event("a"), at=1))]})
    assert stage.targets[TWO].requests == [1]


def test_a_change_is_buried_when_it_was_refused_for_the_configured_max_age() -> None:
    """Two hours: neither the default of one, nor the day of late events. They begin with the first failure."""
    stage = Stage()
    buried: list[tuple[str, str]] = []

    class Cemetery:
        def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
            buried.append((stream, target))

    config = parse(TEXT.replace("feed = {", 'feed = { max_age = "2h",'))
    stage.feeds = Feeds(config, "t", stage.catalog, stage.whole, Cemetery(), stage.clock, stage.make_target)
    stage.pipeline = Upkeep(feeds=stage.feeds, read_records=read_records, clock=stage.clock)
    stage.targets[TWO].shut = True
    records = [as_sent(LAYOUT.make_item(event("a"), at=1))]
    stage.clock.sleep(150 * 60)
    for _ in range(2):
        assert call(stage, {"Records": records}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
        assert buried == []
        stage.clock.sleep(119 * 60)
    stage.clock.sleep(2 * 60)
    assert call(stage, {"Records": records}) == {"batchItemFailures": []}
    assert buried == [("orders", TWO)]


def test_records_of_a_stream_without_a_feed_go_nowhere() -> None:
    """Its mappings are about to be removed."""
    stage = Stage()
    records = [
        as_sent(LAYOUT.make_item(event("a"), at=1), table=f"tidetable-t.{name}.2026-03-01")
        for name in ("plain", "gone")
    ]
    for record in records:
        assert call(stage, {"Records": [record]}) == {"batchItemFailures": []}
    assert stage.taken(ONE) == []


def test_an_empty_batch_is_no_failure() -> None:
    assert call(Stage(), {"Records": []}) == {"batchItemFailures": []}


def test_a_table_is_looked_up_once() -> None:
    stage = Stage()
    records = [as_sent(LAYOUT.make_item(event("a"), at=1))]
    call(stage, {"Records": records})
    stage.catalog.entries = None  # type: ignore[method-assign, assignment]
    call(stage, {"Records": records})
    assert stage.taken(ONE) == ["a", "a"]


def test_each_change_names_the_period_of_its_own_table() -> None:
    stage = Stage()
    day = find_containing(NOW + timedelta(days=1), Kind.DAY)
    stage.catalog.add(Entry("orders", day, "tidetable-t.orders.2026-03-02", LAYOUT, State.OPEN, NOW))
    for table in (TABLE, "tidetable-t.orders.2026-03-02"):
        call(stage, {"Records": [as_sent(LAYOUT.make_item(event("a"), at=1), table=table)]})
    refs = [Ref.decode(json.loads(body)["ref"]) for body in stage.targets[ONE].bodies]
    assert [ref.period.label for ref in refs] == ["2026-03-01", "2026-03-02"]


def test_a_target_that_is_out_of_order_for_one_stream_is_waited_for_by_another() -> None:
    stage = Stage()
    buried: list[str] = []
    letters = SimpleNamespace(bury=lambda stream, *_: buried.append(stream))
    config = parse(TEXT.replace("[streams.plain]", f'[streams.plain]\nfeed = {{ targets = ["{ONE}", "{TWO}"] }}'))
    stage.feeds = Feeds(config, "t", stage.catalog, stage.whole, letters, stage.clock, stage.make_target)
    stage.pipeline = Upkeep(feeds=stage.feeds, read_records=read_records, clock=stage.clock)
    stage.targets[TWO].shut = True
    old = [as_sent(LAYOUT.make_item(event(id), at=1), sequence=id) for id in "ab"]
    assert call(stage, {"Records": old}) == {"batchItemFailures": [{"itemIdentifier": "a"}]}
    stage.clock.sleep(3_700)
    assert call(stage, {"Records": old}) == {"batchItemFailures": []}
    assert buried == ["orders"]
    young = as_sent(LAYOUT.make_item(event("b"), at=1), table="tidetable-t.plain.2026-03-01")
    assert call(stage, {"Records": [young]}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert buried == ["orders"]


def test_a_target_is_made_once() -> None:
    """Its client, and the URL of a queue, serve every batch of the process."""
    stage = Stage()
    for _ in range(2):
        call(stage, {"Records": [as_sent(LAYOUT.make_item(event("a"), at=1))]})
    assert stage.made == [f"orders {ONE}", f"orders {TWO}"]


def test_a_dead_letter_goes_to_its_target_alone() -> None:
    stage = Stage()
    changes = ['{"id":"a","n":1.50}', '{"id":"b"}']
    assert call(stage, {"feed": "orders", "target": TWO, "changes": changes}) == {"delivered": 2}
    assert stage.targets[TWO].bodies == [b'{"id":"a","n":1.50}', b'{"id":"b"}']
    assert stage.targets[ONE].bodies == []
    assert stage.targets[TWO].requests == [2], "changes of different events go together"


def test_a_dead_letter_that_is_not_taken_stays_one() -> None:
    stage = Stage()
    stage.targets[TWO].shut = True
    with pytest.raises(NotReady, match="did not take 2 of 2 changes"):
        call(stage, {"feed": "orders", "target": TWO, "changes": ["{}", "{}"]})


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"feed": "none", "target": ONE, "changes": []}, "none is not in the configuration"),
        ({"feed": "plain", "target": ONE, "changes": []}, "plain has no such target"),
        ({"feed": "orders", "target": "arn:other", "changes": []}, "no such target: arn:other"),
        ({"feed": "plain", "changes": []}, "it has no feed"),
        ({"feed": "orders", "changes": ["{'table': 'x'}"]}, "must name records"),
        (
            {"feed": "orders", "changes": ['{"table":"t","pk":"p","sk":"s","kind":"remove","sequence":"1"}']},
            "an insert",
        ),
        ({"feed": "orders", "target": ONE, "changes": {}}, "list of texts"),
        ({"feed": "orders", "target": ONE, "changes": [{}]}, "list of texts"),
        ({"feed": "orders", "target": ONE}, "list of texts"),
    ],
)
def test_a_dead_letter_that_cannot_be_sent_says_why(payload: Any, message: str) -> None:
    with pytest.raises(BadInvocation, match=message):
        call(Stage(), payload)


def test_a_record_says_kind_table_and_time() -> None:
    item = LAYOUT.make_item(event("a"), at=1)
    removal = as_sent(item, "REMOVE", "2")
    del removal["dynamodb"]["NewImage"]
    first, second = read_records({"Records": [as_sent(item), removal]})
    # The last is the beginning of the change stream, 2026-03-01T00:00:00.
    assert first == StreamRecord("1", "insert", TABLE, item, NOW, 1_772_323_200_000)
    assert second == StreamRecord("2", None, TABLE, None, NOW, 1_772_323_200_000)


def test_a_change_stream_whose_label_is_no_time_has_no_beginning() -> None:
    """The label of an emulator. Only the order of two streams of the same period would need it."""
    sent = as_sent(LAYOUT.make_item(event("a"), at=1))
    sent["eventSourceARN"] = sent["eventSourceARN"].rpartition("/")[0] + "/latest"
    assert [record.begun for record in read_records({"Records": [sent]})] == [0]


def test_binary_values_of_a_record_are_bytes_wherever_they_are() -> None:
    image = {
        "pk": {"S": "shop#0"},
        "pack": {"B": "AAE="},
        "list": {"L": [{"B": "/w=="}, {"N": "1.50"}]},
        "map": {"M": {"inner": {"L": [{"B": "AAE="}]}}},
        "set": {"BS": ["AAE=", "/w=="]},
    }
    change = {"NewImage": image, "SequenceNumber": "1", "ApproximateCreationDateTime": NOW.timestamp()}
    arn = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{TABLE}/stream/2026-03-01T00:00:00.000"
    (record,) = read_records({"Records": [{"eventName": "INSERT", "dynamodb": change, "eventSourceARN": arn}]})
    assert record.item == {
        "pk": "shop#0",
        "pack": b"\x00\x01",
        "list": [b"\xff", Decimal("1.50")],
        "map": {"inner": [b"\x00\x01"]},
        "set": {b"\x00\x01", b"\xff"},
    }
