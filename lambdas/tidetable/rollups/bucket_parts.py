"""Parts of a bucket: ranges of its time, which several runs read at the same time, and whose states are merged.

A bucket is divided by time, because all copies of an event have one time. So no event is counted in two parts, whatever
the form of its table is. A part is a work item: the run that claims it reads its events, and stores their cells under the
generation of its claim. The cells count when the write that ends the claim names this generation. The run that has the
stream merges the parts when all of them are finished, writes the bucket's cells, and moves the edge or lets the marks of
the bucket rest; then it removes the parts. So the cells have every event that was written before the parts were added.
Parts of a bucket that was computed meanwhile count no more.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

import msgspec

from tidetable.events import Event
from tidetable.exact_json import canonical_json, decode_json
from tidetable.ports.rollups import Mark
from tidetable.query.key_share import WHOLE_SHARE, KeyShare
from tidetable.rollup_model.bounds import from_millis, to_millis
from tidetable.rollup_model.cells import Bucket, parse_cell, parse_names
from tidetable.rollup_model.cover import CoveredSpan, DefinitionVersion
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.collect import collect_bucket
from tidetable.rollups.division import MOST_PARTS, Division, SharedReading, choose_division, refine_division
from tidetable.rollups.services import BucketBlocked, Divided, Services, TooManyEvents
from tidetable.times import from_text, to_text
from tidetable.work.claim import HeldClaim, RecordUnread, WorkItem, refuse_unread

# The kind of work.
PART = "part"
# A part with more plain events than this is too long. Then its bucket is divided again, into more parts.
MOST_PART, _FINER = 2_000_000, 8
# A bucket whose events cannot be read is divided anew this long after it was divided.
_RETRIED = timedelta(minutes=1)
# AWS: an item has at most 400 KB.
_PIECE = 300_000


class PartMemo(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the record of a part says: its range, the definition, when it was added, and of how many parts it is one.

    If the bucket is divided by units of settling, the range is the whole bucket, and ``share`` the number of the part.
    Of a finished part it also says in how many pieces its cells are stored, that it has too many groups (``over`` counts
    them), why its events cannot be read, or that they are too many for one part.
    """

    definition: str
    start: str
    end: str
    made: int
    count: int
    share: int | None = None
    pieces: int = 0
    over: int = 0
    problem: str = ""
    too_long: bool = False


class BucketPart(NamedTuple):
    """A part of a bucket, as its record says."""

    item: WorkItem
    memo: PartMemo
    source: str
    rollup: str
    bucket: datetime


def list_parts(services: Services, *names: str) -> list[BucketPart]:
    """List the parts of all streams, of a stream, or of the stream, the rollup and the bucket that ``names`` has.

    The newest buckets come first: the next bucket of a rollup is newer than its marked buckets. Parts whose records cannot
    be read are left out.
    """
    parts = list[BucketPart]()
    for item in services.work.list_items(PART, "".join(f"{name}#" for name in names)):
        with suppress(RecordUnread):
            parts.append(read_part(item))
    return sorted(parts, key=attrgetter("bucket"), reverse=True)


def read_part(item: WorkItem) -> BucketPart:
    """Read what the record of a part says. Raises RecordUnread."""
    with refuse_unread(item):
        source, rollup, bucket, *_ = item.name.split("#")
        return BucketPart(item, msgspec.json.decode(item.memo, type=PartMemo), source, rollup, from_text(bucket))


def divide_bucket(version: DefinitionVersion, bucket: datetime, events: int, services: Services) -> None:
    """Add the parts of a bucket with about so many events."""
    division = choose_division(version.definition, bucket, events, services)
    _add_parts(version, bucket, division, to_millis(services.clock.now()), services)


def _add_parts(version: DefinitionVersion, bucket: datetime, division: Division, made: int, services: Services) -> int:
    """Add the parts that do not exist; return how many there were. The name of a part has the instant ``made``.

    So a run that worked on an earlier part of the bucket, and wakes late, cannot change the record of this part.
    """
    definition = version.definition
    count, added = division.number, 0
    edges = [bucket + number * definition.every / count for number in range(count + 1)]
    for number in range(count):
        start, end = map(to_text, (edges[0], edges[-1]) if division.by_unit else edges[number : number + 2])
        services.require_time()
        memo = PartMemo(definition.text, start, end, made, count, number if division.by_unit else None)
        name = f"{definition.source}#{definition.name}#{to_text(bucket)}#{made}#{number:04}"
        added += services.work.add(PART, name, msgspec.json.encode(memo).decode())
    return added


def merge_parts(version: DefinitionVersion, bucket: datetime, services: Services) -> tuple[datetime, Bucket] | None:
    """Merge the parts of a bucket; None if it has none. Return the instant at which they were added.

    Raises Divided if some are not finished, BucketBlocked if the events of some cannot be read.
    """
    definition = version.definition
    names = definition.source, definition.name, to_text(bucket)
    parts = [part for part in list_parts(services, *names) if part.memo.definition == definition.text]
    if not parts:
        return None
    made = max(part.memo.made for part in parts)
    parts = [part for part in parts if part.memo.made == made]
    count, by_unit = parts[0].memo.count, parts[0].memo.share is not None
    if len(parts) < count and _add_parts(version, bucket, Division(count, by_unit), made, services) < count - len(
        parts
    ):
        # The others exist, so their records cannot be read.
        finer = count
    elif len(parts) < count or not all(part.item.done for part in parts):
        raise Divided(f"parts of {definition.stream} {to_text(bucket)} are not finished")
    else:
        is_too_long = any(part.memo.too_long for part in parts) and count < MOST_PARTS
        finer = min(_FINER * count, MOST_PARTS) if is_too_long else 0
    if finer:
        remove_parts(parts, services)
        division = refine_division(definition, bucket, finer, services)
        _add_parts(version, bucket, division, max(made + 1, to_millis(services.clock.now())), services)
        raise Divided(f"{definition.stream} {to_text(bucket)} has new parts")
    problem = next((part.memo.problem for part in parts if part.memo.problem), "")
    if problem:
        if services.clock.now() < from_millis(made) + _RETRIED:
            raise BucketBlocked(problem)
        remove_parts(parts, services)
        return None
    merged = Bucket(definition, services.reader.sketches)
    for part in parts:
        services.require_time()
        merged.over = max(merged.over, part.memo.over)
        pieces = services.rollups.read_part(part.item.name, part.item.done)
        if len(pieces) < part.memo.pieces:
            # The run that removed the parts was stopped.
            remove_parts(parts, services)
            return None
        _merge_part(merged, part, "".join(pieces), services)
        if merged.is_over:
            break
    return from_millis(made), merged


def _merge_part(merged: Bucket, part: BucketPart, text: str, services: Services) -> None:
    reader, definition = services.reader, merged.definition
    for series, id, data in decode_json(reader.unpacker.compressor.expand(b64decode(text))) if text else ():
        event = Event(series, part.bucket, id, data)
        merged.merge_names(parse_names(definition, event))
        cell = parse_cell(definition, event, reader.sketches, definition.fields)
        if cell is not None:
            merged.merge(cell)


def _choose_reading(part: BucketPart, definition: Definition, services: Services) -> SharedReading:
    """Choose what is read of a part, and count the runs that share the table's read units with it."""
    share, readers = WHOLE_SHARE, 1
    if part.memo.share is not None:
        share = KeyShare(part.memo.share, part.memo.count)
    if definition.period is not None:
        items, now = services.work.list_items(PART, part.item.name.rpartition("#")[0]), services.clock.now()
        readers = max(sum(item.is_claimed(now) for item in items), 1)
    return SharedReading(share, readers)


def compute_part(part: BucketPart, held: HeldClaim, definition: Definition, services: Services) -> None:
    """Read the events of a part, store their cells, and let the claim finish the part."""
    then, memo = definition.parse_former(part.memo.definition), part.memo
    span = CoveredSpan(from_text(memo.start), from_text(memo.end), None)
    try:
        reading, most = _choose_reading(part, definition, services), MOST_PART if memo.count < MOST_PARTS else None
        content = collect_bucket(then, [span], services, most, reading)
    except BucketBlocked as error:
        memo = msgspec.structs.replace(memo, problem=str(error))
    except TooManyEvents:
        memo = msgspec.structs.replace(memo, too_long=True)
    else:
        if content.is_over:
            memo = msgspec.structs.replace(memo, over=len(content.groups))
        else:
            cells = [(cell.series, cell.id, cell.data) for cell in content.make_events(part.bucket)]
            body = b64encode(services.reader.unpacker.compressor.compress(canonical_json(cells))).decode()
            pieces = [body[first : first + _PIECE] for first in range(0, len(body), _PIECE)]
            services.require_time()
            services.rollups.put_part(part.item.name, held.generation, pieces)
            memo = msgspec.structs.replace(memo, pieces=len(pieces))
    held.memo, held.done = msgspec.json.encode(memo).decode(), True


def meets_part(mark: Mark, parts: Iterable[BucketPart]) -> bool:
    """True if a mark is of a bucket that is being read in parts.

    Some of them may have been read before the marked events were written, so the mark stays until the bucket is sealed.
    """
    return any(mark.meets(from_text(part.memo.start), from_text(part.memo.end)) for part in parts)


def list_open(parts: Sequence[BucketPart], versions: Iterable[DefinitionVersion]) -> list[BucketPart]:
    """List the parts of buckets that are not sealed, and of buckets whose parts are not all finished."""
    unfinished = {(part.rollup, part.bucket) for part in parts if not part.item.done}
    own = [version for version in versions if version.start < version.end]
    return [
        part
        for part in parts
        if (part.rollup, part.bucket) in unfinished
        or not any(_is_of(part, version) and version.start <= part.bucket < version.end for version in own)
    ]


def find_obsolete(
    parts: Iterable[BucketPart], versions: Iterable[DefinitionVersion], marks: Iterable[Mark]
) -> list[BucketPart]:
    """Find the parts that count no more. A part counts for the next bucket of a version, or for a sealed bucket with a
    mark for which the bucket was not computed since the part was added.
    """
    versions, marks = list(versions), [mark for mark in marks if not mark.event]

    def counts(part: BucketPart, version: DefinitionVersion) -> bool:
        if not _is_of(part, version):
            return False
        if part.bucket == version.edge.sealed:
            return True
        end = part.bucket + version.definition.every
        return version.start <= part.bucket < version.end and any(
            mark.meets(part.bucket, end) and max(mark.since, mark.resealed) < part.memo.made for mark in marks
        )

    return [part for part in parts if not any(counts(part, version) for version in versions)]


def _is_of(part: BucketPart, version: DefinitionVersion) -> bool:
    return (part.rollup, part.memo.definition) == (version.definition.name, version.definition.text)


def remove_parts(parts: Sequence[BucketPart], services: Services) -> None:
    """Remove parts, with their cells. If this is stopped, the records that are left say what is left.

    A record whose cells are removed is of no use: ``merge_parts`` finds that pieces are missing.
    """
    for part in parts:
        services.rollups.clear_part(part.item.name)
        services.work.remove(PART, part.item.name)
