"""A table in memory that also knows the sort keys of each partition in order, for simulations with many events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

from tidetable.events import Item
from tidetable.layout import Key
from tidetable.ports import KeyRange


class HeldTable(dict[Key, Item]):
    """The items of a table by their keys."""

    def __init__(self, items: Mapping[Key, Item] | Iterable[tuple[Key, Item]] = ()) -> None:
        super().__init__(items)
        # The sort keys of each partition; None if they are not known any more.
        self._sks: dict[str, list[str]] | None = None

    def __setitem__(self, key: Key, item: Item) -> None:
        if self._sks is not None and key not in self:
            sks = self._sks.setdefault(key[0], [])
            # Most events come in the order of time.
            insort(sks, key[1]) if sks and key[1] < sks[-1] else sks.append(key[1])
        super().__setitem__(key, item)

    def __reduce__(self) -> tuple[Callable[..., HeldTable], tuple[dict[Key, Item]]]:
        return HeldTable, (dict(self),)

    def read_page(self, keys: KeyRange, limit: int, *, ascending: bool) -> tuple[list[Item], bool]:
        """Read the first ``limit`` items of a range of the table's own keys; the second value says whether there are more."""
        if self._sks is None:
            self._sks = {}
            for pk, sk in self:
                self._sks.setdefault(pk, []).append(sk)
            for found in self._sks.values():
                found.sort()
        sks = self._sks.get(keys.pk, [])
        first = 0 if keys.low is None else bisect_left(sks, keys.low)
        last = len(sks) if keys.high is None else bisect_right(sks, keys.high)
        for edge in (keys.after, None if keys.start is None else keys.start["sk"]):
            if edge is not None and ascending:
                first = max(first, bisect_right(sks, edge))
            elif edge is not None:
                last = min(last, bisect_left(sks, edge))
        if keys.prefix:
            sks = [sk for sk in sks[first:last] if sk.startswith(keys.prefix)]
            first, last = 0, len(sks)
        count = max(last - first, 0)
        page = sks[first : first + min(limit, count)] if ascending else sks[last - min(limit, count) : last][::-1]
        # A tuple is as good as a key, and made faster.
        found_keys: Any = zip(repeat(keys.pk), page)
        return list(map(self.__getitem__, found_keys)), limit < count


def _forgetting(name: str) -> Callable[..., Any]:
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._sks = None
        return getattr(dict, name)(self, *args, **kwargs)

    return change


for _name in ("__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(HeldTable, _name, _forgetting(_name))
