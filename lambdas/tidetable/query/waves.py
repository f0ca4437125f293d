"""Read the pages of many ranges some at a time, if their items are decoded: items take up to 20 times their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidetable.events import Item
from tidetable.ports import Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

# Six times the connections of a function: so the waves take no longer than all reads together.
AT_ONCE = 48
# A unit is 8 KB of an eventually consistent read (AWS: half a unit per 4 KB), so this is 40 MB. As objects of Python, it
# takes 480 to 800 MB (measured), and the function has 1,024.
MOST_UNITS = 5_000


def measure_item(item: Item) -> int:
    """Count the bytes of an item. A restored item may have a value that no event can have: it counts as the largest."""
    try:
        return count_item_bytes(item)
    except ValueError:
        return MAX_ITEM_BYTES


def cut_reads(
    reads: Sequence[RangeRead], pages: Sequence[Page], *, decoded: bool, consistent: bool
) -> Iterator[Sequence[RangeRead]]:
    """Yield the reads in waves. The caller adds the pages of each wave to ``pages``.

    ProblemError if the pages of a wave do not fit into memory beside those before. Pages that are not decoded take
    little more than their bytes: they are one wave.
    """
    if not decoded:
        yield from [reads] if reads else []
        return
    held, counted = 0.0, 0
    for at in range(0, len(reads), AT_ONCE):
        held, counted = held + count_held_units(pages[counted:], consistent=consistent), len(pages)
        if held > MOST_UNITS:
            detail = f"the {len(reads)} key ranges of these series and shards hold more than a function can compare"
            raise refuse_request(422, "too_much", f"{detail}: lower limit, name fewer series, or leave fields out")
        yield reads[at : at + AT_ONCE]


def count_held_units(pages: Iterable[Page], *, consistent: bool) -> float:
    """Count the units of the items in memory, as an eventually consistent read counts them.

    Items that a filter leaves out were read, but are not in memory.
    """
    units = sum(page.units * len(page.columns.pks) / max(page.read, 1) for page in pages)
    return units / 2 if consistent else units


def refuse_large_items(held: float) -> None:
    """Raise ProblemError if the items of an index, counted in units, do not fit into memory."""
    if held > MOST_UNITS:
        detail = "the index holds larger events than a function can compare"
        raise refuse_request(422, "too_much", f"{detail}: lower limit, or project fewer fields into the index")
