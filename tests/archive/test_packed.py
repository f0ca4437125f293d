"""A table with packs is archived by its events, each once, and restored in packs."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.archive.parquet import Parquet
from aws.zstd import Zstd
from tests.fakes.bucket import FakeFormat
from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_change
from tests.worlds.packing import make_packs
from tests.worlds.places import stored_place
from tidetable.archive import Manifest, archive_period
from tidetable.archive.manifest import make_manifest_key
from tidetable.batch import decode_data
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.ports import Put
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
LABEL = "2026-03-15"
KEYS = {
    "time": 'partition_by = "time"\nbucket = "6h"\nshards = 3',
    "one suffix": 'partition_by = "time"\nbucket = "24h"',
    "series": 'partition_by = "series"\nshards = 2',
    "suffix": 'partition_by = "time"\nbucket = "6h"\nshards = 3\nshard_by = "series"',
}
CONFIG = """
[lifecycle]
stagger = "0s"
[streams.s]
period = "day"
late = "1h"
retention = 5
pack = {{ span = "1m", max_bytes = 4096 }}
[streams.s.key]
{key}
"""


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages so small that parts are cut between any two events."""
    monkeypatch.setattr("aws.archive.unpack_packs._PAGE_BYTES", 150)


def entry(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == LABEL)


def write(stage: Stage, events: Sequence[Event], at: int, *, alone: bool = False) -> None:
    """Write the events of a request, in packs or as plain items."""
    known = entry(stage)
    plain = [known.layout.make_item(event, at=at) for event in events]
    items = plain if alone else [pack.item for pack in make_packs(plain, known.layout, Zstd()).packs]
    assert not stage.store.write([Put(known.table, item) for item in items]).unwritten


def event(second: int, series: str, id: str, **data: Any) -> Event:
    return Event(series, NOON + timedelta(seconds=second), id, data)


def closed(key: str) -> tuple[Stage, dict[tuple[str, str, str], tuple[int, Any]]]:
    """A stage with a closed day whose events came in many requests, some of them twice; and the events that count."""
    stage = Stage(NOON - timedelta(hours=1), CONFIG.format(key=KEYS[key]))
    stage.part_bytes = 700
    stage.run_lifecycle()
    stage.clock.sleep(60)
    held: dict[tuple[str, str, str], tuple[int, Any]] = {}

    def send(events: Sequence[Event], at: int, *, alone: bool = False) -> None:
        write(stage, events, at, alone=alone)
        held.update({(to_text(event.time), event.series, event.id): (at, event.data) for event in events})

    for number in range(12):
        send([event(25 * number + n, f"s{n % 3}", f"{number}.{n}", n=n, text="x" * n) for n in range(6)], number)
    # The events again: cut differently, with other data, and as plain items.
    send([event(25 * 3 + n, f"s{n % 3}", f"3.{n}", n=-n) for n in range(3)], 20)
    send([event(25 * 3 + n, f"s{n % 3}", f"3.{n}", n=-n) for n in range(3)], 21)
    send([event(25 * 5 + 1, "s1", "5.1", n=99), event(25 * 7 + 1, "s1", "7.1", n=99)], 22)
    send([event(25 * 7, "s0", "7.0", n=77), event(3_600, "s0", "alone", n=1)], 23, alone=True)
    send([event(25 * 2, "s0", "2.0", n=5), event(25 * 2 + 50, "s2", "late", n=6)], 24)
    stage.clock.sleep(40 * 3600)
    stage.run_lifecycle()
    assert entry(stage).state is State.CLOSED
    return stage, held


def answered(stage: Stage) -> list[Any]:
    """Every event that queries of the three series answer from the archive."""
    stage.settle()
    policy, now = stage.config.streams["s"], stage.clock.now()
    rows = []
    for series in ("s0", "s1", "s2"):
        parameters = {"from": [to_text(NOON)], "to": [to_text(now)], "limit": ["1000"], "series": [series]}
        query = parse_query(policy, parameters, now, stage.seal)
        answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
        rows += [(event["time"], event["series"], event["id"], event["data"]) for event in answer["events"]]
    return rows


def manifest(stage: Stage) -> Manifest:
    return Manifest.decode(stage.bucket.objects[make_manifest_key("s", LABEL)])


@pytest.mark.parametrize("key", KEYS)
def test_an_archive_holds_every_event_once_as_it_was_accepted_last(key: str) -> None:
    stage, held = closed(key)
    items = stage.dynamo.account.engine.call("Scan", {"TableName": entry(stage).table, "ConsistentRead": True})["Items"]
    stage.archive("s", LABEL, within=800)
    written = manifest(stage)
    assert (written.events, written.packs) == (len(held), sum("pack" in item for item in items))
    assert len(held) == 74
    assert len(written.parts) > 5, "cut in many places, between the copies of an event, too"
    layout = entry(stage).layout
    rows = [row for part in written.parts for row in FakeFormat().items(stage.bucket.objects[part.key], layout)]
    assert sorted((row["sk"], row["at"]) for row in rows) == sorted(
        (stored_place(key, from_text(time), series, id), at) for (time, series, id), (at, _) in held.items()
    )
    expected = [(*place, data) for place, (_, data) in sorted(held.items())]
    assert sorted(answered(stage), key=lambda row: row[:3]) == expected


@pytest.mark.parametrize("key", KEYS)
def test_the_real_format_holds_the_same(key: str) -> None:
    stage, held = closed(key)
    exporter = stage.exporter()
    exporter.format = Parquet()
    archive_period("s", LABEL, exporter, "one", lambda: 800.0)
    written = manifest(stage)
    assert written.events == len(held)
    layout, held_rows = entry(stage).layout, set[Any]()
    for part in written.parts:
        for batch, items in Parquet().rows(stage.bucket.objects[part.key], layout, 0):
            assert not items
            ats: Any = batch.at
            numbers = [data["n"] for data in map(decode_data, batch.datas)]
            held_rows |= set(zip(batch.times, batch.series, batch.ids, ats, numbers, strict=True))
    assert held_rows == {(time, series, id, at, data["n"]) for (time, series, id), (at, data) in held.items()}


def test_two_tables_that_were_filled_differently_have_one_digest() -> None:
    """Only the events count, not their distribution over packs."""
    stage, held = closed("time")
    stage.archive("s", LABEL, within=800)
    other = Stage(NOON - timedelta(hours=1), CONFIG.format(key=KEYS["time"]))
    other.run_lifecycle()
    other.clock.sleep(60)
    for (time, series, id), (at, data) in held.items():
        write(other, [Event(series, datetime.fromisoformat(time), id, data)], at, alone=at % 2 == 0)
    other.clock.sleep(40 * 3600)
    other.run_lifecycle()
    other.archive("s", LABEL, within=800)
    assert manifest(other).digest == manifest(stage).digest
    assert manifest(other).packs != manifest(stage).packs


@pytest.mark.parametrize("key", ["time", "series"])
def test_an_export_stopped_after_any_call_is_finished_by_the_next(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, held = closed(key)
    whole.archive("s", LABEL, within=800)
    monkeypatch.setattr("aws.archive.unpack_packs._PAGE_BYTES", 900)

    def end(stage: Stage) -> None:
        stage.part_bytes = 3_000
        stage.archive("s", LABEL, within=800)

    for calls, stage in killed_after_every_change(lambda: closed(key)[0], end):
        if entry(stage).state is not State.ARCHIVED:
            stage.clock.sleep(900)
            end(stage)
        written = manifest(stage)
        assert (written.events, written.packs, written.digest) == (
            len(held),
            manifest(whole).packs,
            manifest(whole).digest,
        ), calls


def test_a_damaged_pack_leaves_the_table_as_it_is() -> None:
    stage, _ = closed("time")
    known = entry(stage)
    (item, *_) = [
        item for item in stage.dynamo.account.engine.call("Scan", {"TableName": known.table, "ConsistentRead": True})["Items"]
        if "pack" in item
    ]  # fmt: skip
    stage.store.write(
        [Put(known.table, {"pk": item["pk"]["S"], "sk": item["sk"]["S"], "n": 1, "format": 1, "pack": b"no"})]
    )
    with pytest.raises(ArchiveFailed, match=r"is not whole: the pack .* is damaged"):
        stage.archive("s", LABEL, within=800)
    assert entry(stage).state is State.ARCHIVING


@pytest.mark.parametrize("key", KEYS)
def test_a_restored_table_has_few_packs_and_the_same_events(key: str) -> None:
    stage, held = closed(key)
    stage.part_bytes = 100_000
    stage.archive("s", LABEL, within=800)
    before = manifest(stage)
    stage.client.delete_table(TableName=entry(stage).table)
    stage.clock.sleep(60)
    assert stage.restore("s", LABEL).state == "closed"
    assert entry(stage).state is State.CLOSED
    table = entry(stage).table
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    assert sum(int(item["n"]["N"]) for item in items if "pack" in item) == len(held)
    assert len(items) < before.packs
    stage.clock.sleep(8 * 86_400)
    again = archive_period("s", LABEL, stage.exporter(), "two", lambda: 800.0)
    assert again.events == len(held)
    assert manifest(stage).digest == before.digest
    assert json.loads(stage.bucket.objects[make_manifest_key("s", LABEL)])["packs"] == len(items)


def forms(stage: Stage) -> list[str]:
    """How the items of the period's table keep the data of their events."""
    items = stage.dynamo.account.engine.call("Scan", {"TableName": entry(stage).table, "ConsistentRead": True})["Items"]
    return sorted(name for item in items for name in ("pack", "data", "z", "out") if name in item)


def test_an_event_that_is_too_large_for_a_pack_is_restored_as_it_was() -> None:
    """Beside the packs: as it is, compressed, or in chunks."""
    config = CONFIG.replace("pack = ", 'large = {{ compress_above = 30000, beyond = "chunks" }}\npack = ')
    stage = Stage(NOON - timedelta(hours=1), config.format(key=KEYS["series"]))
    stage.run_lifecycle()
    stage.clock.sleep(1.5 * 3_600)
    texts = {str(length): noise(length) for length in (6, 18_000, 60_000, 900_000)}
    place = {"series": "s0", "time": to_text(NOON)}
    sent = [{**place, "id": id, "data": {"text": text}} for id, text in texts.items()]
    assert stage.send("s", json.dumps(sent).encode()).accepted == 4
    before = forms(stage)
    assert before == ["data", "out", "pack", "z"]
    stage.clock.sleep(40 * 3_600)
    stage.run_lifecycle()
    stage.archive("s", LABEL, within=800)
    for table in entry(stage).tables:
        stage.client.delete_table(TableName=table)
    stage.clock.sleep(60)
    assert stage.restore("s", LABEL).state == "closed"
    assert forms(stage) == before
    assert {id: data["text"] for _, _, id, data in answered(stage)} == texts
