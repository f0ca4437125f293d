"""The unit of settling of packs, while its items arrive: it is read whole, some events at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from tidetable.events import Item
from tidetable.forms.packed import Opened, Render, open_item, render_json, settle
from tidetable.forms.portions import find_portion_end
from tidetable.layout import Layout
from tidetable.layout.pack import is_pack
from tidetable.ports import Compressor
from tidetable.times import TEXT_LENGTH, from_micros, from_text, to_micros, to_text

# About so many events are opened and settled together. With two fields they take some 80 MB.
_OPENED_TOGETHER = 200_000


class PackUnit:
    """The events with ``low <= time < high`` of one logical partition, while its items arrive in any order.

    With ``series``, packs without events of these series are not opened further. ``note_damaged`` is called with each
    damaged pack that may have held events of the unit. ``look`` is called before each pack is opened: it may raise to
    stop. Packs are held as they are stored, because an event takes 10 bytes in a pack and hundreds as columns; about
    ``together`` events are opened and settled together.
    """

    def __init__(
        self,
        layout: Layout,
        span: int,
        low: str,
        high: str,
        fields: Sequence[str],
        compressor: Compressor,
        note_damaged: Callable[[Item], None],
        look: Callable[[], None],
        series: Sequence[str] = (),
        *,
        render: Render = render_json,
        together: int | None = None,
    ) -> None:
        self._layout = layout
        self._span = span
        self._low = low
        self._high = high
        self._fields = fields
        self._compressor = compressor
        self._note_damaged = note_damaged
        self._look = look
        self._series = series
        self._render = render
        self._together = together or _OPENED_TOGETHER
        self._held: list[tuple[str, str, Item]] = []
        self.held_bytes = 0

    def hold(self, items: Iterable[Item]) -> None:
        """Keep the items that may hold events of the unit."""
        for item in items:
            newest, oldest = item["sk"][:TEXT_LENGTH], str(item.get("oldest", ""))
            if is_pack(item):
                begins_behind = oldest <= newest and oldest >= self._high
                if newest < self._low or begins_behind:
                    continue
                # An ``oldest`` after the newest event is wrong, and so is one that is a span away: such a pack may hold
                # anything.
                if len(oldest) != TEXT_LENGTH or oldest > newest:
                    oldest = ""
                self.held_bytes += len(item["pack"])
            else:
                oldest = newest
            self._held.append((newest, oldest, item))

    def settle_before(self, edge: str | None) -> Iterator[tuple[list[Opened], str]]:
        """Settle the events before ``edge``, of which all copies have arrived; without it, all events.

        Yield the settled events some at a time, in the order of time, with the time before which all are settled.
        """
        edge = self._high if edge is None else min(edge, self._high)
        while self._low < edge:
            end = self._find_end(edge)
            due = [item for newest, oldest, item in self._held if newest >= self._low and oldest < end]
            opened = [found for item in due if (found := self._open(item, end)) is not None]
            self._low = end
            self._drop_passed()
            yield settle(opened), end

    def _open(self, item: Item, end: str) -> Opened | None:
        self._look()
        found = open_item(item, self._fields, self._layout, self._compressor, self._series, self._render)
        if found is None:
            self._note_damaged(item)
            return None
        columns = found.columns
        first, last = bisect_left(columns.times, self._low), bisect_left(columns.times, end)
        if first == 0 and last == len(columns):
            return found
        if first >= last:
            return None
        return found.cut(first, last)

    def _drop_passed(self) -> None:
        self._held = [held for held in self._held if held[0] >= self._low]
        self.held_bytes = sum(len(item.get("pack", b"")) for _, _, item in self._held)

    def _find_end(self, edge: str) -> str:
        """Find the end of the next part, before which there are about as many events as may be opened together."""
        spans = [
            (to_micros(from_text(oldest)) if oldest else 0, to_micros(from_text(newest)) + 1, int(item.get("n", 1)))
            for newest, oldest, item in self._held
        ]
        start, end = to_micros(from_text(self._low)), to_micros(from_text(edge))
        return to_text(from_micros(find_portion_end(spans, start, end, self._together)))
