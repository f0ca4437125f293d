"""One event of a request, from its check to its result."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

import msgspec

from tidetable.events import Event, Item
from tidetable.ingest.bodies import Sent
from tidetable.layout import MAX_NAME_BYTES
from tidetable.ports import Put

Code = Literal["invalid", "too_old", "too_new", "too_large", "forbidden_series"]

# A detail has at most this many characters: some details contain the path of a field, which may be as long as a body.
_LONGEST_DETAIL = 300


class Rejection(msgspec.Struct, frozen=True):
    """The reason why the event at ``index`` of a request is refused; ``id`` is None if the event has no usable id."""

    index: int
    id: str | None
    code: Code
    detail: str

    @classmethod
    def of(cls, index: int, sent: Any, code: Code, detail: str) -> Rejection:
        """Make the rejection of a decoded value, with the value's id if it has an id."""
        id = sent.id if isinstance(sent, Sent) else sent.get("id") if isinstance(sent, dict) else None
        # A longer id is never valid, and an answer must not repeat megabytes of a refused event.
        usable = isinstance(id, str) and len(id) <= MAX_NAME_BYTES
        return cls(index, id if usable else None, code, detail[:_LONGEST_DETAIL])


class Durable(Enum):
    """The place of an acknowledged event: its period table, or the overflow queue."""

    STORED = "stored"
    QUEUED = "queued"


# The slot of a put: what it writes.
Slot = tuple[str, ...]


class Submission(msgspec.Struct, gc=False, eq=False):
    """An event that may be written. ``index`` is its position in the request, and the only number that identifies it.

    ``sent`` is the decoded value. ``item`` has the stream's present layout; its ``size`` is in bytes (0: surely small).
    Routing sets ``put`` and the put's ``slot``. Of several submissions with one slot only the last is written, and all
    of them share its fate. But the put of a pack holds the events of all submissions of its slot. ``fate`` is None
    until it is decided.
    """

    index: int
    sent: Any
    event: Event
    item: Item
    size: int
    put: Put | None = None
    slot: Slot = ()
    fate: Rejection | Durable | None = None

    def reject(self, code: Code, detail: str) -> None:
        """Reject the event, which was accepted until now."""
        self.fate = Rejection.of(self.index, self.sent, code, detail)


def list_rejections(verdicts: Sequence[Submission | Rejection]) -> list[Rejection]:
    """List the rejections among the verdicts, in the order of the request."""
    fates = [verdict if isinstance(verdict, Rejection) else verdict.fate for verdict in verdicts]
    return [fate for fate in fates if isinstance(fate, Rejection)]
