"""An external sort: items are written as sorted runs, one file per period, and read in the order of their keys."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from pathlib import Path

import msgspec

from aws.zstd import Zstd

# The bytes of items that are in memory. With their keys and Python's objects they take about three times as many.
MEMORY = 200_000_000
# A run is read in pieces of so many items: a merge has one piece of each run in memory, some 100 KB.
_PIECE = 256
_LENGTH = 4
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[tuple[str, str]]).decode
_read_key = itemgetter(0)

# Where a run begins and ends in the file of its period.
Extent = tuple[int, int]
Pair = tuple[str, str]


class Runs:
    """The sorted runs of periods, in a folder. The order of equal keys is that in which they were added."""

    def __init__(self, folder: Path, extents: Mapping[str, Sequence[Extent]], memory: int = MEMORY) -> None:
        """Go on with the runs ``extents``; what a killed process has written behind them is overwritten."""
        self._folder, self._memory = folder, memory
        self.extents = {label: list(own) for label, own in extents.items()}
        self._pairs = defaultdict[str, list[Pair]](list)
        self._size = 0
        self._zstd = Zstd()

    def add(self, label: str, keys: Sequence[str], texts: Sequence[str]) -> bool:
        """Add items of a period. True if the memory is full: then ``spill`` must be called."""
        self._pairs[label] += zip(keys, texts, strict=True)
        self._size += sum(map(len, texts))
        return self._size >= self._memory

    def spill(self) -> None:
        """Write the items in memory as a run of each period."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for label, pairs in self._pairs.items():
            pairs.sort(key=_read_key)
            own = self.extents.setdefault(label, [])
            begin = own[-1][1] if own else 0
            with self._find_file(label).open("r+b" if self._find_file(label).exists() else "w+b") as file:
                file.seek(begin)
                file.truncate()
                for start in range(0, len(pairs), _PIECE):
                    piece = self._zstd.compress(_ENCODE(pairs[start : start + _PIECE]))
                    file.write(len(piece).to_bytes(_LENGTH, "big"))
                    file.write(piece)
                own.append((begin, file.tell()))
                file.flush()
                os.fsync(file.fileno())
        self._pairs.clear()
        self._size = 0

    def list_runs(self, label: str) -> list[Iterator[Pair]]:
        """List readers of a period's runs, in the order in which they were added."""
        return [self._read_run(label, begin, end) for begin, end in self.extents.get(label, ())]

    def _read_run(self, label: str, position: int, end: int) -> Iterator[Pair]:
        while position < end:
            # The file is not kept open: a merge of a thousand runs would need a thousand files.
            with self._find_file(label).open("rb") as file:
                file.seek(position)
                length = int.from_bytes(file.read(_LENGTH), "big")
                piece = file.read(length)
            position += _LENGTH + length
            yield from _DECODE(self._zstd.expand(piece))

    def measure(self, label: str) -> int:
        """Return the bytes of a period's runs."""
        own = self.extents.get(label, ())
        return own[-1][1] if own else 0

    def remove(self, labels: Iterable[str]) -> None:
        """Remove the runs of periods."""
        for label in labels:
            self._find_file(label).unlink(missing_ok=True)

    def _find_file(self, label: str) -> Path:
        return self._folder / f"{label}.run"


def merge_runs(runs: Sequence[Iterator[Pair]]) -> Iterator[Pair]:
    """Merge runs in the order of their keys; equal keys stay in the order of the runs."""
    return merge(*runs, key=_read_key) if len(runs) > 1 else iter(runs[0] if runs else ())
