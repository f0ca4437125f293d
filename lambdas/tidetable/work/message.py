"""The messages that wake workers. A message is the name of an item as JSON."""

from __future__ import annotations

import msgspec

from tidetable.work.claim import ItemName


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    name: str


_DECODE = msgspec.json.Decoder(_Message).decode


def write_message(name: ItemName) -> str:
    """Write the message for an item."""
    return msgspec.json.encode(_Message(*name)).decode()


def read_message(body: str) -> ItemName:
    """Read the name of an item from a message; msgspec.DecodeError if the message is none of a scheduler."""
    message = _DECODE(body)
    return ItemName(message.kind, message.name)
