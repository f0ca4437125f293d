"""The functions of the archiver, the restorer and the sweeper: their payloads, their time, their answers and metrics."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveFailed, BadInvocation
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.work.claim import ItemName
from tidetable.work.message import write_message

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY = "2026-03-15"
CONFIG = """
[lifecycle]
delete_expired = false
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 30
large = { beyond = "s3" }
[streams.s.key]
partition_by = "series"
"""


class Functions:
    """The handlers on a stage in memory. ``seconds`` is the time that Lambda leaves them, ``measured`` what they count."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = stage
        self.seconds = 900.0
        self.measured: dict[str, float] = {}
        self._pipeline = stage.pipeline
        self._pipeline.exporter.part_bytes = stage.part_bytes
        monkeypatch.setattr("handlers._observe.metrics.add_metric", self._measure)

    def _measure(self, name: str, unit: Any, value: float) -> None:
        self.measured[name] = value

    def _call(self, handler: Any, payload: dict[str, Any]) -> Any:
        context: Any = Context()
        end = self.stage.clock.now() + timedelta(seconds=self.seconds)
        left = lambda: int((end - self.stage.clock.now()).total_seconds() * 1000)  # noqa: E731
        context.get_remaining_time_in_millis = left
        with wiring.serve_pipeline(self._pipeline):
            return handler(payload, context)

    def archive(self, **payload: Any) -> Any:
        from handlers.archiver import handler

        return self._call(handler, {"stream": "s", "period": DAY, **payload})

    def work_on(self, *bodies: str) -> Any:
        """Give each message to a worker of archives."""
        from handlers.archiver import handler

        return [self._call(handler, {"Records": [{"messageId": "m", "body": body}]}) for body in bodies]

    def ask_archiver(self, **payload: Any) -> Any:
        from handlers.archiver import handler

        return self._call(handler, payload)

    def restore(self, **payload: Any) -> Any:
        """Order a restore of the period, and let its workers do it."""
        answer = self.ask_restorer(restore={"stream": "s", "first": DAY, "last": DAY, **payload})
        self.deliver_restores()
        return answer

    def ask_restorer(self, **payload: Any) -> Any:
        from handlers.restorer import handler

        return self._call(handler, payload)

    def deliver_restores(self) -> None:
        """Give each message of a restore to a worker."""
        while self.stage.work_queue.messages:
            body = write_message(self.stage.work_queue.messages.pop(0))
            assert self.ask_restorer(Records=[{"messageId": "m", "body": body}]) == {"batchItemFailures": []}

    def sweep(self, **payload: Any) -> Any:
        from handlers.sweeper import handler

        return self._call(handler, payload)

    @property
    def entry(self) -> Entry:
        return next(entry for entry in self.stage.catalog.entries("s", consistent=True) if entry.period.label == DAY)


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Functions]:
    """A stage with 40 events of a day that is closed."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", "tidetable-lapse-catalog")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    import settings

    settings.read_settings.cache_clear()
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    events = [{"series": "a", "id": str(number), "data": {"n": number}} for number in range(40)]
    assert stage.send("s", json.dumps(events).encode()).accepted == 40
    stage.clock.sleep(3 * 86_400)
    stage.run_lifecycle()
    yield Functions(stage, monkeypatch)
    settings.read_settings.cache_clear()


def test_the_archiver_answers_what_it_archived_and_counts_it_once(functions: Functions) -> None:
    answer = functions.archive()
    assert answer == {"stream": "s", "period": DAY, "state": "archived", "events": 40, "wait": 0.0}
    facts = functions.entry.archive
    assert facts is not None
    size = sum(len(body) for key, body in functions.stage.bucket.objects.items() if key.endswith(".parquet"))
    assert functions.measured == {"EventsArchived": 40, "BytesArchived": size}
    assert functions.stage.lake_queue.messages == [ItemName("table", f"s#{DAY}")]


def test_an_archive_counts_although_nobody_can_be_told_of_it(functions: Functions) -> None:
    functions.stage.lake_queue.refuses = True
    assert functions.archive()["state"] == "archived"


def test_the_archiver_says_that_an_archive_of_todays_format_need_not_be_rewritten(functions: Functions) -> None:
    functions.archive()
    before = dict(functions.stage.bucket.objects)
    archived = functions.entry.archive
    assert archived is not None
    for more in ({"dry_run": True}, {}):
        assert functions.archive(rewrite=True, **more) == {
            "stream": "s", "period": DAY, "state": "current", "files": 1, "done": 1, "events": 40,
            "size": archived.bytes, "wait": 0.0,
        }  # fmt: skip
    assert functions.stage.bucket.objects == before


def test_the_archiver_counts_the_values_that_do_not_fit_their_columns(functions: Functions) -> None:
    functions.archive()
    functions.measured.clear()
    archived = functions.entry.archive
    assert archived is not None
    facts = replace(archived, untyped={"ms": 3, "price": 4})
    functions.stage.catalog.move(functions.entry, State.ARCHIVED, expected=[State.ARCHIVED], archive=facts)
    functions.archive()
    assert functions.measured["UntypedValues"] == 7


def begin_by_messages(functions: Functions) -> list[str]:
    """Begin the archive of the day, and return the messages to the workers."""
    functions._pipeline.exporter.at_once_bytes = 0
    # The table's size is described six hours later.
    functions.stage.clock.sleep(7 * 3_600)
    assert functions.archive() == {"stream": "s", "period": DAY, "state": "archiving", "events": 0, "wait": 15.0}
    return [write_message(name) for name in functions.stage.work_queue.messages]


def test_a_worker_archives_a_segment_and_counts_the_archive_that_it_completes(functions: Functions) -> None:
    (message,) = begin_by_messages(functions)
    assert functions.measured == {}
    assert functions.work_on(message, message) == [{"batchItemFailures": []}] * 2
    assert functions.entry.state is State.ARCHIVED
    assert functions.measured.pop("BytesArchived") > 0
    assert functions.measured == {"EventsArchived": 40}


def test_a_segment_that_fails_is_no_failure_of_its_message_but_of_the_next_call(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the message is not sent again and again, and the alarm of the function rings."""
    (message,) = begin_by_messages(functions)
    put = functions.stage.bucket.put

    def refuse(key: str, body: bytes) -> None:
        raise ArchiveFailed("the bucket refuses")

    monkeypatch.setattr(functions.stage.bucket, "put", refuse)
    assert functions.work_on(message) == [{"batchItemFailures": []}]
    with pytest.raises(ArchiveFailed, match=r"^the bucket refuses$"):
        functions.archive()
    monkeypatch.setattr(functions.stage.bucket, "put", put)
    functions.work_on(message)
    assert functions.entry.state is State.ARCHIVED


def test_a_message_of_nobody_becomes_a_dead_letter(functions: Functions) -> None:
    assert functions.work_on("hello") == [{"batchItemFailures": [{"itemIdentifier": "m"}]}]


def test_archiving_rests_until_it_may_go_on(functions: Functions) -> None:
    assert functions.ask_archiver(pause="s") == {"stream": "s", "paused": True}
    reason = "the archiving of s rests, until tidetable archive s --resume"
    assert functions.archive() == {"stream": "s", "period": DAY, "state": "busy", "reason": reason}
    assert functions.ask_archiver(resume="s") == {"stream": "s", "paused": False}
    assert functions.archive()["state"] == "archived"


def test_the_archiver_ends_in_time_for_its_answer_and_says_that_there_is_more(functions: Functions) -> None:
    # Ten of the 69 s are reserved for the answer, and with 59 s no page is read.
    functions.seconds = 69
    answer = functions.archive()
    assert (answer["state"], answer["events"], functions.measured) == ("archiving", 0, {})
    functions.seconds = 71
    assert functions.archive()["state"] == "archived"


def test_a_restored_period_is_counted_again_only_when_it_is_archived_again(functions: Functions) -> None:
    """Until then its entry still has the first archive."""
    gone(functions)
    functions.restore()
    functions.measured.clear()
    functions.seconds = 69
    assert functions.archive()["state"] == "archiving"
    assert functions.measured == {}
    functions.seconds = 900
    assert functions.archive()["state"] == "archived"
    assert functions.measured["EventsArchived"] == 40


def test_the_archivers_errors_are_the_functions_but_a_busy_period_is_none(functions: Functions) -> None:
    """An alarm counts the function's errors. An export that takes longer than five minutes meets the lifecycle's next run."""
    with pytest.raises(ArchiveFailed, match="has no period 2026-02-01"):
        functions.archive(period="2026-02-01")
    stage = functions.stage
    assert stage.catalog.acquire(f"archive#s#{DAY}", "another", stage.clock.now(), timedelta(minutes=5))
    assert functions.archive() == {
        "stream": "s",
        "period": DAY,
        "state": "busy",
        "reason": f"period {DAY} of s is being archived by another run",
    }
    assert functions.entry.state is State.CLOSED


def gone(functions: Functions) -> None:
    """Archive the period, and delete its table."""
    functions.archive()
    stage = functions.stage
    stage.tables.delete(functions.entry.table)
    stage.clock.sleep(60)
    stage.catalog.move(functions.entry, State.DELETED, expected=(State.ARCHIVED,), deleted_at=stage.clock.now())


def test_the_restorer_makes_the_table_again_and_keeps_it_for_a_week(functions: Functions) -> None:
    gone(functions)
    answer = functions.restore()
    assert answer["periods"] == [{"period": DAY, "state": "deleted", "events": 40, "refusal": None}]
    (progress,) = answer["restores"]
    assert (progress["periods"], progress["left"], progress["events"], progress["keep_days"]) == (1, 1, 40, 7)
    entry = functions.entry
    assert entry.state is State.CLOSED
    assert entry.keep_until == functions.stage.clock.now() + timedelta(days=7)
    table = functions.stage.dynamo.account.tables[entry.table]
    assert table.tags["tidetable:period"] == DAY
    assert functions.ask_restorer(status="s") == {"stream": "s", "paused": False, "restores": []}


def test_the_restorer_keeps_it_as_long_as_it_is_told_to(functions: Functions) -> None:
    gone(functions)
    functions.restore(keep_days=3650)
    assert functions.entry.keep_until == functions.stage.clock.now() + timedelta(days=3650)


def test_a_dry_run_orders_nothing(functions: Functions) -> None:
    gone(functions)
    request = {"stream": "s", "first": DAY, "last": DAY}
    answer = functions.ask_restorer(restore=request, dry_run=True)
    assert (answer["periods"][0]["refusal"], answer["restores"]) == (None, [])
    assert (functions.stage.work_queue.messages, functions.stage.work.list_items("restore")) == ([], [])


def test_restores_that_rest_go_on_when_they_are_resumed(functions: Functions) -> None:
    gone(functions)
    assert functions.ask_restorer(pause="*") == {"stream": "*", "paused": True}
    functions.restore()
    assert functions.ask_restorer(status="s")["paused"] is True
    assert functions.entry.state == "deleted"
    functions.ask_restorer(resume="*")
    functions.deliver_restores()
    assert functions.entry.state is State.CLOSED


def test_a_restore_that_fails_is_counted_by_each_scheduled_run_and_may_be_cancelled(functions: Functions) -> None:
    gone(functions)
    bucket = functions.stage.bucket.objects
    (part,) = (key for key in bucket if "/part-" in key)
    body = bucket.pop(part)
    functions.restore()
    (progress,) = functions.ask_restorer(status="s")["restores"]
    assert progress["problem"].startswith(f"the archive's object {part} does not exist")
    functions.measured.clear()
    woken = {"due": 1, "running": 0, "failed": 1, "sent": 1}
    assert functions.ask_restorer(source="schedule") == woken
    assert functions.measured == {"RestoresFailed": 1}
    functions.deliver_restores()
    assert [one["left"] for one in functions.ask_restorer(cancel="s")["restores"]] == [1]
    functions.deliver_restores()
    assert functions.entry.state == "archived"
    assert functions.stage.work.list_items("restore") == []
    bucket[part] = body
    functions.restore()
    assert functions.entry.state is State.CLOSED


def test_a_message_that_nobody_can_read_becomes_a_dead_letter_of_restores(functions: Functions) -> None:
    answer = functions.ask_restorer(Records=[{"messageId": "m", "body": "{}"}])
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m"}]}


RESTORE = {"stream": "s", "first": DAY, "last": DAY}


def test_the_restorer_says_if_a_period_takes_an_import_and_why_it_does_not(functions: Functions) -> None:
    look: dict[str, Any] = {"stream": "s", "period": DAY, "import": {}}
    refused = functions.ask_restorer(**look)
    assert refused["state"] == "refused"
    assert "its table has its events: import them without --to archive" in refused["reason"]
    gone(functions)
    assert functions.ask_restorer(**look) == {"stream": "s", "period": DAY, "state": "ready", "reason": ""}
    order = {"token": "1", "base": "another", "oldest": "", "newest": ""}
    assert functions.ask_restorer(**look | {"import": order})["state"] == "changed"
    until = timedelta(minutes=1)
    assert functions.stage.catalog.acquire(f"archive#s#{DAY}", "another", functions.stage.clock.now(), until)
    busy = functions.ask_restorer(**look)
    assert (busy["state"], "by another run" in busy["reason"]) == ("busy", True)
    with pytest.raises(BadInvocation, match="import: Expected `str`, got `int`"):
        functions.ask_restorer(**look | {"import": {"token": 1}})


BAD_RESTORES: list[tuple[dict[str, Any], str]] = [
    ({}, "the payload has one of restore, status"),
    ({"restore": RESTORE, "status": "s"}, "the payload has one of restore, status"),
    ({"restore": RESTORE, "source": "schedule"}, "the payload has one of restore, status"),
    ({"days": 7}, "the payload has one of restore, status"),
    ({"status": 7}, "status: name a stream"),
    ({"restore": {"stream": "s", "first": DAY}}, "restore: .*`last`"),
    ({"restore": RESTORE | {"first": "2026-99"}}, "restore: .*2026-99"),
    ({"restore": RESTORE | {"keep_days": 0}}, "a whole number from 1 to 3650"),
    ({"restore": RESTORE | {"keep_days": 3651}}, "a whole number from 1 to 3650"),
    ({"restore": RESTORE | {"keep_days": 1.5}}, "restore: .*keep_days"),
    ({"restore": RESTORE, "dry_run": "yes"}, "dry_run must be true or false"),
]


@pytest.mark.parametrize(("payload", "message"), BAD_RESTORES, ids=[str(payload) for payload, _ in BAD_RESTORES])
def test_a_restore_that_is_not_understood_does_nothing(
    functions: Functions, payload: dict[str, Any], message: str
) -> None:
    gone(functions)
    with pytest.raises(BadInvocation, match=message):
        functions.ask_restorer(**payload)
    assert functions.entry.state is State.DELETED
    assert functions.stage.work.list_items("restore") == []


def orphans(functions: Functions) -> None:
    """Objects of two live periods to which no event refers."""
    for number, label in enumerate(("2026-03-17", "2026-03-18")):
        owner = Key("a", f"{label}T00:00:00.000000Z#{number}")
        functions.stage.values.put(Blob(f"large/stream=s/period={label}/{number}/x", b"12345", owner))
    functions.stage.clock.sleep(2 * 86_400)


def test_the_sweeper_removes_what_nothing_refers_to_and_counts_it(functions: Functions) -> None:
    orphans(functions)
    report = functions.sweep()
    assert (report["orphans"], report["bytes"], report["finished"], report["failures"]) == (2, 10, True, [])
    assert functions.measured == {"ObjectsSwept": 2, "BytesSwept": 10}
    assert functions.stage.values.blobs == {}


def test_objects_of_a_deleted_period_are_counted_with_the_others(functions: Functions) -> None:
    gone(functions)
    functions.measured.clear()
    functions.stage.values.put(Blob(f"large/stream=s/period={DAY}/0/x", b"123", Key("a", "x")))
    orphans(functions)
    report = functions.sweep()
    assert (report["orphans"], report["expired"]) == (2, 1)
    assert functions.measured == {"ObjectsSwept": 3, "BytesSwept": 13}


def test_a_dry_sweep_only_tells(functions: Functions) -> None:
    orphans(functions)
    report = functions.sweep(dry_run=True)
    assert (report["dry_run"], report["orphans"]) == (True, 2)
    assert functions.measured == {}
    assert len(functions.stage.values.blobs) == 2


@pytest.mark.parametrize("payload", [{"stream": "s"}, {"dry_run": "yes"}, {"dry_run": 1}])
def test_a_sweep_that_is_not_understood_does_nothing(functions: Functions, payload: dict[str, Any]) -> None:

    orphans(functions)
    with pytest.raises(BadInvocation, match="the payload may have dry_run, true or false"):
        functions.sweep(**payload)
    assert len(functions.stage.values.blobs) == 2


def test_what_a_workers_sweep_could_not_look_at_is_an_error_after_all_else_was_swept(functions: Functions) -> None:
    from handlers.sweeper import SweepIncomplete

    orphans(functions)
    owner = functions.stage.values.owner

    def failing(key: str) -> Key | None:
        if key.endswith("/0/x"):
            raise ConnectionError("no answer")
        return owner(key)

    functions.stage.values.owner = failing  # type: ignore[method-assign]
    with pytest.raises(SweepIncomplete, match="1 objects could not be checked, such as large/stream=s"):
        functions.sweep(Records=[{"messageId": "m", "body": "{}"}])
    assert list(functions.stage.values.blobs) == ["large/stream=s/period=2026-03-17/0/x"]
    # If an operator calls the function, the report is its answer.
    assert len(functions.sweep()["failures"]) == 1
