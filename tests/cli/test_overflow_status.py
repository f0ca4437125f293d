"""``status`` says how many acknowledged events are in no table yet: in the queues, and saved in the bucket."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import common
from cli.backlog import describe_overflow, describe_work
from cli.common import find_account
from cli.options import Target
from tests.fakes.stage import Stage
from tests.worlds.commands import NOW, functions, run, stage
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, SeenTable, State
from tidetable.config import TableClass, parse
from tidetable.ingest.saved_names import SavedMessage
from tidetable.layout import Key
from tidetable.periods import Kind, find_containing
from tidetable.ports import Blob
from tidetable.times import to_text
from tidetable.work.claim import Pause, WorkItem

__all__ = ["functions", "stage"]
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, "ListObjectsV2")
STREAMS = """
[streams.plain]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "series" }
[streams.packed]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "series" }
pack = { span = "1m" }
"""


class Queues:
    """SQS's client: how many messages each queue has, visible and hidden."""

    def __init__(self, **counts: tuple[int, int]) -> None:
        self._counts = counts

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: list[str]) -> Any:  # noqa: N803 - boto3's names
        assert sorted(AttributeNames) == ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = map(str, self._counts.get(QueueUrl, (0, 0)))
        return {"Attributes": dict(zip(sorted(AttributeNames), counts, strict=True))}


def save(stage: Stage, stream: str, events: int, days: int, size: int) -> None:
    message = SavedMessage(NOW - timedelta(days=days), stream, events, f"m{days}")
    stage.values.put(Blob(message.key, b"x" * size, Key("a", "b")))


def replace_account(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stored: Any = None, **counts: tuple[int, int]
) -> Any:
    account = replace(
        find_account(Target()),
        queues=Queues(**counts),
        outputs={"OverflowQueueUrl": "waiting", "DeadLetterQueueUrl": "dead", "WorkDeadLetterQueueUrl": "stopped"},
        stored=stored or stage.values,
    )
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    return account


def test_without_waiting_events_there_is_nothing_to_say(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(describe_overflow(replace_account(stage, monkeypatch), None, stage.config, [], NOW)) == []


def test_each_stream_has_its_events_its_bytes_and_its_oldest(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, events, days, size in (("t", 7, 11, 100), ("s", 500, 12, 200_000), ("s", 40, 10, 50_000)):
        save(stage, stream, events, days, size)
    stage.values.put(Blob("saved/foreign", b"x", Key("a", "b")))
    account = replace_account(stage, monkeypatch, waiting=(3, 2), dead=(1, 0))
    end = "are saved in the bucket, and are written minute by minute; see the runbook, OverflowSaved"
    s = f"s: 540 acknowledged events (2 messages, 0.2 MB, the oldest of 2026-03-03T12:20Z) {end}"
    assert list(describe_overflow(account, None, stage.config, [], NOW)) == [
        "about 5 messages wait in the overflow queue: the log of the drain has the reasons",
        "about 1 messages are dead letters: tidetable replay --dry-run has the reasons",
        f"?: 0 acknowledged events (1 messages, 0.0 MB) {end}",
        s,
        f"t: 7 acknowledged events (1 messages, 0.0 MB, the oldest of 2026-03-04T12:20Z) {end}",
    ]
    assert list(describe_overflow(account, "s", stage.config, [], NOW))[2:] == [s]


def test_each_stream_has_its_expected_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drain begins with a quarter of a table's units: 20 per second of provisioned ones, 1,000 on demand."""
    config, hour = parse(STREAMS), timedelta(hours=1)
    periods: list[Any] = []
    for stream, units in (("plain", 80), ("packed", None), ("unknown", 80)):
        layout = config.streams["packed" if stream == "packed" else "plain"].layout
        for days in (1, 0):
            period = find_containing(NOW - timedelta(days=days), Kind.DAY)
            entry = Entry(stream, period, f"{stream}-{days}", layout, State.OPEN, NOW)
            seen = SeenTable(units if days else 8_000, 1, TableClass.STANDARD)
            periods.append(SimpleNamespace(entry=change_entry(entry, seen=seen)))
        save(stage, stream, 72_000, 1, 1_000_000)
    expected = {"plain": NOW + hour, "packed": NOW + timedelta(seconds=1), "unknown": None}
    account = replace_account(stage, monkeypatch)
    lines = {line.partition(":")[0]: line for line in describe_overflow(account, None, config, periods, NOW)}
    for stream, end in expected.items():
        until = "" if end is None else f", at the drain's pace until about {to_text(end)[:16]}Z"
        assert lines[stream].endswith(f"are written minute by minute{until}; see the runbook, OverflowSaved"), stream


def test_status_prints_the_lines_or_why_it_cannot(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    save(stage, "s", 5, 10, 1)
    replace_account(stage, monkeypatch)
    printed = run("status")
    assert "s: 5 acknowledged events" in printed.output

    class Closed:
        def stored(self, prefix: str) -> Any:
            raise DENIED

    replace_account(stage, monkeypatch, Closed())
    refused = run("status")
    assert refused.exit_code == 0
    assert "the state of the overflow is not known" in refused.output
    assert "allow sqs:GetQueueAttributes and s3:ListBucket" in refused.output


def test_status_says_since_when_the_drain_stands_still(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    account = replace_account(stage, monkeypatch)
    stage.beats.beat = NOW - timedelta(minutes=29)
    assert list(describe_overflow(account, None, stage.config, [], NOW)) == []
    stage.beats.beat = NOW - timedelta(minutes=30)
    (line,) = describe_overflow(account, None, stage.config, [], NOW)
    assert line == (
        "the drain stands still since 2026-03-15T11:50Z: acknowledged events are saved in the bucket, and not written; see the"
        " runbook, OverflowUnread"
    )
    stage.beats.fails = True
    (line,) = describe_overflow(account, None, stage.config, [], NOW)
    assert line == (
        "it is not known whether the drain stands still: no answer: DynamoDB does not answer; allow dynamodb:Query on the"
        " table of rollups"
    )


def test_status_says_what_waits_runs_and_failed_in_the_background(stage: Stage) -> None:
    assert "work, " not in run("status", "--no-metrics").output
    now = stage.clock.now()
    stage.work.mark_sent(WorkItem("seal", "quakes"), now - timedelta(minutes=90), now)
    assert stage.work.claim("sweep", "objects", "a worker", now, now + timedelta(minutes=5))
    failing = stage.work.claim("seal", "stations", "a worker", now, now + timedelta(minutes=5))
    assert failing is not None
    stage.work.release(failing, "", problem="no answer")
    lines = [line for line in run("status", "--no-metrics").output.splitlines() if line.startswith("work, ")]
    assert [line.split("; ") for line in lines] == [
        [
            "work, seal of quakes: 1 due, 1 wait (for 90m), 0 running",
            "bin/tidetable rollup quakes shows more",
            "see the runbook, WorkWaiting",
        ],
        [
            "work, seal of stations: 1 due, 0 wait, 0 running, 1 failed: no answer",
            "bin/tidetable rollup stations shows more",
            "see the runbook, RollupsFailing",
        ],
        ["work, sweep: 1 due, 0 wait, 1 running"],
    ]
    stage.work.set_pause(Pause("seal", "quakes"), on=True)
    assert (
        "work, seal of quakes: rests, 1 due, 1 wait (for 90m), 0 running; bin/tidetable rollup quakes --resume lets it go on"
        "; see the runbook, WorkWaiting"
    ) in run("status", "--no-metrics").output.splitlines()


def test_the_dead_letters_of_workers_are_counted_with_the_command_that_sends_them_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = replace_account(stage, monkeypatch, stopped=(2, 1))
    assert list(describe_work(account, NOW)) == [
        "about 3 messages of workers are dead letters: tidetable replay --work; see the runbook, WorkDeadLetters"
    ]
    assert list(describe_work(replace_account(stage, monkeypatch), NOW)) == []
    # The stack of an earlier version has no such queue.
    earlier = replace(account, outputs={"DeadLetterQueueUrl": "dead"})
    assert list(describe_work(earlier, NOW)) == []
