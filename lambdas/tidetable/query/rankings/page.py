"""The page of a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidetable.query.model import Reader
from tidetable.query.page import Table
from tidetable.query.rankings.parse import Ranking, RankKey

if TYPE_CHECKING:
    from tidetable.query.typed import TypedTable


@dataclass(slots=True, kw_only=True)
class Top(Table):
    """The first events of a ranking, with their rank in the page and the number that they are ranked by.

    ``tied`` says that other events have the last event's number, and not all of them were compared: then there is no cursor.
    ``keys`` are the positions of the events; ``unread`` is the number whose ties
    were left unread, or None.
    """

    ranking: Ranking
    reader: Reader
    keys: Sequence[RankKey]
    unread: Decimal | None
    tied: bool = False
    name = "top"

    @property
    def columns(self) -> Sequence[str]:
        return ["rank", "value", "series", "time", "id", "ref"]

    def typed(self) -> TypedTable:
        from tidetable.query.typed import type_events  # only its callers wait for it

        return type_events(self.joined(), self.declared, self.ranking.projection, ranked=True)

    def own(self) -> dict[str, Any]:
        return {"tied": self.tied}

    def first(self, count: int) -> Top | None:
        """The first events, with the cursor that goes on after them."""
        if not count:
            return None
        keys = self.keys[:count]
        return replace(self, rows=self.rows[:count], keys=keys).ended(keys[-1], more=True)

    def ended(self, last: RankKey | None, *, more: bool) -> Top:
        """The page as it ends after a position (of an event that may have gone since); ``more`` may follow.

        Events that are tied with the last one may be unread, anywhere before it, so a cursor here could skip some.
        """
        tied = bool(self.rows) and last is not None and last.number == self.unread
        following = last is not None and more and not tied
        cursor = self.reader.seal.seal(self.ranking.cursor(last)) if last is not None and following else None
        return replace(self, tied=tied, next=cursor)
