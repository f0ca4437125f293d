"""Checks of a stream with packs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tidetable.config.bounds import check_bounds
from tidetable.config.model import Stream
from tidetable.durations import Duration
from tidetable.periods import LONGEST

# AWS: 400 KB per item. The rest is for the keys, at most 3 KB, and for the attributes that are not compressed.
_LEAST_BYTES, _MOST_BYTES = 4_096, 350_000


def check_pack(stream: Stream) -> Iterator[str]:
    """Yield the problems of ``[streams.NAME.pack]``, and of keys that cannot be used with it, each with its fix."""
    pack = stream.pack
    if pack is None:
        return
    key = stream.key
    longest = key.bucket if key.partition_by == "time" and key.bucket is not None else LONGEST[stream.period]
    whole = "bucket" if longest is key.bucket else "period"
    if not timedelta(seconds=1) <= pack.span <= longest:
        length = Duration(seconds=longest.total_seconds())
        yield (
            f".pack.span: {pack.span} is not within 1s to the stream's {whole}, {length}; choose the time that"
            ' the events of one request mostly take, such as "1m": a query also reads the events of this time after its range'
        )
    whole_pack = " bytes; a whole pack is read for each of its events, and DynamoDB holds 400 KB in an item"
    yield from check_bounds(".pack.max_bytes", pack.max_bytes, _LEAST_BYTES, _MOST_BYTES, whole_pack)
    if stream.index:
        yield (
            f".index.{stream.index[0].name}: an index has no keys for the events inside a pack; remove it, and ask with"
            " where.<field>, or send the events that you look up to another stream, without [pack]"
        )
    if stream.versions == "keep":
        yield (
            '.versions: "keep" numbers the versions of one item, and a pack holds many events; remove it, or put the version into'
            " the id, so that each version is an event"
        )
    if stream.cold:
        yield (
            ".cold: a pack is read whole, so no field of it can be kept apart; remove cold, or send those fields to another"
            " stream"
        )
    if key.shard_by == "series":
        yield '.key.shard_by: the suffix of a pack is calculated from its own hash; remove it, or partition by "series"'
