"""How much of each range is read first, and how many ranges at a time: what memory has space for.

Decoded items take up to 20 times their bytes. Texts take little more than their bytes, but AWS ends a page at 1 MB only,
and a query may have thousands of ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from tidetable.events import Item
from tidetable.ports import KeyRange, Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

# Six times the connections of a function: so the waves take no longer than all reads together.
AT_ONCE = 48
# A unit is 8 KB of an eventually consistent read (AWS: half a unit per 4 KB), so this is 40 MB. As objects of Python, it
# takes 480 to 800 MB (measured), and the function has 1,024.
MOST_UNITS = 5_000
# At most this many ranges of texts or of needed fields are read together. If a scan has no more than twice as many, its
# pages fit into memory, whatever they hold.
TEXTS_AT_ONCE = 96
# The bytes of memory that the texts of all ranges may take: enough for the largest event of each of 512 ranges.
MOST_BYTES = 215_000_000


def measure_item(item: Item) -> int:
    """Count the bytes of an item. A restored item may have a value that no event can have: it counts as the largest."""
    try:
        return count_item_bytes(item)
    except ValueError:
        return MAX_ITEM_BYTES


def cut_reads(
    reads: Sequence[RangeRead], pages: list[Page], *, decoded: bool, consistent: bool, ranges: int
) -> Iterator[Sequence[RangeRead]]:
    """Yield the reads in waves. The caller adds the pages of each wave to ``pages``.

    ``ranges`` is as in ``fetch``. ProblemError if the pages of a wave do not fit into memory beside those before.
    """
    if not decoded:
        yield from _cut_texts(reads, pages, ranges)
        return
    held, counted = 0.0, 0
    for at in range(0, len(reads), AT_ONCE):
        held, counted = held + count_held_units(pages[counted:], consistent=consistent), len(pages)
        if held > MOST_UNITS:
            detail = f"the {len(reads)} key ranges of these series and shards hold more than a function can compare"
            raise refuse_request(422, "too_much", f"{detail}: lower limit, name fewer series, or leave fields out")
        yield reads[at : at + AT_ONCE]


def _cut_texts(reads: Sequence[RangeRead], pages: list[Page], ranges: int) -> Iterator[Sequence[RangeRead]]:
    """Yield reads in waves, and shorten their pages, so that each range has an even part of the memory.

    A page keeps its first item at the least. What it loses is read again when the answer has come to it.
    """
    held, count, part = 0, 0, MOST_BYTES // ranges
    for at in range(0, len(reads), TEXTS_AT_ONCE):
        # The pages before show how large an item is: a range is asked for no more items than its part holds.
        most = max(part * count // held, 1) if held else None
        some = reads[at : at + TEXTS_AT_ONCE]
        yield some if most is None else [RangeRead(keys, min(limit, most)) for keys, limit in some]
        for number in range(at, len(pages)):
            pages[number], size = _shorten_page(pages[number], reads[number].keys, part)
            held, count = held + size, count + len(pages[number].columns.pks)
        if held > MOST_BYTES:
            detail = (
                f"the {ranges} key ranges of these series and shards hold larger events than a function can compare"
            )
            raise refuse_request(422, "too_much", f"{detail}: name fewer series, or narrow from and to")


def _shorten_page(page: Page, keys: KeyRange, part: int) -> tuple[Page, int]:
    """Cut a page to the first items that take ``part`` bytes, as if it had ended there; return also their bytes."""
    size, contents = 0, page.columns.contents
    for number, content in enumerate(contents):
        # A text takes up to four times its characters.
        own = content.__sizeof__() if isinstance(content, str) else measure_item(content)
        if number and size + own > part:
            columns = page.columns.first(number)
            last, item = {"pk": columns.pks[-1], "sk": columns.sks[-1]}, contents[number - 1]
            if isinstance(item, dict) and keys.index is not None:
                last |= {name: item[name] for name in (keys.index.pk, keys.index.sk)}
            return replace(page, columns=columns, more=True, last=last), size
        size += own
    return page, size


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
