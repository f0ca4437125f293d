"""Checks of a stream, ``[streams.NAME]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from tidetable.config.bounds import (
    KEY_ARN,
    MAX_BODY,
    MAX_OPEN_TABLES,
    MAX_RETENTION,
    MAX_UNITS,
    check_bounds,
    find_repeated,
)
from tidetable.config.check_capacity import check_capacity
from tidetable.config.check_copies import check_copies
from tidetable.config.check_feed import check_feed
from tidetable.config.check_index import check_indexes
from tidetable.config.check_rollup import check_rollups
from tidetable.config.check_stage import check_keeping
from tidetable.config.columns import COLUMN_TYPES, RESERVED_COLUMNS, is_column_name, parse_decimal
from tidetable.config.demand import SHORTEST
from tidetable.config.model import Config, Stream
from tidetable.config.stream import ArchivePolicy
from tidetable.durations import Duration
from tidetable.names import STREAM
from tidetable.periods import LONGEST

_DAY_SECONDS = 86_400
# AWS: 50 tags per resource; the pipeline adds four of its own.
MAX_TAGS = 40
MAX_COLD = 20
_LONGEST_SEPARATOR = 16
# AWS: the characters that a tag of a DynamoDB table may have; letters and digits of any language.
_TAG = re.compile(r"[\w +\-=.:/@]*")
# AWS: 400 KB per item. The rest is for the keys, at most 3 KB, and for the attributes that are not compressed.
_LEAST_PACK, _MOST_PACK = 4_096, 350_000


def check_stream(config: Config, stream: Stream) -> Iterator[str]:
    """Yield the problems of a stream. Each begins with its key, without the path of the stream."""
    yield from _check_window(stream)
    yield from _check_key(stream)
    yield from check_indexes(stream)
    yield from _check_table(stream)
    yield from _check_large(stream)
    yield from _check_pack(stream)
    yield from check_feed(stream)
    yield from check_rollups(stream, config.streams)
    yield from check_capacity(stream)
    yield from check_copies(stream)
    yield from _check_archive(stream.archive)
    yield from check_keeping(config, stream.name)


def _check_window(stream: Stream) -> Iterator[str]:
    if not STREAM.fullmatch(stream.name):
        yield ": a stream's name is 1 to 63 of a-z, 0-9, _ and -, and begins with a letter; rename it"
    if stream.retention < 1:
        yield f".retention: {stream.retention} is too few; keep at least 1 whole period"
        return
    length = LONGEST[stream.period]
    longest = MAX_RETENTION // length
    if stream.retention > longest:
        yield (
            f".retention: {stream.retention} {stream.period} periods are more than 100 years; choose at most {longest}, or"
            ' on_expiry = "keep" for tables that stay'
        )
        return
    # The shortest month has 28 days: the retention must be long enough in February too.
    shortest = SHORTEST[stream.period]
    if stream.late > stream.retention * shortest:
        yield (
            f".retention: {stream.retention} {stream.period} periods end before events up to {stream.late} late have come;"
            f" raise retention to at least {-(-stream.late // shortest)} or lower late"
        )
    if stream.archive_at == "close" and stream.on_expiry != "archive":
        yield (
            f'.archive_at: "close" needs on_expiry = "archive", not {stream.on_expiry!r}: the table of an archived period is'
            " deleted after retention"
        )
    yield from check_bounds(".ahead", stream.ahead, "0s", "1d", "; clocks that run further ahead are wrong")
    without = " periods; with 0, a period could begin without a table"
    yield from check_bounds(".premake", stream.premake, 1, 10, without)
    tables = stream.late // length + 2 + stream.premake
    if tables > MAX_OPEN_TABLES:
        yield (
            f".late: {stream.late} of {stream.period} periods would hold {tables} tables open, more than {MAX_OPEN_TABLES};"
            " lower late or choose a longer period"
        )


def _check_key(stream: Stream) -> Iterator[str]:
    key = stream.key
    yield from check_bounds(".key.shards", key.shards, 1, 256, "; every query of a whole range reads each of them")
    if key.shard_until and not (key.partition_by == "time" and key.shard_by == "series"):
        yield '.key.shard_until: only with partition_by = "time" and shard_by = "series" a series decides its shard; remove it'
    if len(key.shard_until) > _LONGEST_SEPARATOR:
        yield f'.key.shard_until: at most {_LONGEST_SEPARATOR} characters separate the parts of a series, such as "/"'
    if key.partition_by == "series":
        if key.bucket is not None:
            yield '.key.bucket: only streams partitioned by "time" have buckets; remove it'
        if key.shard_by == "series" and key.shards != 1:
            yield '.key.shard_by: a partition holds one series, so all its events would get one suffix; use "id"'
        return
    if key.bucket is None:
        yield '.key.bucket: missing; a stream partitioned by "time" needs one, such as "1h"'
        return
    seconds = int(key.bucket.total_seconds())
    longest = min(_DAY_SECONDS, int(LONGEST[stream.period].total_seconds()))
    if seconds < 60 or longest % seconds:
        yield f'.key.bucket: "{key.bucket}" does not divide {Duration(seconds=longest)}; choose such as "15m", "1h" or "6h"'


def _check_table(stream: Stream) -> Iterator[str]:
    key = stream.table.encryption
    if key not in ("aws-owned", "aws-managed") and not KEY_ARN.fullmatch(key):
        yield f'.table.encryption: "{key}" is none of aws-owned, aws-managed and the ARN of a KMS key'
    tags = stream.table.tags
    if len(tags) > MAX_TAGS:
        yield f".table.tags: {len(tags)} tags; name at most {MAX_TAGS}: AWS allows 50 per table, and Tidetable adds its own"
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            yield f".table.tags.{key[:40]}: a key has 1 to 128 characters, a value 256 at the most"
        if not _TAG.fullmatch(key) or not _TAG.fullmatch(value):
            yield f".table.tags.{key[:40]}: AWS takes letters, digits, spaces and + - = . _ : / @ in tags; leave out the rest"
        if key.lower().startswith(("aws:", "tidetable:")) or key == "project":
            yield f".table.tags.{key}: this tag is not yours to set; choose another key"


def _check_large(stream: Stream) -> Iterator[str]:
    above = stream.large.compress_above
    if above is not None:
        saves = " bytes; below 1 KB, data takes one write unit, compressed or not"
        yield from check_bounds(".large.compress_above", above, 1024, MAX_BODY, saves)
    if len(stream.cold) > MAX_COLD or find_repeated(stream.cold):
        yield f".cold: name at most {MAX_COLD} fields, each once"
    for field in stream.cold:
        if not field or "," in field:
            yield f'.cold: "{field}" cannot be named in a query; name fields of data without commas'
        elif "." in field:
            whole = field.partition(".")[0]
            yield f'.cold: "{field}" is a path, but only whole fields are kept apart: name "{whole}", or move the field up'


def _check_pack(stream: Stream) -> Iterator[str]:
    """Check ``[streams.NAME.pack]``, and the keys that cannot be used with it."""
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
    yield from check_bounds(".pack.max_bytes", pack.max_bytes, _LEAST_PACK, _MOST_PACK, whole_pack)
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


def _check_archive(archive: ArchivePolicy) -> Iterator[str]:
    if not 0 < archive.read_share <= 1:
        yield f".archive.read_share: {archive.read_share} is not a share; choose a number above 0, at most 1"
    yield from check_bounds(".archive.segments", archive.segments, 1, 32)
    if archive.read_units is not None:
        yield from check_bounds(".archive.read_units", archive.read_units, 1, MAX_UNITS, " units per second")
    names = [name.lower() for name in archive.columns]
    for name, kind in archive.columns.items():
        at = f".archive.columns.{name}"
        if not is_column_name(name):
            yield f"{at}: a column's name is 1 to 64 letters, digits and _, begins with a letter, and not with pk_"
        elif name.lower() in RESERVED_COLUMNS or names.count(name.lower()) > 1:
            yield f"{at}: there is another column of this name (Athena does not distinguish upper and lower case)"
        if kind not in COLUMN_TYPES and parse_decimal(kind) is None:
            yield f'{at}: "{kind}" is none of {", ".join(COLUMN_TYPES)}, decimal(precision, scale)'
