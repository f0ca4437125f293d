"""Today's code goes on with what earlier code left: queued events, dead letters, half an archive, versions, packs."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.worlds import formats_events as events
from tests.worlds.formats import Files, FormatStage, read_lines
from tests.worlds.formats_asked import read_events
from tests.worlds.formats_story import TARGET, FeedTarget, find_beats, make_feeds, send, sleep_until
from tidetable.catalog import Entry, State
from tidetable.times import parse_instant

BEFORE = {"from": "2026-03-12T08:00:00Z", "to": "2026-03-12T10:00:00Z"}


def find_entry(stage: FormatStage, stream: str, label: str) -> Entry:
    return next(entry for entry in stage.catalog.entries(stream, consistent=True) if entry.period.label == label)


def test_queued_messages_are_written(changing: FormatStage) -> None:
    changing.drain()
    assert not changing.queue.messages
    assert changing.beats.beat == parse_instant("2026-03-12T13:59:00.601Z")
    assert len(changing.queue.dead) == 1, "only the dead letter of the fixtures"
    assert read_events(changing, "times", **BEFORE) == [events.QUEUED]
    assert read_events(changing, "large", series="l", id="kept") == [events.KEPT]


def test_the_last_beat_is_read(changing: FormatStage) -> None:
    assert find_beats(changing).read() == parse_instant("2026-03-02T13:59:00.601Z")


def test_saved_messages_are_written(changing: FormatStage) -> None:
    run = changing.drain_saved()
    assert (run.backlog.messages, run.events, run.reasons) == (1, 1, [])
    assert [key for key in changing.values.blobs if key.startswith("saved/")] == []
    assert read_events(changing, "times", **BEFORE) == [events.SAVED]


def test_a_dead_letter_of_the_overflow_is_sent_again(changing: FormatStage) -> None:
    (letter,) = changing.queue.dead
    sleep_until(changing, events.END + timedelta(days=3))
    changing.run_lifecycle()
    changing.settle()
    changing.queue.messages.clear()
    changing.queue.push(letter.body)
    changing.drain()
    assert not changing.queue.messages
    found = read_events(changing, "times", **{"from": "2026-03-15T00:00:00Z", "to": "2026-03-16T00:00:00Z"})
    assert found == [events.DEAD]


def test_dead_letters_of_the_feed_are_delivered_again(changing: FormatStage, files: Files) -> None:
    target = FeedTarget(TARGET)
    feeds = make_feeds(changing, target)
    letters: list[Any] = read_lines(files["queues/feed_letters.ndjson"])
    for letter in letters:
        attributes, bodies = letter["attributes"], letter["body"].encode().split(b"\n")
        assert feeds.redeliver(attributes["feed"], attributes.get("target", ""), bodies, lambda: 100.0) == 1
    of_target, of_record = target.taken
    assert {name: of_target[name] for name in ("kind", "series", "time", "id", "data")} == {
        "kind": "insert",
        **events.TIMES_OPEN[0],
    }
    # The second letter names a record that could not be read: its event was read again.
    assert (of_record["id"], of_record["data"]) == ("9", events.TIMES_OPEN[1]["data"])
    assert [change["sequence"] for change in target.taken] == [
        "0017731872600000000000000000000000100000000000000000011",
        "0017731872600000000000000000000000100000000000000000009",
    ]


# When the archive was begun, in epoch milliseconds.
MADE = "1773323940601"


def test_half_an_archive_is_completed(changing: FormatStage, files: Files) -> None:
    before = read_events(changing, "times")
    assert find_entry(changing, "times", events.NEXT_DAY).state is State.ARCHIVING
    changing.archive("times", events.NEXT_DAY, within=800)
    entry = find_entry(changing, "times", events.NEXT_DAY)
    assert entry.state is State.ARCHIVED
    assert entry.archive is not None
    assert entry.archive.events == 2
    folder = "stream=times/period=2026-03-10/"
    names = sorted(key.removeprefix(folder) for key in changing.bucket.objects if key.startswith(folder))
    parts = [f"part-{MADE}-0000{number}-00{generation}-00000.parquet" for number, generation in ((0, 1), (1, 2))]
    assert names == ["_manifest.json", *parts]
    first = f"archives/{folder}{parts[0]}"
    assert changing.bucket.objects[first.removeprefix("archives/")] == files[first], "the first part is not made again"
    assert read_events(changing, "times") == before


@pytest.mark.parametrize(("stream", "count"), [("times", 6), ("packs", 4)])
def test_an_archive_is_restored(changing: FormatStage, stream: str, count: int) -> None:
    before = read_events(changing, stream)
    assert changing.restore(stream, events.FIRST_DAY).state is State.CLOSED
    assert find_entry(changing, stream, events.FIRST_DAY).state is State.CLOSED
    changing.bucket.objects.clear()
    first_day = {"from": f"{events.FIRST_DAY}T00:00:00Z", "to": f"{events.FIRST_DAY}T23:59:59Z"}
    found = read_events(changing, stream, **first_day)
    assert found == [event for event in before if event["time"].startswith(events.FIRST_DAY)]
    assert len(found) == count


def test_a_stored_event_gets_its_next_version(changing: FormatStage) -> None:
    send(changing, "names", [events.NAMES[0] | {"data": {"v": 4}}])
    found = read_events(changing, "names", series="kept", id="1", versions="all")
    assert [(event["version"], event["data"]["v"]) for event in found] == [(4, 4), (3, 3), (2, 2), (1, 1)]


@pytest.mark.parametrize("stream", ["times", "packs"])
def test_a_stored_event_is_replaced(changing: FormatStage, stream: str) -> None:
    sent = (events.TIMES_OPEN if stream == "times" else events.PACKS_OPEN)[1]
    newer = sent | {"data": {"n": 99}}
    send(changing, stream, [newer])
    same_day = {"from": f"{events.LAST_DAY}T10:00:00Z", "to": f"{events.LAST_DAY}T14:05:00Z"}
    found = {event["id"]: event for event in read_events(changing, stream, **same_day)}
    assert found[sent["id"]] == newer
    assert len(found) == (3 if stream == "times" else 2)


def test_large_values_without_an_item_are_found_by_the_sweep(changing: FormatStage) -> None:
    key = next(key for key in changing.values.blobs if key.startswith("large/stream=objects/"))
    changing.clock.sleep(2 * 86_400)
    assert changing.sweep().orphans == 0
    table = "tidetable-lapse.objects.2026-03"
    items = changing.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    owner = next(item for item in items if "out" in item)
    changing.dynamo.account.engine.call("DeleteItem", {"TableName": table, "Key": {n: owner[n] for n in ("pk", "sk")}})
    swept = changing.sweep()
    assert (swept.orphans, swept.failures) == (1, [])
    assert key not in changing.values.blobs


def test_the_refresher_goes_on(changing: FormatStage) -> None:
    changing.clock.sleep(3_600)
    report = changing.refresh()
    assert report is not None
    assert not report.failed
    state = changing.rollups.read_state("times")
    assert (state.marks, state.edges[0].sealed.hour) == ([], 15)
    assert json.loads(state.edges[0].definition)["every"] == 3600
