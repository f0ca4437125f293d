"""Open the items of a table of packs, and show settled events as plain items. Of all modules that read in order, only
this module opens packs, and looks at the time meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidetable.events import Item
from tidetable.layout.pack import is_pack
from tidetable.ports import ItemColumns
from tidetable.query.model import Position
from tidetable.query.packs.scan import PackScan, make_damaged_gap
from tidetable.query.session import ReadSession
from tidetable.query.units import OutOfTime
from tidetable.times import TEXT_LENGTH, from_text

if TYPE_CHECKING:
    from tidetable.packs import OpenedItem, WalkedRun


# Without time, a pass that could not settle any event takes this many packs before it stops: that needs less than
# ``RESERVE``. A pack that is opened counts as many packs as its opening takes.
_TAKEN_ANYWAY, _OPENED_AS = 5_000, 25


class PackOpener:
    """Opens the items of one scan. Several series are read together, in the order of all their events.

    ``taken`` counts the packs that were taken from pages.
    """

    def __init__(self, scan: PackScan, session: ReadSession) -> None:
        from tidetable.packs import open_item

        self._scan = scan
        self._session = session
        self.taken = 0
        self._open_item = open_item
        self._of_series = len(scan.partitions) > 1
        self._layout = scan.entry.layout.find_ordering_layout(None if self._of_series else "")

    def check_time(self, *, has_advanced: bool) -> None:
        """Raise OutOfTime if the time is up, and the pass has advanced or has taken enough packs anyway."""
        if (has_advanced or self.taken > _TAKEN_ANYWAY) and not self._session.has_time:
            raise OutOfTime

    def may_hold(self, item: Item) -> bool:
        """True if an item may hold events of the scan."""
        self.taken += 1
        newest, oldest = item["sk"][:TEXT_LENGTH], str(item.get("oldest", ""))
        begins_behind = oldest <= newest and oldest + "#" >= self._scan.high
        return not (is_pack(item) and (begins_behind or newest + "$" <= self._scan.low))

    def open(self, item: Item) -> OpenedItem:
        """Open an item. A damaged pack has a ``problem`` and no events."""
        self.taken += _OPENED_AS
        opened = self._open_item(item, self._layout, self._session.reader.unpacker.compressor, self._scan.series)
        plain = opened.problem is None and not opened.hash
        return _place_across(opened) if self._of_series and plain else opened

    def note_damaged(self, item: Item) -> None:
        """Note the gap that a damaged pack leaves in the scan."""
        gap = make_damaged_gap(self._scan, item)
        if gap is not None:
            self._session.note_gap(gap, self._scan.entry, item["pk"], item["sk"])

    def read_names(self, address: str, place: str) -> tuple[str, str, str]:
        """Return the text of the time, the series and the id of an event, from its address and its place."""
        return self._layout.parse_names(address, place)

    def find_position(self, place: str) -> Position:
        """Find the position of the event at a place."""
        time, series, id = self._layout.parse_names(f"{self._scan.partitions[0]}#0", place)
        return Position(from_text(time), series, id)

    def make_columns(self, run: WalkedRun) -> ItemColumns:
        """Make columns of plain items from settled events. Instead of a partition key they have the pack's address."""
        places: Sequence[str] = run.places
        if self._of_series:
            places = [f"{place[:TEXT_LENGTH]}{place[place.rindex('#') :]}" for place in places]
        return ItemColumns(run.addresses, places, run.values)


def find_oldest(item: Item) -> str:
    """Return the time of an item's oldest event; the empty text if the item does not say it, or says it wrongly.

    A time after the newest event is wrong. Such a pack is opened, so that its events or its damage are found.
    """
    newest: str = item["sk"][:TEXT_LENGTH]
    if not is_pack(item):
        return newest
    oldest: Any = item.get("oldest")
    return oldest if isinstance(oldest, str) and len(oldest) == TEXT_LENGTH and oldest <= newest else ""


def _place_across(opened: OpenedItem) -> OpenedItem:
    """Give a plain item of a table that is partitioned by series its place in the order of all series."""
    (sk,) = opened.places
    series = opened.address.rpartition("#")[0]
    return opened._replace(places=[f"{sk[:TEXT_LENGTH]}#{series}{sk[TEXT_LENGTH:]}"])
