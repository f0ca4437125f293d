"""The catalog's entries: one for every period table there ever was, with its frozen layout and its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tidetable.config import TableClass
from tidetable.keys import Layout
from tidetable.periods import Period


class State(StrEnum):
    """Where a period table is in its life, in this order; from archived or deleted it may be restored, to closed."""

    CREATING = "creating"
    OPEN = "open"
    CLOSED = "closed"
    ARCHIVING = "archiving"
    ARCHIVED = "archived"
    DELETED = "deleted"
    RESTORING = "restoring"


# States in which the table itself holds the events; in the others they are in the archive, or gone by policy.
LIVE = frozenset({State.CREATING, State.OPEN, State.CLOSED, State.ARCHIVING})
# States in which a write may still land in the table. Archiving is none: the scan must not be overtaken by a write.
WRITABLE = frozenset({State.CREATING, State.OPEN, State.CLOSED})


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What the catalog keeps of a verified archive: where its manifest is, its size, and when it was verified."""

    manifest: str
    events: int
    bytes: int
    at: datetime


class Seen(NamedTuple):
    """What a table was last seen to have: units (None on demand), its class, and the units of its indexes by name."""

    write: int | None
    read: int | None
    table_class: TableClass
    indexes: tuple[tuple[str, tuple[int, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One period table of one stream.

    ``seen`` spares the lifecycle a look at a table that needs no change; ``keep_until`` keeps a restored one so long; ``scaled``
    says that Application Auto Scaling tends it.
    """

    stream: str
    period: Period
    table: str
    layout: Layout
    state: State
    created_at: datetime
    archive: ArchiveFacts | None = None
    deleted_at: datetime | None = None
    seen: Seen | None = None
    keep_until: datetime | None = None
    scaled: bool = False

    @property
    def live(self) -> bool:
        """Whether reads go to the table."""
        return self.state in LIVE

    @property
    def writable(self) -> bool:
        """Whether writes may go to the table."""
        return self.state in WRITABLE


def entry_at(entries: Iterable[Entry], instant: datetime) -> Entry | None:
    """The entry whose period holds the instant; periods of one stream never overlap."""
    return next((entry for entry in entries if instant in entry.period), None)
