"""``[streams.NAME.capacity]``: the ladder of a period table's capacity and class."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from tidetable.config.groups import Group

Mode = Literal["provisioned", "on-demand"]
# Whole periods since a table closed, or the step between the period's end and the closing.
Age = int | Literal["late"]
LATE: Literal["late"] = "late"


class TableClass(StrEnum):
    """DynamoDB's table classes, as the configuration spells them."""

    STANDARD = "standard"
    INFREQUENT = "infrequent-access"


class Units(Group, frozen=True, kw_only=True):
    """Write and read units per second."""

    write: int
    read: int


class Range(Group, frozen=True, kw_only=True):
    """Between which units to follow the traffic, and at what percentage of them it should run."""

    min: int
    max: int
    target: int = 70


class Autoscaling(Group, frozen=True, kw_only=True):
    """``autoscaling``: what Application Auto Scaling does with an open table and its indexes; the rest is the ladder's."""

    write: Range | None = None
    read: Range | None = None

    @property
    def text(self) -> str:
        """The policy in one line. Two policies that differ have different lines."""
        sides = (("write", self.write), ("read", self.read))
        return " ".join(f"{side} {units.min}-{units.max}@{units.target}" for side, units in sides if units is not None)


class Step(Group, frozen=True, kw_only=True):
    """One step of the ladder, in force from ``age`` whole periods after the table closed; 0 is every table before that.

    The age "late" is a table whose period is over and which still takes late events (``tidetable.late``). ``write`` and
    ``read`` are DynamoDB units per second (None on demand), ``index`` those of indexes that need others than the table, and
    ``mode`` the billing mode if it is not the ladder's.
    """

    age: Age
    write: int | None = None
    read: int | None = None
    mode: Mode | None = None
    index: Mapping[str, Units] = msgspec.field(default_factory=dict)
    table_class: TableClass = msgspec.field(name="class", default=TableClass.STANDARD)

    @property
    def is_late(self) -> bool:
        """True if this is the step for late events."""
        return self.age == LATE

    @property
    def rung(self) -> tuple[int, bool]:
        """The position of the step in the ladder: the step for late events comes after age 0 and before age 1."""
        return (0, True) if self.age == "late" else (self.age, False)


class Capacity(Group, frozen=True, kw_only=True):
    """``[streams.NAME.capacity]``: billing mode and the ladder that a period table descends as it ages.

    ``warm`` is the throughput that a table is made for before its first event, ``max`` what an on-demand table may take.
    """

    mode: Mode = "on-demand"
    warm: Units | None = None
    most: Units | None = msgspec.field(name="max", default=None)
    autoscaling: Autoscaling | None = None
    ladder: tuple[Step, ...] = (Step(age=0),)

    def step_at(self, age: int, *, lowered: bool = False) -> Step:
        """The step in force at an age in periods; ``lowered`` tells that the table's period has ended and settled."""
        reached = (age, lowered or age > 0)
        return max((step for step in self.ladder if step.rung <= reached), key=lambda step: step.rung)

    @property
    def late_step(self) -> Step | None:
        """The step for tables whose period is over and which still take late events."""
        return next((step for step in self.ladder if step.is_late), None)

    @property
    def maxima(self) -> tuple[int, int] | None:
        """Write and read units that an on-demand table may take at the most."""
        return None if self.most is None else (self.most.write, self.most.read)

    def on_demand(self, step: Step) -> bool:
        """True if a step of this ladder is on demand."""
        return (step.mode or self.mode) == "on-demand"
