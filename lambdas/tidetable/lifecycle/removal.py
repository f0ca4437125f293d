"""What becomes of the tables when the stack is destroyed: each stream's ``removal`` decides."""

from __future__ import annotations

from datetime import datetime

from tidetable.catalog import LIVE, State
from tidetable.config import Config
from tidetable.lifecycle.apply import World, remove_table
from tidetable.lifecycle.known import known_streams


def remove(config: Config, world: World, now: datetime) -> list[str]:
    """Delete the tables of every stream whose ``removal`` is "delete", and return their names; archives stay.

    May be repeated: what is gone already is only marked so.
    """
    removed: list[str] = []
    # A removed stream's last policy decides, too.
    for stream in known_streams(config, world.catalog, now).config.streams.values():
        if stream.removal != "delete":
            continue
        for entry in world.catalog.entries(stream.name, consistent=True):
            if entry.state in (State.DELETED, State.ARCHIVED):
                continue
            remove_table(entry, world)
            world.catalog.move(entry, State.DELETED, expected=LIVE, deleted_at=now)
            removed.append(entry.table)
    return removed
