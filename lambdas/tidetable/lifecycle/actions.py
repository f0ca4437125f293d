"""The actions of a plan: each is a small change of one table, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidetable.catalog import Entry, Opened, State
from tidetable.config import Autoscaling, TableClass
from tidetable.lifecycle.ladder import Level
from tidetable.period_tables import make_parts_spec
from tidetable.ports import TableSpec


@dataclass(frozen=True)
class Action:
    """A change of the table that ``entry`` records. ``name`` is its kind's name in reports.

    Kinds run in the order of their ``rank``: the table that the next event needs comes before everything else.
    """

    name: ClassVar[str]
    rank: ClassVar[int]

    entry: Entry
    reason: str

    def __init_subclass__(cls, *, name: str, rank: int) -> None:
        cls.name, cls.rank = name, rank


@dataclass(frozen=True)
class Create(Action, name="create", rank=0):
    """Record the period if it is new, create its table, wait until it is active, and open it."""

    spec: TableSpec
    recoverable: bool = False

    @property
    def specs(self) -> list[TableSpec]:
        """The table, and the one beside it if the layout has it."""
        return [self.spec, make_parts_spec(self.spec)] if self.entry.layout.parts else [self.spec]


@dataclass(frozen=True)
class Open(Action, name="open", rank=1):
    """Mark a table that has become active."""

    recoverable: bool = False


@dataclass(frozen=True)
class Reopen(Action, name="reopen", rank=2):
    """Let a backfill write to a past period that has its table."""

    opened: Opened

    @property
    def state(self) -> State:
        """Open, so that nobody archives it meanwhile; a table that is still being made is opened by what makes it."""
        return State.OPEN if self.entry.state is State.CLOSED else self.entry.state


class Unscale(Action, name="unscale", rank=3):
    """Take the table from Application Auto Scaling, before its capacity is the ladder's again."""


@dataclass(frozen=True)
class SetCapacity(Action, name="capacity", rank=4):
    """Change the units of the table and its indexes, or the billing mode, to what the level says."""

    level: Level
    # Whether a unit of the table or of an index is lowered: such a change can wait, and is counted by AWS.
    lowers: bool = False


@dataclass(frozen=True)
class SetClass(Action, name="class", rank=5):
    """Change the table class."""

    table_class: TableClass


@dataclass(frozen=True)
class Scale(Action, name="scale", rank=6):
    """Let the table's units follow its traffic; repeated at every run until it was confirmed."""

    policy: Autoscaling


@dataclass(frozen=True)
class Copy(Action, name="copy", rank=7):
    """Begin the making of a copy in another Region, of the table beside the period table first."""

    region: str


class Close(Action, name="close", rank=8):
    """Mark a table that has left the writable window."""


class Archive(Action, name="archive", rank=9):
    """Write the table to S3, read it back and compare."""


@dataclass(frozen=True)
class Delete(Action, name="delete", rank=10):
    """Delete a table: one whose archive is verified or, if ``unarchived``, one that its stream's policy gives up."""

    unarchived: bool


@dataclass(frozen=True)
class DeleteCopy(Action, name="delete-copy", rank=11):
    """Begin the deletion of one of the copies of a table that is to be deleted, under the conditions of ``Delete``."""

    unarchived: bool


class Finding(Action, name="finding", rank=12):
    """A report about a table, with the outcome of its kind; nothing is done."""

    outcome: ClassVar[str]

    def __init_subclass__(cls, *, name: str, rank: int, outcome: str) -> None:
        super().__init_subclass__(name=name, rank=rank)
        cls.outcome = outcome


class Deferred(Finding, name="deferred", rank=12, outcome="deferred"):
    """A change that AWS would refuse now; ``reason`` says until when."""


class Lost(Finding, name="lost", rank=13, outcome="lost"):
    """A table that the catalog says lives is not there. It may have held events, so it is never made anew, but reported."""


class Unseen(Finding, name="unseen", rank=14, outcome="failed"):
    """A table that could not be described: it is left alone until a later run can."""


class Stuck(Finding, name="stuck", rank=15, outcome="failed"):
    """A table is in a state that does not pass: nothing is begun that would only wait for it."""


class CopyTrouble(Finding, name="copy-trouble", rank=16, outcome="failed"):
    """A copy in another Region is missing or of no use: somebody must act, and other tables go on."""
