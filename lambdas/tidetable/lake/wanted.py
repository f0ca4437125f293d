"""What a table should list: the files of all archived periods, as their manifests say.

A manifest is read once: what a table needs of it is kept in one object per stream. The object is only a copy, so it may be
lost. A period is read again when its archive has another time of verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.ports import Objects
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.lake.columns import list_own_columns
from tidetable.lake.lake_tables import LAKE, LakeFile, LakePeriod
from tidetable.names import name_lake_table
from tidetable.ports import CatalogReader, Pools

# The states in which the archive has all events. While a period is restored, its table may change, and its files may be
# replaced.
_ARCHIVED = frozenset({State.ARCHIVED, State.DELETED})
# Files that will expire before the next runs have left the table already: S3 may delete them at any moment then.
_AHEAD = timedelta(hours=2)
_READ_AT_ONCE = 16
_PERIODS = list[LakePeriod]


def list_archived(stream: str, catalog: CatalogReader, config: Config, now: datetime) -> list[Entry]:
    """List the entries whose archives the table lists, oldest first."""
    entries = (mark_expired(entry, config, now + _AHEAD) for entry in catalog.entries(stream, consistent=True))
    return [entry for entry in entries if entry.state in _ARCHIVED and entry.archived is not None]


class PeriodNotes:
    """The notes of a stream's manifests, in one object."""

    def __init__(self, stream: str, objects: Objects, pools: Pools) -> None:
        self._key = f"{LAKE}{name_lake_table(stream)}/periods.json"
        self._objects = objects
        self._pools = pools

    def read(self, entries: Sequence[Entry]) -> tuple[list[LakePeriod], list[str]]:
        """Read the periods of the entries; also the labels of periods whose manifests are lost."""
        noted = self._find()
        known = {(period.label, period.at): period for period in noted}
        with self._pools(_READ_AT_ONCE) as pool:
            found = list(
                pool.map(
                    lambda entry: known.get((entry.period.label, _find_time(entry))) or self._read_period(entry),
                    entries,
                )
            )
        periods = [period for period in found if period is not None]
        lost = [entry.period.label for entry, period in zip(entries, found, strict=True) if period is None]
        if periods != noted:
            self._objects.put(self._key, msgspec.json.encode(periods))
        return periods, lost

    def _find(self) -> list[LakePeriod]:
        body = self._objects.find(self._key)
        try:
            return [] if body is None else msgspec.json.decode(body, type=_PERIODS)
        except msgspec.DecodeError:
            return []

    def _read_period(self, entry: Entry) -> LakePeriod | None:
        body = None if entry.archive is None else self._objects.find(entry.archive.manifest)
        if body is None:
            return None
        manifest = Manifest.decode(body)
        return LakePeriod(
            label=entry.period.label,
            at=_find_time(entry),
            columns=list_own_columns(manifest.layout) | dict(sorted(manifest.columns.items())),
            inferred=_list_inferred(manifest),
            files=[_describe_file(part, manifest) for part in manifest.parts],
        )


def _find_time(entry: Entry) -> datetime:
    return entry.created_at if entry.archive is None else entry.archive.at


def _list_inferred(manifest: Manifest) -> list[tuple[str, str]] | None:
    """List the undeclared columns of the files with their types; None if a part does not say which it has."""
    columns = [None if part.bounds is None else part.bounds.columns for part in manifest.parts]
    if None in columns:
        return None
    return sorted({pair for part in columns for pair in (part or {}).items()})


def _describe_file(part: Part, manifest: Manifest) -> LakeFile:
    file = LakeFile(key=part.key, period=manifest.period, events=part.events, size=part.size)
    if (bounds := part.bounds) is None:
        return file
    return msgspec.structs.replace(
        file, oldest=bounds.oldest, newest=bounds.newest, least=bounds.least, greatest=bounds.greatest
    )
