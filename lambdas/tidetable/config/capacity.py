"""``[streams.NAME.capacity]``: the ladder of a period table's capacity and class."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Literal, TypeVar

import msgspec

from tidetable.config.groups import Group

_Units = TypeVar("_Units", bound=tuple[int | None, int | None])
Mode = Literal["provisioned", "on-demand"]
# A table keeps its units for 15 minutes after its period's end. Until then events of the busy period still come: from
# senders whose clocks are slow (5 minutes; for fast clocks ``ahead`` allows the same by default), from requests under
# way (half a minute), and from the overflow, whose drain tries a message again after 6 and after 12 minutes. The table
# does not wait for a longer backlog: the drain writes it with the units of the late step. A backfill of the period
# raises the table meanwhile.
LATE_SETTLE = timedelta(minutes=15)
# Whole periods since a table closed; or "late", for the time between the period's end and the table's closing.
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
    """The least and the greatest units between which auto scaling follows the traffic.

    ``target`` is the wanted use in percent.
    """

    min: int
    max: int
    target: int = 70


class Autoscaling(Group, frozen=True, kw_only=True):
    """``autoscaling``: the units that Application Auto Scaling sets for open tables and their indexes.

    The ladder sets all other units.
    """

    write: Range | None = None
    read: Range | None = None

    @property
    def sides(self) -> dict[str, Range]:
        """The ranges by the name of their side."""
        sides = {"write": self.write, "read": self.read}
        return {side: scaled for side, scaled in sides.items() if scaled is not None}

    @property
    def text(self) -> str:
        """The policy in one line. Two policies that differ have different lines."""
        return " ".join(f"{side} {units.min}-{units.max}@{units.target}" for side, units in self.sides.items())


class LadderStep(Group, frozen=True, kw_only=True):
    """One step of the ladder. Age 0 holds from the start, age 1 from the table's closing, age 2 one period later.

    A table has the age "late" if its period is over, but it still takes late events (``tidetable.late``). ``write`` and
    ``read`` are DynamoDB units per second (None on demand). ``index`` has the units of each index that needs other
    units than the table. ``mode`` is the step's billing mode if it differs from the ladder's.
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

    ``warm`` is the throughput for which a new table is prepared before its first event. ``max`` is the greatest number
    of units that an on-demand table may use.
    """

    mode: Mode = "on-demand"
    warm: Units | None = None
    most: Units | None = msgspec.field(name="max", default=None)
    autoscaling: Autoscaling | None = None
    ladder: tuple[LadderStep, ...] = (LadderStep(age=0),)

    def step_at(self, age: int, *, lowered: bool = False) -> LadderStep:
        """Return the step that holds at an age in periods.

        ``lowered`` says that the period is over and the late step holds.
        """
        reached = (age, lowered or age > 0)
        return max((step for step in self.ladder if step.rung <= reached), key=lambda step: step.rung)

    @property
    def begins_on_demand(self) -> bool:
        """True if new tables are on demand."""
        return self.on_demand(self.ladder[0])

    def find_most_writes(self, units: int) -> int:
        """Find the most write units that an open table, or an index of it, may get. It begins with ``units``."""
        scaled = None if self.autoscaling is None else self.autoscaling.write
        return units if scaled is None else max(units, scaled.max)

    @property
    def late_step(self) -> LadderStep | None:
        """The step for tables whose period is over and which still take late events."""
        return next((step for step in self.ladder if step.is_late), None)

    @property
    def maxima(self) -> tuple[int, int] | None:
        """The greatest numbers of write units and read units that an on-demand table may use."""
        return None if self.most is None else (self.most.write, self.most.read)

    def on_demand(self, step: LadderStep) -> bool:
        """True if a step of this ladder is on demand."""
        return (step.mode or self.mode) == "on-demand"


def find_index_units(index: str, index_units: Mapping[str, tuple[int, int]], table: _Units) -> tuple[int, int] | _Units:
    """Find the write and read units of an index: its own units or, if it has none, the units of its ``table``."""
    return index_units.get(index, table)
