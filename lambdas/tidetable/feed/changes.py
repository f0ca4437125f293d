"""Changes of events, from the records of a period table's stream.

AWS: records of one item come in order, and at least once. Rarely, a record comes again after later records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.config.stream import ChangeKind
from tidetable.errors import TableMissing, ValueMissing
from tidetable.events import Item, JsonObject
from tidetable.exact_json import decode_json, encode_json
from tidetable.forms.choose import choose_form
from tidetable.large.unpack import Unpacker
from tidetable.layout.ref import encode_ref
from tidetable.packs import open_item


class StreamRecord(NamedTuple):
    """A record of a table's stream. ``sequence`` names it within its shard, ``item`` is None after a deletion.

    ``begun`` is when the table's change stream was turned on, in epoch milliseconds.
    """

    sequence: str
    kind: ChangeKind | None
    table: str
    item: Item | None
    created: datetime
    begun: int = 0


class Change(NamedTuple):
    """A change of an event: it was inserted, or replaced by the same event with other data.

    ``at`` is the time at which it was accepted, in epoch milliseconds. ``data`` is None if the data cannot be read any
    more, or is too large for a target; ``ref`` then still names the event. Of two states of an event, the state that
    queries show has the greater ``sequence``; it has digits only, and the same length for all states of an event.
    """

    kind: ChangeKind
    stream: str
    series: str
    time: str
    id: str
    at: int
    data: JsonObject | None
    ref: str
    sequence: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """The series, the time and the id of the changed event."""
        return self.series, self.time, self.id

    def document(self, *, with_data: bool = True) -> dict[str, Any]:
        """Return the change in the form that targets get."""
        document = self._asdict()
        return document if with_data else {**document, "data": None}

    def encode(self, most: int) -> bytes:
        """Encode the change as JSON, without its data if it would be longer than ``most`` bytes."""
        body = _encode_message(self.document())
        return body if len(body) <= most else _encode_message(self.document(with_data=False))


def _encode_message(document: dict[str, Any]) -> bytes:
    # SQS refuses messages with these two characters, which JSON can escape.
    return encode_json(document).replace("\ufffe".encode(), b"\\ufffe").replace("\uffff".encode(), b"\\uffff")


@dataclass(slots=True)
class ChangeReader:
    """Reads the changes of records. The feed has only changes of these ``kinds`` that meet all ``conditions``."""

    unpacker: Unpacker
    kinds: frozenset[ChangeKind] = field(default_factory=lambda: frozenset({"insert", "replace"}))
    conditions: Sequence[Condition] = ()

    def read(self, record: StreamRecord, entry: Entry) -> list[Change]:
        """Return the changes in a record of the entry's table, in the order of their events.

        A deletion is not a change: the lifecycle deletes whole tables, and nobody deletes events. If an event keeps its
        versions, only the item of the newest version is a change.
        """
        item, kind = record.item, record.kind
        if item is None or kind is None or kind not in self.kinds or not entry.layout.is_newest(item["sk"]):
            return []
        changes = (
            self._read_pack(record, item, kind, entry)
            if "pack" in item
            else [self._read_item(record, item, kind, entry)]
        )
        # If a change's data is missing, the target must decide if it wants the change.
        return [
            change
            for change in changes
            if change.data is None or all(condition.holds(change.data) for condition in self.conditions)
        ]

    def _read_item(self, record: StreamRecord, item: Item, kind: ChangeKind, entry: Entry) -> Change:
        at = int(item.get("at", 0))
        sequence = choose_form(entry.layout).make_sequence(at, record.begun, record.sequence)
        return _make_change(item["pk"], item["sk"], at, self._read_data(item, entry), kind, entry, sequence)

    def _read_data(self, item: Item, entry: Entry) -> JsonObject | None:
        try:
            whole = self.unpacker.complete_items([item], entry.table)
        except TableMissing:
            # The period's tables were deleted, after the archive was verified.
            return None
        data: JsonObject | None = None if whole.missing else whole.items[0]["data"]
        return data

    def _read_pack(self, record: StreamRecord, item: Item, kind: ChangeKind, entry: Entry) -> Iterator[Change]:
        opened = open_item(item, entry.layout, self.unpacker.compressor)
        if opened.problem is not None:
            raise ValueMissing(opened.problem)
        ats = opened.ats if opened.ats is not None else [opened.at] * len(opened.places)
        make_sequence = choose_form(entry.layout).make_sequence
        for place, value, at in zip(opened.places, opened.values, ats, strict=True):
            # The values of a pack are texts.
            sequence = make_sequence(at, record.begun, record.sequence, opened.hash)
            yield _make_change(opened.address, place, at, decode_json(str(value)), kind, entry, sequence)


def _make_change(
    pk: str, sk: str, at: int, data: JsonObject | None, kind: ChangeKind, entry: Entry, sequence: str
) -> Change:
    time, series, id = entry.layout.parse_names(pk, sk)
    ref = encode_ref(entry.stream, entry.period.label, pk, sk)
    return Change(kind, entry.stream, series, time, id, at, data, ref, sequence)
