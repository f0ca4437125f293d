"""Keys as time passes: revoked, rotated and expired ones end. The clock only moves on: the emulator's throttle takes a clock that
is set back for a caller that sent too much.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from local import Deployed, Emulator
from local.emulator import can_move_clock
from local.http import Api
from tests.e2e.clock import OFFSET
from tests.e2e.conftest import Keys

# Later than every other test of the stage.
_LATER = OFFSET + timedelta(days=34)


def statuses(api: Api, *made: dict[str, str]) -> list[int]:
    return [api.call("/v1/streams/quakes/events", key=entry["key"]).status for entry in made]


@pytest.mark.skipif(not can_move_clock(), reason="the clock cannot be moved here")
def test_revoked_rotated_and_expired_keys_end_at_their_time(
    stage: tuple[Emulator, Deployed], api: Api, keys: Keys
) -> None:
    emulator, _ = stage
    emulator.move_clock(_LATER)
    leaked = keys("create", "--name", "leaked", "--stream", "quakes", "--json")
    assert statuses(api, leaked) == [200]
    keys("revoke", leaked["id"])
    (shown,) = [entry for entry in keys("list", "--json") if entry["id"] == leaked["id"]]
    assert shown["state"] == "revoked"
    old = keys("create", "--name", "turned", "--stream", "quakes", "--json")
    short = keys("create", "--name", "short", "--stream", "quakes", "--expires", "20m", "--json")
    new = keys("rotate", old["id"], "--overlap", "10m", "--json")
    assert statuses(api, old, new, short) == [200, 200, 200]
    # A function keeps what it knows of a key for a minute.
    emulator.move_clock(_LATER + timedelta(minutes=2))
    assert statuses(api, leaked, old, new, short) == [403, 200, 200, 200]
    emulator.move_clock(_LATER + timedelta(minutes=12))
    assert statuses(api, leaked, old, new, short) == [403, 403, 200, 200]
    emulator.move_clock(_LATER + timedelta(minutes=22))
    assert statuses(api, leaked, old, new, short) == [403, 403, 200, 403]
