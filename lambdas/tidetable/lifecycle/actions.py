"""The actions of a plan: each is a small change of one table, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidetable.catalog import Entry, Opened, State
from tidetable.config import Autoscaling, TableClass
from tidetable.lifecycle.ladder import Level
from tidetable.period_tables import beside as beside
from tidetable.ports import TableSpec


@dataclass(frozen=True, slots=True)
class Action:
    """A change of the table that ``entry`` records."""

    name: ClassVar[str] = "?"
    # The order in which kinds of actions run: the table that the next event needs comes before everything else.
    rank: ClassVar[int] = 0

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class Create(Action):
    """Record the period if it is new, ask for its table, wait until it is active, and open it."""

    name: ClassVar[str] = "create"
    rank: ClassVar[int] = 0

    spec: TableSpec
    recoverable: bool = False

    @property
    def specs(self) -> list[TableSpec]:
        """The table, and the one beside it if the layout has it."""
        return [self.spec, beside(self.spec)] if self.entry.layout.parts else [self.spec]


@dataclass(frozen=True, slots=True)
class Open(Action):
    """Mark a table that has become active."""

    name: ClassVar[str] = "open"
    rank: ClassVar[int] = 1

    recoverable: bool = False


@dataclass(frozen=True, slots=True)
class Reopen(Action):
    """Let a backfill write to a past period that has its table."""

    name: ClassVar[str] = "reopen"
    rank: ClassVar[int] = 2

    opened: Opened

    @property
    def state(self) -> State:
        """Open, so that nobody archives it meanwhile; a table that is still being made is opened by what makes it."""
        return State.OPEN if self.entry.state is State.CLOSED else self.entry.state


@dataclass(frozen=True, slots=True)
class Unscale(Action):
    """Take the table from Application Auto Scaling, before its capacity is the ladder's again."""

    name: ClassVar[str] = "unscale"
    rank: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class SetCapacity(Action):
    """Change the units of the table and its indexes, or the billing mode, to what the level says."""

    name: ClassVar[str] = "capacity"
    rank: ClassVar[int] = 4

    level: Level
    # Whether a unit of the table or of an index is lowered: such a change can wait, and is counted by AWS.
    lowers: bool = False


@dataclass(frozen=True, slots=True)
class SetClass(Action):
    """Change the table class."""

    name: ClassVar[str] = "class"
    rank: ClassVar[int] = 5

    table_class: TableClass


@dataclass(frozen=True, slots=True)
class Scale(Action):
    """Let the table's units follow its traffic; repeated at every run until it was confirmed."""

    name: ClassVar[str] = "scale"
    rank: ClassVar[int] = 6

    policy: Autoscaling


@dataclass(frozen=True, slots=True)
class Close(Action):
    """Mark a table that has left the writable window."""

    name: ClassVar[str] = "close"
    rank: ClassVar[int] = 7


@dataclass(frozen=True, slots=True)
class Archive(Action):
    """Write the table to S3, read it back and compare."""

    name: ClassVar[str] = "archive"
    rank: ClassVar[int] = 8


@dataclass(frozen=True, slots=True)
class Delete(Action):
    """Delete a table: one whose archive is verified or, if ``unarchived``, one that its stream's policy gives up."""

    name: ClassVar[str] = "delete"
    rank: ClassVar[int] = 9

    unarchived: bool


@dataclass(frozen=True, slots=True)
class Finding(Action):
    """Nothing to do, but something to say."""

    outcome: ClassVar[str] = "?"


@dataclass(frozen=True, slots=True)
class Deferred(Finding):
    """A change that AWS would refuse now; ``reason`` says until when."""

    name: ClassVar[str] = "deferred"
    rank: ClassVar[int] = 10
    outcome: ClassVar[str] = "deferred"


@dataclass(frozen=True, slots=True)
class Lost(Finding):
    """A table that the catalog says lives is not there. It may have held events, so it is never made anew, but reported."""

    name: ClassVar[str] = "lost"
    rank: ClassVar[int] = 11
    outcome: ClassVar[str] = "lost"


@dataclass(frozen=True, slots=True)
class Unseen(Finding):
    """A table that could not be described: it is left alone until a later run can."""

    name: ClassVar[str] = "unseen"
    rank: ClassVar[int] = 12
    outcome: ClassVar[str] = "failed"


@dataclass(frozen=True, slots=True)
class Stuck(Finding):
    """A table is in a state that does not pass: nothing is begun that would only wait for it."""

    name: ClassVar[str] = "stuck"
    rank: ClassVar[int] = 13
    outcome: ClassVar[str] = "failed"
