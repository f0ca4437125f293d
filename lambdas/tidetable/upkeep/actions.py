"""The actions of a plan: each is a small change of one table, with its reason.

The actions for copies in other Regions are in ``copies/table_copies.py``: ``copy`` has rank 7, ``delete-copy`` 11, and
``copy-trouble`` 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidetable.catalog import FENCED, Entry, Opening, State
from tidetable.config import Autoscaling, TableClass
from tidetable.ladder import Level
from tidetable.ports import TableSpec


@dataclass(frozen=True)
class Action:
    """A change of the table that ``entry`` records. ``name`` names this kind of action in reports.

    Actions run in the order of their ``rank``: the creation of the table that the next event needs comes first.
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


@dataclass(frozen=True)
class Open(Action, name="open", rank=1):
    """Mark a table as open, because it has become active."""

    recoverable: bool = False


@dataclass(frozen=True)
class Reopen(Action, name="reopen", rank=2):
    """Let a backfill write to a period that has its table."""

    opened: Opening

    @property
    def state(self) -> State:
        """The period's new state. A closed or retained period becomes open, so that nobody archives it meanwhile.

        A period whose table is still being made keeps its state: the action that makes the table opens it.
        """
        return State.OPEN if self.entry.state in FENCED else self.entry.state


class Unscale(Action, name="unscale", rank=3):
    """Take the table from Application Auto Scaling, before the ladder decides its capacity again."""


@dataclass(frozen=True)
class SetCapacity(Action, name="capacity", rank=4):
    """Change the units of the table and its indexes, or the billing mode, as the level says."""

    level: Level
    # True if units of the table or an index are lowered. Such a change can wait, and AWS limits its number per day.
    lowers: bool = False


@dataclass(frozen=True)
class SetClass(Action, name="class", rank=5):
    """Change the table class."""

    table_class: TableClass


@dataclass(frozen=True)
class Scale(Action, name="scale", rank=6):
    """Let the table's units follow its traffic. Every run repeats this action until the catalog records its success."""

    policy: Autoscaling


class Close(Action, name="close", rank=8):
    """Mark a table as closed, because its period has left the writable window."""


@dataclass(frozen=True)
class Archive(Action, name="archive", rank=9):
    """Write the table to S3, read it back and compare. A table that is to ``retain`` answers on."""

    retain: bool = False


@dataclass(frozen=True)
class Delete(Action, name="delete", rank=10):
    """Delete a table whose archive is verified, or, if ``unarchived``, whose stream's policy wants no archive.

    ``marked`` says that rollups may lack late events of the table: they have waited for their computation too long.
    """

    unarchived: bool
    marked: bool = False


class Finding(Action, name="finding", rank=12):
    """A report about a table, which changes nothing. ``outcome`` is the word for this kind in the run's report."""

    outcome: ClassVar[str]

    def __init_subclass__(cls, *, name: str, rank: int, outcome: str) -> None:
        super().__init_subclass__(name=name, rank=rank)
        cls.outcome = outcome


class Deferred(Finding, name="deferred", rank=12, outcome="deferred"):
    """A change that must wait, for example because AWS would refuse it now; ``reason`` says why, or until when."""


class Lost(Finding, name="lost", rank=13, outcome="lost"):
    """A table that the catalog has does not exist. It may have held events, so it is reported, and never made anew."""


class Unseen(Finding, name="unseen", rank=14, outcome="failed"):
    """A table could not be described. It is left alone until a later run can describe it."""


class Stuck(Finding, name="stuck", rank=15, outcome="failed"):
    """A table is in a state that does not end without an operator. No action that would wait for it is begun."""
