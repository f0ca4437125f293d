"""The amounts of a bill: dollars by kind, and the lines of tables and indexes."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bill.prices import TableCost


class Line(NamedTuple):
    """A line of a month's bill; ``how`` explains its amount."""

    name: str
    dollars: float
    how: str


class Bill(msgspec.Struct, frozen=True):
    """DynamoDB's bill: tables, their indexes, and copies in other Regions with their indexes.

    ``transfer`` has the dollars of the data that is sent between Regions.
    """

    tables: TableCost = TableCost()
    indexes: TableCost = TableCost()
    copies: TableCost = TableCost()
    transfer: float = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.tables + other.tables,
            self.indexes + other.indexes,
            self.copies + other.copies,
            self.transfer + other.transfer,
        )

    def scale(self, factor: float) -> Bill:
        """Multiply all amounts by a factor."""
        return Bill(
            self.tables.scale(factor), self.indexes.scale(factor), self.copies.scale(factor), self.transfer * factor
        )

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
