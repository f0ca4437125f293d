"""The ports and settings that archiving needs, and the policy that it follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidetable.archive.ports import Completer, Format, Objects, Source
from tidetable.catalog import Entry
from tidetable.config import ArchivePolicy, Config, Stream
from tidetable.lifecycle.known import recorded_policy
from tidetable.ports import Catalog, Clock, Pools, Tables


@dataclass(slots=True)
class Exporter:
    """The ports that archiving needs.

    ``part_bytes`` of scanned pages bound a part, and with it the memory of a segment. ``time_travel`` is for the local
    stage alone. Its lifecycle can run as at a later time, and then it archives a table that was closed early. On AWS
    a period may look so, too, after its stream's ``late`` was raised, and such a period takes events.
    """

    config: Config
    catalog: Catalog
    tables: Tables
    source: Source
    objects: Objects
    format: Format
    clock: Clock
    completer: Completer
    pools: Pools
    part_bytes: int = 32_000_000
    time_travel: bool = False

    def policy(self, stream: str) -> ArchivePolicy:
        """The stream's policy.

        The catalog's record of it if the stream was removed; the default without such a record.
        """
        settings = self.stream(stream)
        return settings.archive if settings is not None else ArchivePolicy()

    def maximum_read(self, stream: str) -> int | None:
        """The greatest number of read units that the stream's tables may take on demand; None without a limit."""
        settings = self.stream(stream)
        if settings is None or settings.capacity.most is None:
            return None
        return settings.capacity.most.read

    def late(self, stream: str) -> timedelta:
        """The time after a period's end in which its events are accepted; zero without a recorded policy of the stream."""
        settings = self.stream(stream)
        return settings.late if settings is not None else timedelta()

    def stream(self, name: str) -> Stream | None:
        """The stream's configuration; if the stream was removed, the last one that the catalog recorded."""
        return self.config.streams.get(name) or recorded_policy(name, self.catalog)


def source_of(entry: Entry, exporter: Exporter) -> Source:
    """The table that is archived: its items or, if the table has packs, the events in them."""
    return exporter.source if entry.layout.pack is None else exporter.source.settled(entry.layout)
