"""The unit of a whole read of packs: all suffixes of one logical partition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidetable.forms.choose import choose_form
from tidetable.forms.field_columns import FieldColumns
from tidetable.forms.pack_unit import PackUnit
from tidetable.layout.pack import shift_time
from tidetable.ports import FieldPage, ItemColumns, Page
from tidetable.query.session import PageKind
from tidetable.query.units import NO_EVENTS, OutOfTime, RangeState, ReadUnit
from tidetable.times import from_text

# The bytes of packs that a unit holds until they can be settled.
_MOST_HELD = 200_000_000


class PackedUnit(ReadUnit):
    """What is read of packs, and of the large events beside them."""

    packs: PackUnit | None = None
    reached: datetime | None = None

    @property
    def kind(self) -> PageKind:
        return PageKind(as_columns=False)

    def take(self, state: RangeState, page: Page | FieldPage) -> Iterator[FieldColumns]:  # noqa: ARG002 - as of the others
        """Take a page of packs: its events are settled later."""
        assert self.packs is not None  # noqa: S101 - PackedReading sets it
        assert isinstance(page, Page)  # noqa: S101 - packs are not read as columns
        self.packs.hold(page.items)
        yield from ()

    def settle(self, edge: str | None) -> Iterator[tuple[FieldColumns, datetime | None]]:
        """Yield events that are settled when all ranges were read up to the time ``edge``; None is the end."""
        assert self.packs is not None  # noqa: S101 - PackedReading sets it
        names, conditions = self.scan.find_names_left(self.query), self.scan.conditions
        # A copy of an event may lie in a pack whose newest event is almost one span newer.
        before = None if edge is None else shift_time(edge, -choose_form(self.scan.entry.layout).span)
        for opened, end in self.packs.settle_before(before):
            alone = [each.item for each in opened if each.item is not None and len(each.columns)]
            for each in opened:
                if each.item is None and len(each.columns):
                    yield each.columns.select(names, conditions), None
            if alone:
                yield from ((columns, None) for columns in self.complete(ItemColumns.of(alone)))
            self.reached = from_text(end)
            yield NO_EVENTS, self.reached
        if self.packs.held_bytes > _MOST_HELD:
            raise OutOfTime

    def find_reached(self, edge: str) -> datetime:  # noqa: ARG002 - as of the others
        """Find the instant before which all events were yielded."""
        return self.reached or self.scan.start
