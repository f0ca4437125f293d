"""The ports and settings that archiving needs, and the policy that it follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidetable.archive.ports import Completer, Format, Objects, Source, TableSource
from tidetable.catalog import Entry
from tidetable.config import ArchivePolicy, Config, Stream
from tidetable.lifecycle.known import find_recorded_policy
from tidetable.ports import Catalog, Clock, Pools, Tables


@dataclass(slots=True)
class Exporter:
    """The ports that archiving needs.

    A part ends after ``part_bytes`` of scanned pages: this limits a segment's memory. ``time_travel`` is for the local
    stage alone. Its lifecycle can run as if it were later. Then it closes and archives a table whose period is still in
    the window, and the export allows that. On AWS the export refuses such a table. There a closed period can be in the
    window after its stream's ``late`` was raised, and then it takes events.
    """

    config: Config
    catalog: Catalog
    tables: Tables
    source: TableSource
    objects: Objects
    format: Format
    clock: Clock
    completer: Completer
    pools: Pools
    part_bytes: int = 32_000_000
    time_travel: bool = False

    def policy(self, stream: str) -> ArchivePolicy:
        """Return the archive policy of a stream, even of a removed stream; the default policy if no policy is recorded."""
        settings = self.stream(stream)
        return settings.archive if settings is not None else ArchivePolicy()

    def maximum_read(self, stream: str) -> int | None:
        """Return the greatest number of read units that the stream's tables may take on demand; None without a limit."""
        settings = self.stream(stream)
        maxima = settings.capacity.maxima if settings is not None else None
        return maxima[1] if maxima is not None else None

    def late(self, stream: str) -> timedelta:
        """Return how long after a period's end its events are accepted; zero if no policy of the stream is recorded."""
        settings = self.stream(stream)
        return settings.late if settings is not None else timedelta()

    def stream(self, name: str) -> Stream | None:
        """Return the stream's configuration. If the stream was removed, return its last recorded configuration."""
        return self.config.streams.get(name) or find_recorded_policy(name, self.catalog)


def open_source(entry: Entry, exporter: Exporter) -> Source:
    """Return the source that an archive is made from: the table's items or, if the table has packs, the events in the
    packs.
    """
    return exporter.source if entry.layout.pack is None else exporter.source.settled(entry.layout)
