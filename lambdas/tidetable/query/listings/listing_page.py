"""The page of a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidetable.query.listings.listing_parameters import Listing, Place, find_place
from tidetable.query.listings.names import NameRecord
from tidetable.query.model import Reader
from tidetable.query.page import ComputedRows

if TYPE_CHECKING:
    from tidetable.query.typed import Kind

_TYPES = {"number": "number", "text": "string", "truth": "boolean"}
_TIMES = ("first", "first_within", "last", "last_within")
_COLUMNS = {"series": ("series", *_TIMES), "fields": ("field", "types", *_TIMES), "values": ("value", "type", *_TIMES)}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("first", "last"), "time"),
    **dict.fromkeys(("series", "field", "types", "value", "type", "first_within", "last_within"), "text"),
}


@dataclass(slots=True, kw_only=True)
class Listed(ComputedRows):
    """A page of names or values. ``name`` is the kind of the listing. ``places`` are the places of its rows in order.

    ``earlier`` are the sources that were read for earlier pages.
    """

    name: str
    listing: Listing
    reader: Reader
    places: Sequence[Place] = ()
    earlier: Sequence[dict[str, Any]] = ()
    # A value may be as long as an item, so a page may be too large for an answer.
    bounded = False
    times = ("first", "last")
    kinds = _KINDS

    @property
    def columns(self) -> Sequence[str]:
        return _COLUMNS[self.name]

    def list_sources(self) -> list[dict[str, Any]]:
        """Describe the sources of this page and of the pages before it, each once."""
        sources = [*self.earlier, *ComputedRows.list_sources(self)]
        return list({tuple(source.items()): source for source in sources}.values())

    def show(self, names: Sequence[tuple[Place, NameRecord]], listing: Listing, *, has_more: bool) -> Listed:
        """Return the page with these names, and with the cursor of the listing if there are more."""
        places = [place for place, _ in names]
        following = listing.make_cursor(places[-1] if places else listing.place) if has_more else None
        return replace(
            self,
            rows=[_show_row(listing, record) for _, record in names],
            places=places,
            listing=listing,
            next=None if following is None else self.reader.seal.seal(following),
        )

    def cut_to(self, count: int) -> Listed | None:
        """Cut the page to its first rows, with the cursor that continues after them."""
        if not count:
            return None
        places = self.places[:count]
        following = self.reader.seal.seal(self.listing.make_cursor(places[-1]))
        return replace(self, rows=self.rows[:count], places=places, next=following)


def _show_row(listing: Listing, record: NameRecord) -> dict[str, Any]:
    """Show a name or value as a row."""
    first, last = record.earliest, record.latest
    times = dict(zip(_TIMES, (first.first, first.within, last.last, last.within), strict=True))
    match listing.kind:
        case "series":
            return {"series": record.value, **times}
        case "fields":
            return {"field": record.value, "types": sorted(record.types), **times}
        case "values":
            place = find_place(record.value)
            return {"value": record.value, "type": None if place is None else _TYPES[place.kind], **times}
