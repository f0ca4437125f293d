"""Check a configuration against the existing tables.

The configuration must not use tables for another purpose, take away the rights to delete their copies, or omit the key
with which they are encrypted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidetable.config import Config, Stream
from tidetable.copies.table_copies import find_lost_copies
from tidetable.ports import Catalog
from tidetable.run_streams import read_recorded_policies


def find_conflicts(config: Config, catalog: Catalog) -> Iterator[str]:
    """List the errors that the configuration would make, each with its fix."""
    yield from find_changed_natures(config, catalog)
    yield from find_lost_copies(config, catalog)
    yield from find_lost_keys(config, catalog)


def find_changed_natures(config: Config, catalog: Catalog) -> Iterator[str]:
    """List the configured names whose tables or archives cannot be used, because they hold another kind of items.

    Queries would read cells of a rollup as events, or events as cells, and the refresher would write cells beside events.
    """
    for former in read_recorded_policies(catalog):
        stream = config.streams.get(former.name)
        if stream is None or former.source == stream.source:
            continue
        if any(entry.live or entry.archived is not None for entry in catalog.walk(former.name, consistent=True)):
            kind = "rollup" if stream.source else "stream"
            yield (
                f"{former.name}: its tables or archives hold {_describe_origin(former)}, and the configuration makes it"
                f" {_describe_origin(stream)}: give the {kind} another name"
            )


def find_lost_keys(config: Config, catalog: Catalog) -> Iterator[str]:
    """List the KMS keys that encrypt tables, but on which the functions would lose their rights.

    A table keeps its key until it is deleted. Without rights on the key, every read and write of the table is refused.
    Only keys of the last recorded policies are found. If a key leaves ``former_keys`` too early, requests are refused.
    """
    streams: dict[str, list[str]] = {}
    for former in read_recorded_policies(catalog):
        key = former.table.encryption
        if not key.startswith("arn:") or key in config.table_keys:
            continue
        if any(entry.live for entry in catalog.walk(former.name, consistent=True)):
            streams.setdefault(key, []).append(former.name)
    for key, names in streams.items():
        yield (
            f"the tables of {', '.join(names)} are encrypted with {key}, and the configuration does not name this key any more:"
            " add it to former_keys under [storage] until these tables are deleted"
        )


def _describe_origin(stream: Stream) -> str:
    return f"a rollup of {stream.source}" if stream.source else "events that were sent"
