"""Which periods a restore begins with, and for how long it keeps others from them."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, IDS, built, ids
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry, items
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.errors import ArchiveFailed
from tidetable.leases import LIFECYCLE_LEASE
from tidetable.times import from_text


@pytest.mark.parametrize("within", [800, 200])
def test_a_restore_holds_its_period_for_as_long_as_it_may_take_and_the_lifecycle_for_five_minutes(
    within: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed must not stop those after it, and the lifecycle runs every five minutes."""
    stage = delete_first_tables()
    acquire, asked = stage.catalog.acquire, dict[str, timedelta]()

    def note_length(lease: str, owner: str, now: Any, length: timedelta) -> bool:
        asked[lease] = max(asked.get(lease, timedelta()), length)
        return acquire(lease, owner, now, length)

    monkeypatch.setattr(stage.catalog, "acquire", note_length)
    assert stage.restore("s", LABEL, within=within).state is State.CLOSED
    whole = timedelta(seconds=within)
    assert asked == {f"archive#s#{LABEL}": whole, LIFECYCLE_LEASE: min(timedelta(seconds=300), whole)}


def test_a_period_whose_table_still_waits_for_its_deletion_is_restored_into_it() -> None:
    stage = built()
    stage.clock.time = from_text("2026-03-18T12:00:00Z")
    stage.run_lifecycle()
    stage.archive("s", LABEL, within=800)
    assert (entry(stage).state, TABLE in stage.dynamo.account.tables) == (State.ARCHIVED, True)
    count = len(items(stage))
    assert count > 0
    assert stage.restore("s", LABEL).state == "closed"
    assert (entry(stage).state, len(items(stage))) == (State.CLOSED, count)
    assert ids(stage) == IDS


def expire(stage: Stage, days: int) -> None:
    """Let archives expire; the catalog does not know it before the lifecycle's next run."""
    stage.config = parse(f'[archive]\nexpire_after = "{days}d"\n{CONFIG}')


def test_an_archive_expires_at_its_instant_although_the_catalog_has_not_recorded_it() -> None:
    stage = delete_first_tables()
    expire(stage, 2)
    found = entry(stage)
    assert found.archive is not None
    assert found.archive.expired_at is None
    with pytest.raises(ArchiveFailed, match=rf"the archive of period {LABEL} of s expired at 2026-03-"):
        stage.restore("s", LABEL)
    assert (entry(stage).state, TABLE in stage.dynamo.account.tables) == (State.DELETED, False)
    expire(stage, 400)
    assert stage.restore("s", LABEL).state == "closed"
