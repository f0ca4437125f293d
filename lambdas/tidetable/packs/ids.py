"""The ids of a pack's events, in the form that takes the least space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

TEXT, HEXADECIMAL, UUIDS, DERIVED, DERIVED_TIMELESS = range(5)
DIGITS = 32
_UUID = 36
_HEX = frozenset("0123456789abcdef")
# At least one of the first 8 ids must be derived from its event's content; otherwise the other ids are not checked.
_SAMPLE = 8
QUOTE = msgspec.json.Encoder().encode


def pack_ids(
    times: Sequence[str], series: Sequence[str], ids: Sequence[str], texts: Callable[[], Sequence[str]]
) -> tuple[int, bytes, list[str], list[int]]:
    """Encode the ids in the form that takes the least space. Ids that can be derived from the content are not kept.

    The last value lists the events to which the bytes belong, if they do not belong to all events. An id is derived
    from the sent JSON: ``texts`` have numbers such as ``19.0``, which DynamoDB answers as 19. If an event has one inside
    of a list or an object, its id is kept.
    """
    joined = "".join(ids)
    if len(joined) == DIGITS * len(ids) and {*map(len, ids)} == {DIGITS} and set(joined) <= _HEX:
        rows = list(zip(series, times, texts(), strict=True))
        for kind, derive in DERIVE.items():
            if any(derive(*row) == id for row, id in zip(rows[:_SAMPLE], ids, strict=False)):
                others = [number for number, (row, id) in enumerate(zip(rows, ids, strict=True)) if derive(*row) != id]
                return kind, bytes.fromhex("".join([ids[number] for number in others])), [], others
        return HEXADECIMAL, bytes.fromhex(joined), [], []
    if len(joined) == _UUID * len(ids) and {*map(len, ids)} == {_UUID}:
        digits = [id.replace("-", "") for id in ids]
        joined = "".join(digits)
        if set(joined) <= _HEX and [*map(format_uuid, digits)] == list(ids):
            return UUIDS, bytes.fromhex(joined), [], []
    return TEXT, b"", list(ids), []


def format_uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _derive_id(series: str, time: str, text: str) -> str:
    """Derive the id that ingest gives to an event that was sent without an id."""
    return sha256(f'[{QUOTE(series).decode()},"{time}",{text}]'.encode()).hexdigest()[:DIGITS]


def _derive_timeless_id(series: str, _: str, text: str) -> str:
    """Derive the id that ingest gives to an event that was sent without an id and without a time."""
    return sha256(f"[{QUOTE(series).decode()},null,{text}]".encode()).hexdigest()[:DIGITS]


DERIVE: dict[int, Callable[[str, str, str], str]] = {DERIVED: _derive_id, DERIVED_TIMELESS: _derive_timeless_id}
