"""Parts of a bucket: ranges of its time, which several runs read at the same time, and whose states are merged.

A bucket is divided by time, because all copies of an event have one time. So no event is counted in two parts, whatever
the form of its table is. A part is a work item: the run that claims it reads its events, and stores their cells under the
generation of its claim. The cells count when the write that ends the claim names this generation. The run that has the
stream merges the parts when all of them are finished, writes the bucket's cells and moves the edge; then it removes the
parts. Parts of a bucket that was sealed meanwhile count no more.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidetable.events import Event
from tidetable.exact_json import canonical_json, decode_json
from tidetable.ports.rollups import Mark
from tidetable.rollup_model.bounds import from_millis, to_millis
from tidetable.rollup_model.cells import Bucket, parse_cell, parse_names
from tidetable.rollup_model.cover import CoveredSpan, DefinitionVersion
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.collect import collect_bucket, is_divisible
from tidetable.rollups.services import BucketBlocked, Divided, Services, TooManyEvents
from tidetable.times import from_text, to_text
from tidetable.work.claim import HeldClaim, WorkItem

# The kind of work.
PART = "part"
# The events of a part: about half a second of computing. A bucket with at most so many events is read as a whole.
PART_EVENTS, MOST_WHOLE = 100_000, 300_000
# A part with more events than this is too long. Then its bucket is divided again, into more parts.
MOST_PART, _FINER = 2_000_000, 8
_MOST_PARTS = 4_000
# AWS: an item has at most 400 KB.
_PIECE = 300_000


class PartMemo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the record of a part says: its range, the definition, when it was added, and of how many parts it is one.

    Of a finished part it also says in how many pieces its cells are stored, that it has too many groups (``over`` counts
    them), why its events cannot be read, or that they are too many for one part.
    """

    definition: str
    start: str
    end: str
    made: int
    count: int
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


def list_parts(services: Services, source: str = "") -> list[BucketPart]:
    """List the parts of all streams, or of one stream."""
    items = services.work.list_items(PART, f"{source}#" if source else "")
    return [read_part(item) for item in items]


def read_part(item: WorkItem) -> BucketPart:
    """Read what the record of a part says."""
    source, rollup, bucket, _ = item.name.split("#")
    return BucketPart(item, msgspec.json.decode(item.memo, type=PartMemo), source, rollup, from_text(bucket))


def can_divide(segments: Sequence[CoveredSpan], definition: Definition, services: Services) -> bool:
    """True if a bucket can be divided: all of it is read from divisible tables."""
    start, end = segments[0].start, segments[-1].end
    if any(segment.definition for segment in segments):
        return False
    return is_divisible(definition, services.catalog.entries(definition.source, start, end, consistent=True))


def divide_bucket(version: DefinitionVersion, bucket: datetime, events: int, services: Services) -> None:
    """Add the parts of a bucket with about so many events."""
    _add_parts(version, bucket, min(-(-events // PART_EVENTS), _MOST_PARTS), services)


def _add_parts(version: DefinitionVersion, bucket: datetime, count: int, services: Services) -> None:
    definition, made = version.definition, to_millis(services.clock.now())
    edges = [bucket + number * definition.every / count for number in range(count + 1)]
    for number in range(count):
        start, end = map(to_text, edges[number : number + 2])
        memo = PartMemo(definition.text, start, end, made, count)
        name = f"{definition.source}#{definition.name}#{to_text(bucket)}#{number:04}"
        services.work.add(PART, name, msgspec.json.encode(memo).decode())


def merge_parts(version: DefinitionVersion, bucket: datetime, services: Services) -> tuple[datetime, Bucket] | None:
    """Merge the parts of a bucket; None if it has none. Return the instant at which the first of them was added.

    Raises Divided if some are not finished, BucketBlocked if the events of some cannot be read.
    """
    definition = version.definition
    parts = [
        part
        for part in list_parts(services, definition.source)
        if (part.rollup, part.bucket, part.memo.definition) == (definition.name, bucket, definition.text)
    ]
    if not parts:
        return None
    if len(parts) < parts[0].memo.count:
        # The run that divided the bucket was stopped.
        _add_parts(version, bucket, parts[0].memo.count, services)
    if len(parts) < parts[0].memo.count or not all(part.item.done for part in parts):
        raise Divided(f"parts of {definition.stream} {to_text(bucket)} are not finished")
    if any(part.memo.too_long for part in parts) and len(parts) < _MOST_PARTS:
        remove_parts(parts, services)
        _add_parts(version, bucket, min(_FINER * len(parts), _MOST_PARTS), services)
        raise Divided(f"the parts of {definition.stream} {to_text(bucket)} were too long")
    for part in parts:
        if part.memo.problem:
            remove_parts(parts, services)
            raise BucketBlocked(part.memo.problem)
    merged = Bucket(definition, services.reader.sketches)
    for part in parts:
        merged.over = max(merged.over, part.memo.over)
        _merge_part(merged, part, definition, services)
        if merged.is_over:
            break
    return from_millis(min(part.memo.made for part in parts)), merged


def _merge_part(merged: Bucket, part: BucketPart, definition: Definition, services: Services) -> None:
    reader = services.reader
    body = b64decode(services.rollups.read_part(part.item.name, part.item.done))
    for series, id, data in decode_json(reader.unpacker.compressor.expand(body)) if body else ():
        event = Event(series, part.bucket, id, data)
        merged.merge_names(parse_names(definition, event))
        cell = parse_cell(definition, event, reader.sketches, definition.fields)
        if cell is not None:
            merged.merge(cell)


def compute_part(part: BucketPart, held: HeldClaim, definition: Definition, services: Services) -> None:
    """Read the events of a part, store their cells, and let the claim finish the part."""
    then, memo = definition.parse_former(part.memo.definition), part.memo
    span = CoveredSpan(from_text(memo.start), from_text(memo.end), None)
    try:
        content = collect_bucket(then, [span], services, MOST_PART if memo.count < _MOST_PARTS else None)
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


def find_obsolete(parts: Sequence[BucketPart], versions: Mapping[str, Sequence[DefinitionVersion]]) -> list[BucketPart]:
    """Find the parts of buckets that are sealed, or of definitions that are gone. ``versions`` are of each rollup."""
    next_buckets = {
        (rollup, version.edge.sealed, version.definition.text) for rollup, some in versions.items() for version in some
    }
    return [part for part in parts if (part.rollup, part.bucket, part.memo.definition) not in next_buckets]


def remove_parts(parts: Sequence[BucketPart], services: Services) -> None:
    """Remove parts, with their cells. If this is stopped, the records that are left say what is left."""
    for part in parts:
        services.rollups.clear_part(part.item.name)
        services.work.remove(PART, part.item.name)
