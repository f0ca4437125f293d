"""The amounts of a bill: dollars by kind, and the lines of tables and indexes."""

from __future__ import annotations

from operator import add
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import astuple


class Line(NamedTuple):
    """A line of a month's bill; ``how`` explains its amount."""

    name: str
    dollars: float
    how: str


class Amounts(msgspec.Struct, frozen=True):
    """Amounts that are added, and multiplied by a factor, field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))

    def __mul__(self, factor: float) -> Self:
        return type(self)(*(amount * factor for amount in astuple(self)))


class TableCost(Amounts, frozen=True):
    """Dollars of writes, of reads and of storage at DynamoDB."""

    writes: float = 0.0
    reads: float = 0.0
    storage: float = 0.0

    def drop_reads(self) -> TableCost:
        """Return the cost of a copy on demand: the queries at a copy depend on the readers in its Region."""
        return TableCost(self.writes, storage=self.storage)


class Bill(Amounts, frozen=True):
    """DynamoDB's bill: tables, their indexes, and copies in other Regions with their indexes.

    ``transfer`` has the dollars of the data that is sent between Regions.
    """

    tables: TableCost = TableCost()
    indexes: TableCost = TableCost()
    copies: TableCost = TableCost()
    transfer: float = 0.0

    @property
    def whole(self) -> TableCost:
        """The cost of tables, indexes and copies together."""
        return self.tables + self.indexes + self.copies

    @property
    def total(self) -> float:
        """Dollars of the whole bill."""
        return sum(self.document().values())

    def document(self) -> dict[str, float]:
        """The dollars of the writes, the reads, the storage and the transfer."""
        return {**msgspec.structs.asdict(self.whole), "transfer": self.transfer}


def list_lines(subject: str, cost: TableCost, *how: str) -> list[Line]:
    """List the lines of the subject's writes, reads and storage. Each needs an explanation."""
    kinds = zip(("writes", "reads", "storage"), (cost.writes, cost.reads, cost.storage), how, strict=True)
    return [Line(f"{subject}, {kind}", dollars, reason) for kind, dollars, reason in kinds]
