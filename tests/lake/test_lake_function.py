"""The function of the Iceberg tables: its schedule, its messages, its records and its metrics."""

import importlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.lakes import LakeWorld, Row
from tidetable.errors import BadInvocation
from tidetable.lake.lake_work import name_archived
from tidetable.work.claim import ItemName, Pause
from wiring_upkeep import Upkeep

DAY = "2026-03-01"
TABLE = ItemName("table", "quakes")
OTHER = '[streams.other-one]\nperiod = "day"\nlate = "1h"\nretention = 2\nkey = { partition_by = "series" }\n'


class Function:
    """The function with the tables of a world, its records and its queue."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._handler = importlib.import_module("handlers.lake").handler
        self.world = LakeWorld(folder, archive='columns = { mag = "integer" }')
        self.world.archive(DAY, [Row(0, "a", "1", {"mag": 3})])
        self.work, self.queue, self.counted = FakeWork(), FakeWorkQueue(), dict[str, float]()
        monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, n: self.counted.update({name: n}))

    def call(self, **event: Any) -> Any:
        world = self.world
        pipeline = Upkeep(
            config=world.config,
            clock=world.clock,
            work=self.work,
            work_queue=self.queue,
            lake_tables=world.make_tables(),
            lake=world.make_reconciler(),
        )
        self.counted.clear()
        with wiring.serve_pipeline(pipeline):
            return self._handler(event, Context())

    def deliver(self, body: str = "") -> Any:
        body = body or json.dumps(self.queue.messages.pop(0)._asdict())
        return self.call(Records=[{"messageId": "m", "body": body}])

    def find_problem(self) -> str:
        (record,) = self.work.list_items("table")
        return record.problem


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    settings.read_settings.cache_clear()
    yield Function(tmp_path, monkeypatch)
    settings.read_settings.cache_clear()


def test_each_hour_a_worker_per_stream_is_woken_and_tables_of_other_streams_go(function: Function) -> None:
    function.world.configure("day", "", OTHER)
    function.work.claim("table", "gone", "w", function.world.clock.now(), function.world.clock.now())
    table = {"Name": "old", "Parameters": {"tidetable.digest": "1"}}
    function.world.glue.create_table(DatabaseName="tidetable_dev", TableInput=table)
    assert function.call(source="schedule") == {"due": 2, "running": 0, "sent": 2, "dropped": ["old"]}
    assert function.queue.messages == [TABLE, ItemName("table", "other-one")]
    assert {item.name for item in function.work.list_items("table")} == {"quakes", "other-one"}
    assert function.call(source="schedule")["sent"] == 0
    function.world.move(minutes=15)
    assert function.call(source="schedule")["sent"] == 2


def test_a_worker_reconciles_the_table_of_its_message(function: Function) -> None:
    function.call(source="schedule")
    assert function.deliver() == {"batchItemFailures": []}
    assert [row["mag"] for row in function.world.read_by_pyiceberg()] == [3]
    assert (function.counted, function.find_problem()) == ({}, "")


def test_the_message_of_an_archive_names_its_period(function: Function) -> None:
    function.call(stream="quakes")
    function.world.archive("2026-03-02", [Row(86_400, "b", "2", {"mag": 4})])
    function.queue.send([name_archived("quakes", "2026-03-02")])
    assert function.deliver() == {"batchItemFailures": []}
    assert sorted(row["mag"] for row in function.world.read_by_pyiceberg()) == [3, 4]
    assert [item.name for item in function.work.list_items("table")] == ["quakes"]


def test_a_failure_is_counted_and_noted_and_a_later_run_clears_it(function: Function) -> None:
    table = {"Name": "quakes", "Parameters": {"table_type": "ICEBERG"}}
    function.world.glue.create_table(DatabaseName="tidetable_dev", TableInput=table)
    function.call(source="schedule")
    assert function.deliver() == {"batchItemFailures": []}
    assert function.counted == {"LakeFailed": 1}
    assert function.find_problem() == (
        "LakeRefused: the database tidetable_dev has a table quakes that somebody else made"
    )
    function.world.glue.delete_table(Name="quakes")
    assert function.call(stream="quakes")["added"] == 1
    assert (function.counted, function.find_problem()) == ({}, "")


def test_lost_manifests_and_refused_columns_are_counted(function: Function) -> None:
    function.world.configure("day", 'columns = { mag = "double" }')
    assert function.call(stream="quakes")["refused"] == {"mag": ("mag integer", "mag double")}
    assert function.counted == {"LakeColumnsRefused": 1}
    entry = function.world.archive("2026-03-02", [Row(86_400, "a", "1", {"mag": 3})])
    assert entry.archive is not None
    (function.world.bucket.folder / entry.archive.manifest).unlink()
    assert function.call(stream="quakes")["lost"] == ["2026-03-02"]
    assert function.counted == {"LakeFailed": 1, "LakeColumnsRefused": 1}
    assert function.find_problem() == "the manifests of 2026-03-02 are gone"


def test_a_table_that_another_worker_has_or_that_rests_is_left_alone(function: Function) -> None:
    now = function.world.clock.now()
    claim = function.work.claim(*TABLE, "another", now, now + timedelta(minutes=1))
    assert claim is not None
    assert function.call(stream="quakes") == {"stream": "quakes", "state": "busy"}
    assert function.call(source="schedule") == {"due": 1, "running": 1, "sent": 0, "dropped": []}
    function.work.release(claim, "")
    function.work.set_pause(Pause("archive", "quakes"), on=True)
    assert function.call(source="schedule")["due"] == 0
    assert function.call(stream="quakes")["state"] == "busy"
    assert function.world.glue.tables == {}


@pytest.mark.parametrize("body", ['{"kind":"table","name":"gone"}', '{"kind":"sweep","name":"quakes"}'])
def test_a_message_for_no_table_is_done(function: Function, body: str) -> None:
    assert function.deliver(body) == {"batchItemFailures": []}
    assert (function.world.glue.tables, function.work.list_items("table")) == ({}, [])


def test_a_message_that_nobody_can_read_becomes_a_dead_letter(function: Function) -> None:
    assert function.deliver("{}") == {"batchItemFailures": [{"itemIdentifier": "m"}]}


@pytest.mark.parametrize("event", [{}, {"stream": "gone"}, {"stream": "quakes", "dry_run": True}])
def test_a_payload_that_is_not_understood_is_an_error(function: Function, event: dict[str, Any]) -> None:
    with pytest.raises(BadInvocation, match="the payload must have stream, a stream of the configuration"):
        function.call(**event)
