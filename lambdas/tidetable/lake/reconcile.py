"""Keep the table of a stream equal to the manifests of its archived periods.

Wanted are the files of the manifests, had are the files of the table's snapshot, and one commit makes the difference. The
table is opened before the catalog is read, and a commit counts only if the table is still the opened one. So of two runs at
once the one that read an older catalog changes nothing. A run may stop anywhere: the next run finds the rest of the
difference.

Nothing here writes, reads or deletes a data file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidetable.archive.ports import Objects
from tidetable.config import Config, Stream
from tidetable.config.columns import RESERVED_COLUMNS, is_column_name
from tidetable.lake.columns import Joined, join_columns, list_own_columns
from tidetable.lake.lake_tables import LakeChange, LakeConflict, LakeFile, LakePeriod, LakeTables
from tidetable.lake.wanted import Wanted
from tidetable.ports import Catalog, Clock, Pools

# Two runs at once are rare, and each attempt reads the catalog anew.
_ATTEMPTS = 4
_UNKNOWN = "of an unknown type"


class Reconciled(NamedTuple):
    """What a run did: files that came and left, the files of the table now, and whether it made a commit.

    ``refused`` has the columns that the table cannot have, with the types that their files have. ``lost`` are the labels of
    periods whose manifests are gone.
    """

    added: int
    removed: int
    files: int
    changed: bool
    refused: Mapping[str, tuple[str, ...]]
    lost: Sequence[str]


class Reconciler(msgspec.Struct):
    """The ports and settings of the reconciler."""

    config: Config
    catalog: Catalog
    objects: Objects
    lake_tables: LakeTables
    clock: Clock
    pools: Pools

    def reconcile(self, stream: Stream, label: str = "", *, full: bool = False) -> Reconciled:
        """Make the table equal to the manifests; LakeConflict if others change it again and again.

        LakeRefused if the table belongs to somebody else. ``label`` and ``full`` say which entries are read: see ``Wanted``.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._attempt(stream, label, full=full)
            except LakeConflict:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    def _attempt(self, stream: Stream, label: str, *, full: bool) -> Reconciled:
        table = self.lake_tables.open(stream.name)
        reading = Wanted(stream.name, self.config, self.catalog, self.objects, self.pools)
        periods, lost = reading.read(self.clock.now(), label, full=full)
        wanted = {file.key: file for period in periods for file in period.files}
        joined, had = find_columns(stream, periods), table.list_files()
        removed, added = find_difference(had, wanted)
        had_columns = table.list_columns(), tuple(table.list_hidden())
        changed = bool(removed or added or had_columns != (joined.columns, joined.hidden))
        if changed:
            table.commit(LakeChange(joined.columns, joined.hidden, removed, added))
            table.clean(self.clock.now())
        return Reconciled(len(added), len(removed), len(wanted), changed, joined.refused, lost)


def find_columns(stream: Stream, periods: Sequence[LakePeriod]) -> Joined:
    """Find the columns of a stream's table: those of the archived periods, and those that the next period will have."""
    present = list_own_columns(stream.layout) | dict(sorted(stream.archive.columns.items()))
    declared = [*(period.columns for period in periods), present]
    fields = {name for columns in declared for name in columns if is_column_name(name)} - RESERVED_COLUMNS
    inferred = [
        dict.fromkeys(fields - period.columns.keys(), _UNKNOWN) if period.inferred is None else dict(period.inferred)
        for period in periods
    ]
    return join_columns(declared, inferred)


def find_difference(had: Mapping[str, LakeFile], wanted: Mapping[str, LakeFile]) -> tuple[list[str], list[LakeFile]]:
    """Find the files that leave and those that come. A file with other facts leaves and comes."""
    removed = sorted(key for key, file in had.items() if wanted.get(key) != file)
    return removed, [file for key, file in wanted.items() if had.get(key) != file]
