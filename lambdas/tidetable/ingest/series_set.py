"""A set of series in little memory."""

from __future__ import annotations

from collections.abc import Iterable

# No text in UTF-8 has this byte.
_END = b"\xff"
_SLOTS = 1 << 14
# Of a slot without its series: a bytes object, a key and their place in a dictionary.
_SLOT_BYTES = 100


class SeriesSet:
    """A set of series. It needs a byte per series beside its text if there are many, and 100 bytes if there are few.

    A set of texts needs 150 bytes per series. Here the series of a slot are one object of bytes, which is searched.
    ``bytes`` is about the memory that the set takes.
    """

    def __init__(self) -> None:
        self._slots: dict[int, bytes] = {}
        self.bytes = 0

    def list_missing(self, series: Iterable[str]) -> list[str]:
        """List the series that are not in the set, in the given order."""
        find = self._slots.get
        return [name for name in series if _END + name.encode() + _END not in find(hash(name) % _SLOTS, b"")]

    def add(self, series: Iterable[str]) -> None:
        """Add series to the set."""
        for name in series:
            slot, text = hash(name) % _SLOTS, name.encode() + _END
            held = self._slots.get(slot)
            if held is None:
                self._slots[slot] = _END + text
                self.bytes += _SLOT_BYTES + len(text)
            elif _END + text not in held:
                self._slots[slot] = held + text
                self.bytes += len(text)
