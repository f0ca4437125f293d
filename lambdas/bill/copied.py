"""The price of copies in other Regions: each costs as much as its table, and receives all of its events."""

from __future__ import annotations

from collections.abc import Iterable

from bill.amounts import Bill, Line, TableCost, list_lines
from bill.prices import GB, REGION, TRANSFER
from tidetable.config import Stream


def price_copies(copied: TableCost, count: int, sent: float) -> Bill:
    """Price ``count`` copies: ``copied`` is the cost of one copy, and each copy receives ``sent`` bytes."""
    return Bill(copies=copied * count, transfer=count * sent / GB * TRANSFER)


def add_copies(bill: Bill, stream: Stream, copied: TableCost, sent: float) -> Bill:
    """Add a copy in each of the stream's Regions, as in ``price_copies``."""
    return bill + price_copies(copied, len(stream.replicas), sent)


def count_regions(stream: Stream) -> int:
    """Count the Regions with the stream's tables: the stage's own Region, and those of its copies."""
    return 1 + len(stream.replicas)


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
    return [
        (
            f"the prices of {names}: the copies there are priced as in {REGION}; expect up to 60% more per unit and, between"
            " some Regions, $0.09 per GB and more"
        ),
        "the readers of the copies: their queries, their API and their functions",
        "the catalog's copies (cents: two writes per run of the lifecycle, one of the scheduler, and a few per worker)",
    ]


def sum_copies(subject: str, bill: Bill, stream: Stream) -> list[Line]:
    """Sum the copies of a stream in one line; no lines if it has none. Reads at copies on demand are not priced."""
    dollars = bill.copies.writes + bill.copies.storage + bill.transfer
    how = f"writes, storage and transfer: {', '.join(stream.replicas)}"
    return [Line(f"{subject}, copies", dollars, how)] if stream.replicas else []
