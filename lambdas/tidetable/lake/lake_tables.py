"""What a table lists: files of archived periods, and their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from tidetable.errors import TidetableError

# The objects that belong to the tables. A table's objects are never under the prefix of a data file.
LAKE = "iceberg/"


class LakeFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A data file as its manifest describes it: its ``events`` rows, its ``size`` in bytes.

    The bounds of its times (as texts) and its series are empty if the manifest does not have them.
    """

    key: str
    period: str
    events: int
    size: int
    oldest: str = ""
    newest: str = ""
    least: str = ""
    greatest: str = ""


class LakePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """An archived period: when its archive was verified, and its files.

    ``columns`` are those that each file has, with their types. Some files have ``inferred`` columns, too: fields that were
    not declared. None means that nobody noted which.
    """

    label: str
    at: datetime
    columns: Mapping[str, str]
    inferred: Sequence[tuple[str, str]] | None
    files: Sequence[LakeFile]


class LakeChange(NamedTuple):
    """What one commit does: the columns that the table has afterwards, the files that leave and those that come.

    ``hidden`` are columns that files have and the table has not.
    """

    columns: Mapping[str, str]
    hidden: Sequence[str]
    removed: Sequence[str]
    added: Sequence[LakeFile]


class LakeConflict(TidetableError):
    """Somebody else changed the table meanwhile: look again."""


class LakeRefused(TidetableError):
    """The table belongs to somebody else, so it is not touched."""


class LakeTable(Protocol):
    """A table as it was when it was opened."""

    def list_files(self) -> Mapping[str, LakeFile]:
        """List the files of the present snapshot by their keys; a key outside of the bucket is a whole address."""

    def list_columns(self) -> Mapping[str, str]:
        """List the columns with their types."""

    def list_hidden(self) -> Sequence[str]:
        """List the columns of files that the table knows and does not show."""

    def commit(self, change: LakeChange) -> None:
        """Make one new snapshot; LakeConflict if the table is not the opened one any more. Nothing has changed then."""

    def clean(self, now: datetime) -> int:
        """Delete metadata that no kept snapshot needs; return the number of objects."""


class LakeTables(Protocol):
    """The tables of a stage."""

    def open(self, stream: str) -> LakeTable:
        """Open the table of a stream. It is made if it is missing, and anew if its metadata cannot be read.

        LakeRefused if somebody else made a table of this name.
        """

    def drop_others(self, streams: Sequence[str]) -> Sequence[str]:
        """Drop the tables that this code made for other streams; return their names."""
