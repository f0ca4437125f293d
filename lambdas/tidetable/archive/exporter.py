"""The ports and settings that archiving needs, and the lease of a period."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from tidetable.archive.manifest import Manifest
from tidetable.archive.ports import Completer, Format, Objects, Source, TableSource, TimeRange
from tidetable.archive.reading import describe_damage
from tidetable.catalog import Entry
from tidetable.config import Config, Stream
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.forms.choose import choose_form
from tidetable.leases import hold_lease, name_archive_lease
from tidetable.ports import Catalog, Clock, Pools, Tables
from tidetable.remaining import Remaining
from tidetable.run_streams import find_recorded_policy
from tidetable.work.claim import WorkRecords
from tidetable.work.schedule import WorkQueue

# A larger table is read by workers.
AT_ONCE_BYTES = 64_000_000


@dataclass(slots=True)
class Exporter:
    """The ports that archiving needs.

    A part ends after ``part_bytes`` of pages, if it is not full before. A segment has about ``segment_bytes`` of its
    table, which a worker reads in two or three minutes. A table with up to ``at_once_bytes`` is read, written and compared
    in a few seconds, so the run that begins its archive does it. ``time_travel`` is for the local
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
    complete: Completer
    pools: Pools
    work: WorkRecords
    work_queue: WorkQueue
    part_bytes: int = 8_000_000_000
    segment_bytes: int = 1_000_000_000
    at_once_bytes: int = AT_ONCE_BYTES
    time_travel: bool = False

    def stream(self, name: str) -> Stream | None:
        """Return the stream's configuration. If the stream was removed, return its last recorded configuration."""
        return self.config.streams.get(name) or find_recorded_policy(name, self.catalog)


def open_source(entry: Entry, exporter: Exporter, range: TimeRange | None = None) -> Source:
    """Return the source of an archive, or of a range of its time: the table's items, or events that are settled first."""
    if range is not None:
        return exporter.source.between(entry.layout, range)
    source: Source = exporter.source
    return choose_form(entry.layout).settle_source(source, lambda layout: exporter.source.settled(layout))


@contextmanager
def hold_period(
    stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining, work: str
) -> Iterator[None]:
    """Hold the lease of a period during a run. ArchiveBusy if another run has it; ``work`` says what that run does."""
    lease, length = name_archive_lease(stream, label), timedelta(seconds=remaining())
    with hold_lease(exporter.catalog, lease, owner, exporter.clock.now(), length) as is_owner:
        if not is_owner:
            raise ArchiveBusy(f"period {label} of {stream} is being {work} by another run")
        yield


def read_manifest(key: str, exporter: Exporter) -> Manifest:
    """Read a manifest; ArchiveFailed if it is missing or damaged."""
    try:
        return Manifest.decode(read_object(key, exporter))
    except ValueError as error:
        raise describe_damage(key, error) from error


def read_manifest_of(entry: Entry, exporter: Exporter) -> Manifest:
    """Read the manifest of a period; ArchiveFailed if it is missing or damaged, or the period has no archive."""
    if entry.archive is None:
        raise ArchiveFailed(f"period {entry.period.label} of {entry.stream} has no archive")
    return read_manifest(entry.archive.manifest, exporter)


def read_object(key: str, exporter: Exporter) -> bytes:
    """Read an object of the archive; ArchiveFailed if it does not exist, for example because somebody deleted it."""
    body = exporter.objects.find(key)
    if body is None:
        raise ArchiveFailed(
            f"the archive's object {key} does not exist: somebody or a rule of the bucket has deleted it"
        )
    return body
