"""Records whose changes could not be read. Their dead letters name table and key, so that ``replay`` reads the item
again and sends its changes to all targets of the feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from tidetable.config.stream import ChangeKind
from tidetable.errors import BadInvocation
from tidetable.events import Item
from tidetable.feed.changes import StreamRecord
from tidetable.layout import Key
from tidetable.times import EPOCH


class _Unread(msgspec.Struct, frozen=True):
    """The line of a dead letter. ``begun`` and ``sequence`` are the position of the record (see Change.sequence)."""

    table: str
    pk: str
    sk: str
    kind: str
    sequence: str
    begun: int = 0


def describe_unread(record: StreamRecord) -> bytes:
    """Describe a record for a dead letter."""
    item = record.item or {}
    return msgspec.json.encode(
        _Unread(record.table, item.get("pk", ""), item.get("sk", ""), record.kind or "", record.sequence, record.begun)
    )


class UnreadRecord(msgspec.Struct, frozen=True):
    """A record of a dead letter: the key of its item, which may have a newer state by now."""

    table: str
    key: Key
    kind: ChangeKind
    sequence: str
    begun: int

    def make_record(self, item: Item) -> StreamRecord:
        """Make the record of the item's present state.

        It has the position of the buried record. If the item has a newer state, a record with a later position shows
        this state, too.
        """
        return StreamRecord(self.sequence, self.kind, self.table, item, EPOCH, self.begun)


def parse_unread(bodies: Sequence[bytes]) -> list[UnreadRecord]:
    """Parse the lines of a dead letter without a target; BadInvocation if they do not name records."""
    try:
        lines = [msgspec.json.decode(body, type=_Unread) for body in bodies]
    except msgspec.MsgspecError as error:
        raise BadInvocation(
            f"a dead letter without a target must name records that could not be read: {error}"
        ) from error
    if not all(line.kind in ("insert", "replace") for line in lines):
        raise BadInvocation("a record that could not be read must be an insert or a replace")
    return [
        UnreadRecord(line.table, Key(line.pk, line.sk), cast("ChangeKind", line.kind), line.sequence, line.begun)
        for line in lines
    ]
