"""Versions as answers show them."""

from __future__ import annotations

from tidetable.config import Stream
from tidetable.events import Item
from tidetable.ports import EventVersion
from tidetable.problems import refuse_parameter

# The columns that an answer with all versions has in addition, and their types.
VERSION_COLUMNS = {"version": "integer", "newest": "boolean", "accepted": "time", "versions_left_out": "integer"}


def read_version(item: Item) -> EventVersion:
    """Read the version number of an item, in a table that keeps versions."""
    return EventVersion(int(item.get("version", 1)), int(item.get("at", 0)), newest=item["sk"].startswith("v0#"))


def refuse_versions(stream: Stream) -> None:
    """Raise ProblemError for a query of earlier versions if the stream does not keep them."""
    if stream.versions != "keep":
        detail = f'{stream.name} keeps no earlier versions: set versions = "keep" in its configuration'
        raise refuse_parameter(detail)
