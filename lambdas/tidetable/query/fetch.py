"""Fetching a stage: its partitions read at once, and handed on in order as far as all of them have been read.

Pages are as large as what is still wanted needs, evenly spread, and a little more: a page of a hundred over sixteen suffixes
reads eight of each, and then a few more of those that had more than their share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil, sqrt
from operator import itemgetter
from typing import Any, NamedTuple

from tidetable.events import Item
from tidetable.exact import decode_json
from tidetable.ports import Asked, KeyRange, Page, Plain

# So many stages are begun at once, at the most.
AHEAD = 8
# A query costs half a unit at the least, which is four events of 1 KB.
_LEAST = 4
# An item on its way to an answer: its place in the order of its stage, its partition key, its sort key, and the item itself or,
# of a plain event, its data as JSON text. It is a plain tuple, because zip makes those from columns without a call for each.
Found = tuple[Any, str, str, Item | str]

Fetch = Callable[[Sequence[Asked]], Sequence[Page]]


def share(wanted: int, partitions: int) -> int:
    """How many items to ask of each of some partitions for so many in all, if they are spread by chance."""
    mean = wanted / partitions
    return wanted if partitions == 1 else min(wanted, max(_LEAST, ceil(mean + 0.6 * sqrt(mean))))


@dataclass(slots=True)
class _Partition:
    """A range that is being read: what was read and not handed on, and where it goes on."""

    keys: KeyRange
    place: str
    limit: int
    spread: bool = False
    more: bool = True
    plain: bool = True
    waiting: list[Found] = field(default_factory=list)
    edge: str | None = None

    def take_in(self, page: Page) -> None:
        self.more = page.more
        self.plain = self.plain and not page.items
        after: str | None = None
        if page.plain is not None and page.plain.sks:
            pks, sks, texts = page.plain
            places = list(map(self._across, sks)) if self.spread else sks
            self.waiting += zip(places, pks, sks, texts, strict=True)
            after = sks[-1]
        elif page.items:
            places = [self._across(item["sk"]) if self.spread else item[self.place] for item in page.items]
            found = zip(places, page.items, strict=True)
            self.waiting += [(place, item["pk"], item["sk"], item) for place, item in found]
            after = page.items[-1]["sk"] if self.spread else places[-1]
        if page.last is not None:
            # A filter may have left out what was read last.
            after = page.last["sk" if self.spread else self.place]
        if after is not None:
            self.edge = self._across(after) if self.spread else after
            self.keys = replace(self.keys, after=after)

    def _across(self, sk: str) -> str:
        """A sort key of a table that is partitioned by series as it is in the order of all series."""
        stamp, _, id = sk.rpartition("#")
        return f"{stamp}#{self.keys.pk.rpartition('#')[0]}#{id}"

    def up_to(self, edge: str | None, *, ascending: bool) -> list[Found]:
        """What may be handed on, because no other partition can have anything before it."""
        if edge is None:
            taken, self.waiting = self.waiting, []
            return taken
        places = [found[0] for found in self.waiting]
        end = bisect_right(places, edge) if ascending else len(places) - bisect_left(places[::-1], edge)
        taken, self.waiting = self.waiting[:end], self.waiting[end:]
        return taken


class Batch(NamedTuple):
    """Items in order, and the place up to which everything was read; None if that is the end.

    ``plain`` says that all of them are plain events, whose data is text.
    """

    found: list[Found]
    edge: str | None
    plain: bool = False


@dataclass(slots=True)
class Wanted:
    """How many events are still wanted, and whether a filter lets only some through, nobody knows how many."""

    count: int
    filtered: bool


def first_asked(ranges: Sequence[KeyRange], wanted: int) -> list[Asked]:
    """The first pages of a stage."""
    return [Asked(keys, share(wanted, len(ranges))) for keys in ranges]


def batches(
    asked: Sequence[Asked],
    pages: Sequence[Page],
    fetch: Fetch,
    wanted: Wanted,
    *,
    ascending: bool,
    spread: bool = False,
) -> Iterator[Batch]:
    """The items of a stage in order, a batch at a time, from its first pages on; more is read only when a batch was used up.

    Ranges that are ``spread`` are of several series, whose sort keys do not name them: the places of their items do.
    """
    partitions = [
        _Partition(keys, keys.index.sk if keys.index is not None and not spread else "sk", limit, spread)
        for keys, limit in asked
    ]
    for partition, page in zip(partitions, pages, strict=True):
        partition.take_in(page)
    while True:
        unread = [partition for partition in partitions if partition.more]
        if all(partition.edge is not None for partition in unread):
            edges = [partition.edge for partition in unread if partition.edge is not None]
            edge = (min(edges) if ascending else max(edges)) if edges else None
            plain = all(partition.plain for partition in partitions)
            yield Batch(_merged(partitions, edge, ascending=ascending), edge, plain)
        if not unread:
            return
        # Those that hold the others up: at least the one whose edge it was.
        due = [partition for partition in unread if not partition.waiting]
        held = sum(len(partition.waiting) for partition in partitions)
        for partition in due:
            partition.limit = _next_limit(partition.limit, wanted, held, len(due))
        found = fetch([Asked(partition.keys, partition.limit) for partition in due])
        for partition, page in zip(due, found, strict=True):
            partition.take_in(page)


def _next_limit(before: int, wanted: Wanted, held: int, partitions: int) -> int:
    """What is wanted beyond what waits already; with a filter twice as many each time, as what it lets through may be rare."""
    return 2 * before if wanted.filtered else share(max(wanted.count - held, _LEAST), partitions)


def _merged(partitions: Sequence[_Partition], edge: str | None, *, ascending: bool) -> list[Found]:
    runs = [run for partition in partitions if (run := partition.up_to(edge, ascending=ascending))]
    if len(runs) == 1:
        return runs[0]
    # Sorting sorted runs is what Python's sort is best at.
    return sorted(chain.from_iterable(runs), key=itemgetter(0), reverse=not ascending)


def plain_of(found: Sequence[Found]) -> Plain:
    """Plain events as columns."""
    if not found:
        return Plain((), (), ())
    _, pks, sks, texts = zip(*found, strict=True)
    return Plain(pks, sks, texts)


def items_of(found: Sequence[Found]) -> list[Item]:
    """The items themselves. What is merged with a page that is not plain becomes items, too."""
    return [
        {"pk": pk, "sk": sk, "data": decode_json(held)} if isinstance(held, str) else held for _, pk, sk, held in found
    ]
