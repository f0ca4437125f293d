"""The amounts of a bill: dollars by kind, and the lines of tables, indexes and copies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bill.prices import GB, REGION, TRANSFER, TableCost


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


def price_copies(copied: TableCost, count: int, sent: float) -> Bill:
    """Price ``count`` copies: ``copied`` is the cost of one copy, and each copy receives ``sent`` bytes."""
    return Bill(copies=copied.scale(count), transfer=count * sent / GB * TRANSFER)


def list_lines(subject: str, cost: TableCost, *how: str) -> list[Line]:
    """List the lines of the subject's writes, reads and storage. Each needs an explanation."""
    kinds = zip(("writes", "reads", "storage"), (cost.writes, cost.reads, cost.storage), how, strict=True)
    return [Line(f"{subject}, {kind}", dollars, reason) for kind, dollars, reason in kinds]


def list_copies(bill: Bill, regions: Iterable[str]) -> list[Line]:
    """List the lines of the copies in these Regions; no lines if there are no copies."""
    names = ", ".join(sorted(set(regions)))
    if not names:
        return []
    writes, reads, storage = list_lines(
        "copies",
        bill.copies,
        f"each write of tables and indexes once more in {names}",
        "the provisioned read units of each copy",
        "the same bytes and the same class as in the Region of the stage",
    )
    sent = f"{bill.transfer / TRANSFER:,.2f} GB per month between Regions at ${TRANSFER:.2f}"
    return [writes, *([reads] if reads.dollars else []), storage, Line("copies, transfer", bill.transfer, sent)]


def name_unpriced_copies(regions: Iterable[str]) -> list[str]:
    """Name the costs of copies in these Regions that no line prices."""
    names = ", ".join(sorted(set(regions)))
    if not names:
        return []
    prices = (
        f"the prices of {names}: the copies there are priced as in {REGION}; expect up to 60% more per unit and, between"
        " some Regions, $0.09 per GB and more"
    )
    return [
        prices,
        "the readers of the copies: their queries, their API and their functions",
        "the catalog's copies (cents: two writes per run of the lifecycle and of the refresher)",
    ]
