"""The page of a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from tidetable.query.model import ALL, Reader
from tidetable.query.page import ComputedRows
from tidetable.query.rankings.ranking_parameters import Ranking, RankKey

if TYPE_CHECKING:
    from tidetable.query.typed import TypedTable


@dataclass(slots=True, kw_only=True)
class Top(ComputedRows):
    """The first events of a ranking, each with its rank in the page and the number by which it is ranked.

    ``tied`` says that more events have the same number as the last event, and that not all of them were compared. Then
    there is no cursor. ``keys`` are the positions of the events. ``unread`` is the ranked number of the events that
    were not read; None if all events were read.
    """

    ranking: Ranking
    reader: Reader
    keys: Sequence[RankKey]
    unread: Decimal | None
    name = "top"

    @property
    def columns(self) -> Sequence[str]:
        fields = [f"data.{name}" for name in self.ranking.projection.fields if name != ALL]
        return ["rank", "value", "series", "time", "id", *fields, "ref"]

    def make_typed_table(self) -> TypedTable:
        from tidetable.query.typed import type_events  # imported only when it is needed

        return type_events("".join(self.list_pieces()), self.declared, self.ranking.projection, ranked=True)

    def cut_to(self, count: int) -> Top | None:
        """Cut the page to its first events, with the cursor that continues after them."""
        if not count:
            return None
        keys = self.keys[:count]
        return replace(self, rows=self.rows[:count], keys=keys).end_at(keys[-1], more=True)

    def end_at(self, last: RankKey | None, *, more: bool) -> Top:
        """Return the page that ends at the position ``last``, whose event may be deleted by now.

        With ``more``, events may follow. If events with the last event's number were not read, they may belong before
        the last event. A cursor would skip them, so the page has no cursor.
        """
        tied = bool(self.rows) and last is not None and last.number == self.unread
        following = last is not None and more and not tied
        cursor = self.reader.seal.seal(self.ranking.make_cursor(last)) if last is not None and following else None
        return replace(self, extras={"tied": tied}, next=cursor)
