"""What a restore does once however many runs it takes, what it leaves as it was, and with whose settings it works."""

from datetime import timedelta
from typing import Any

import pytest

from aws.large.pages import complete_page
from tests.fakes.stage import CATALOG
from tests.worlds.killed import CONFIG, IDS, ids
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry, items
from tidetable.archive import restore_piece
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.errors import ArchiveBusy, ArchiveFailed, TableThrottled
from tidetable.event_writing import Writer
from tidetable.forms.plain import PlainForm
from tidetable.large.unpack import Unpacker
from tidetable.leases import LIFECYCLE_LEASE
from tidetable.periods import parse_label
from tidetable.ports import Written

EARLIER = "2026-03-14"
KEY = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"


def test_each_part_is_read_once_however_many_runs_a_restore_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that began anew in each run would never end if it takes longer than a run."""
    stage = delete_first_tables()
    find, read = stage.bucket.find, list[str]()

    def find_slowly(key: str) -> bytes | None:
        if "/part-" in key:
            read.append(key)
            stage.clock.sleep(70)
        return find(key)

    monkeypatch.setattr(stage.bucket, "find", find_slowly)
    parts = sorted(key for key in stage.bucket.objects if LABEL in key and "/part-" in key)
    assert len(parts) > 2
    assert stage.restore("s", LABEL, within=120).state is State.CLOSED
    assert read == parts
    assert ids(stage) == IDS


def test_a_part_that_no_run_has_the_time_to_write_is_written_by_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a part of 100,000 events, into a table that takes 10 of them per second."""
    stage = delete_first_tables()
    written = list[str]()

    class Slow(Writer, frozen=True):
        def retry_writes(self, attempt: Any, puts: Any) -> Written:
            written.extend(put.item["sk"] for put in puts)
            stage.clock.sleep(100 if puts else 0)
            return super().retry_writes(attempt, puts)

    monkeypatch.setattr(PlainForm, "together", 1)
    monkeypatch.setattr(restore_piece, "Writer", Slow)
    assert stage.restore("s", LABEL, within=110).state is State.CLOSED
    assert len(written) == len({*written}) == len(items(stage)) > 10, "each event is written once, by a run of its own"
    assert ids(stage) == IDS


def test_a_restore_does_not_hide_an_earlier_period_from_the_lifecycle() -> None:
    """Two restored periods, the earlier of which was restored first."""
    stage = delete_first_tables()
    for label in (EARLIER, LABEL):
        assert stage.restore("s", label).state == "closed"
    assert stage.catalog.read_horizon("s").far == (parse_label(EARLIER), parse_label(LABEL))
    stage.clock.sleep(300)
    report = stage.run_lifecycle()
    assert report.tables == len(set(stage.dynamo.account.tables) - {CATALOG})


def test_a_comparison_waits_for_a_table_of_chunks_that_throttles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is read again, and counted once."""
    stage = delete_first_tables()
    throttled = list[Any]()

    def throttle_twice(unpacker: Unpacker, items: bytes, table: str) -> bytes:
        if len(throttled) < 2:
            throttled.append(stage.clock.now())
            raise TableThrottled(f"{table}.parts")
        return complete_page(unpacker, items, table)

    monkeypatch.setattr("aws.large.pages.complete_page", throttle_twice)
    assert stage.restore("s", LABEL).state == "closed"
    assert throttled[1] - throttled[0] == timedelta(seconds=1)
    assert ids(stage) == IDS


def test_a_table_whose_deletion_has_begun_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = delete_first_tables()
    acquire = stage.catalog.acquire

    def delete_before(lease: str, *arguments: Any) -> bool:
        if lease == LIFECYCLE_LEASE:
            stage.client.delete_table(TableName=TABLE)
            assert stage.dynamo.account.tables[TABLE].status == "DELETING"
        return acquire(lease, *arguments)

    monkeypatch.setattr(stage.catalog, "acquire", delete_before)
    with pytest.raises(ArchiveBusy, match=f"^table {TABLE} was deleted meanwhile; a later run makes it anew$"):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING
    assert ids(stage) == IDS, "it is still read from its archive"


def test_a_table_whose_key_is_lost_cannot_be_restored_into_and_says_so() -> None:
    """The state does not pass by itself: to restore again, without another key, ends in the same way."""
    stage = delete_first_tables()
    stage.config = parse(CONFIG.replace("[streams.s.key]", f'table = {{ encryption = "{KEY}" }}\n[streams.s.key]'))
    stage.restore("s", LABEL, most=1)
    stage.dynamo.account.lost_keys.add(KEY)
    with pytest.raises(ArchiveFailed, match=f"{TABLE} is INACCESSIBLE_ENCRYPTION_CREDENTIALS"):
        stage.restore("s", LABEL)
    assert ids(stage) == IDS, "it is still read from its archive"


def test_a_period_whose_stream_has_no_recorded_policy_is_restored_by_its_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = delete_first_tables()
    policy = stage.config
    stage.config = parse(CONFIG.replace("[streams.s", "[streams.other"))
    monkeypatch.setattr(stage.catalog, "list_policies", list)
    assert stage.restore("s", LABEL).state == "closed"
    assert (entry(stage).state, stage.dynamo.account.tables[TABLE].on_demand) == (State.CLOSED, True)
    assert len(items(stage)) > 0
    stage.config = policy
    assert ids(stage) == IDS
