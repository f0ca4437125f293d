"""The reason why an event of a request is refused."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tidetable.ingest.bodies import Sent
from tidetable.layout import MAX_NAME_BYTES

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
