"""Records whose changes could not be read. Their dead letters name table and key, so that ``replay`` reads the item
again and sends its changes to all targets of the feed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidetable.config.stream import ChangeKind
from tidetable.errors import BadInvocation
from tidetable.events import Item
from tidetable.feed.changes import StreamRecord
from tidetable.layout import Key
from tidetable.times import EPOCH


class UnreadRecord(msgspec.Struct, frozen=True):
    """The line of a dead letter: a record, and the key of its item, which may have a newer state by now.

    ``begun`` and ``sequence`` are the position of the record (see Change.sequence).
    """

    table: str
    pk: str
    sk: str
    kind: ChangeKind
    sequence: str
    begun: int = 0

    @property
    def key(self) -> Key:
        """The key of the item."""
        return Key(self.pk, self.sk)

    def make_record(self, item: Item) -> StreamRecord:
        """Make the record of the item's present state.

        It has the position of the buried record. If the item has a newer state, a record with a later position shows
        this state, too.
        """
        return StreamRecord(self.sequence, self.kind, self.table, item, EPOCH, self.begun)


def describe_unread(record: StreamRecord) -> bytes:
    """Describe a record for a dead letter."""
    item = record.item or {}
    place = {"table": record.table, "pk": item.get("pk", ""), "sk": item.get("sk", "")}
    return msgspec.json.encode(place | {name: getattr(record, name) for name in ("kind", "sequence", "begun")})


def parse_unread(bodies: Sequence[bytes]) -> list[UnreadRecord]:
    """Parse the lines of a dead letter without a target; BadInvocation if they do not name records."""
    try:
        return [msgspec.json.decode(body, type=UnreadRecord) for body in bodies]
    except msgspec.MsgspecError as error:
        raise BadInvocation(
            f"a dead letter without a target must name records that could not be read, each an insert or a replace: {error}"
        ) from error
