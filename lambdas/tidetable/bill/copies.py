"""The lines of a bill for copies in other Regions, and the costs of copies that no line prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidetable.bill.prices import REGION, TRANSFER
from tidetable.bill.tables import Bill

# Name, dollars and explanation of a line of the bill.
Priced = tuple[str, float, str]


def list_copies(bill: Bill, regions: Iterable[str]) -> Iterator[Priced]:
    """Yield the lines of the copies in these Regions; no lines if there are no copies."""
    names = ", ".join(sorted(set(regions)))
    if not names:
        return
    yield "copies, writes", bill.copy_writes, f"each write of tables and indexes once more in {names}"
    if bill.copy_reads:
        yield "copies, reads", bill.copy_reads, "the provisioned read units of each copy"
    yield "copies, storage", bill.copy_storage, "the same bytes and the same class as in the Region of the stage"
    sent = bill.transfer / TRANSFER
    yield "copies, transfer", bill.transfer, f"{sent:,.2f} GB per month between Regions at ${TRANSFER:.2f}"


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
