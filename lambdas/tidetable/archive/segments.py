"""The segments of an archive: work items, each of which one worker reads, writes as files, and compares.

A period in the state ``archiving`` or ``retained`` is the order, and its segments are the pieces: all segments of a table
are added at once, because their number is limited. The name of a segment has the instant when it was begun. The files of a
segment carry this instant and the generation of the claim under which they were written. They count only if the segment's
record names their generation, so a worker that was overtaken changes nothing.

A retained table takes writes, and each marks its segment in the catalog's entry (``segmentation``). The next round begins
the marked segments again, at a later instant.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tidetable.archive.manifest import Part, make_prefix, make_progress_prefix
from tidetable.archive.ports import Objects, TimeRange
from tidetable.errors import ArchiveFailed
from tidetable.periods import Period
from tidetable.times import divide_time
from tidetable.work.claim import ItemName, WorkItem, WorkRecords

# The kind of work.
ARCHIVE = "archive"
# Each worker lists the segments of its period. More bytes make longer segments, which go on with another claim.
MOST_SEGMENTS = 1_000


class SegmentMemo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the record of a segment says: it is one of ``count``, and at most ``readers`` workers read the table at once.

    ``columns`` are the declared columns with their types. Reading goes on after the key ``after``. The claim with the
    generation ``noted`` has noted the files with the first ``events`` events. The table has granted all units that were
    read at ``free`` (see Pacer). If ``slices`` is not 0, the segment is a range of the period's time, which is read in so
    many slices; else it is a segment of a scan.
    """

    count: int
    readers: int
    columns: Mapping[str, str]
    after: Mapping[str, Any] | None = None
    events: int = 0
    noted: int = 0
    free: str | None = None
    slices: int = 0


class Segment(NamedTuple):
    """A segment of a table, as its record says; ``made`` is when it was begun, in epoch milliseconds."""

    item: WorkItem
    memo: SegmentMemo
    stream: str
    label: str
    made: str
    number: int

    @property
    def name(self) -> ItemName:
        """The name of the item."""
        return ItemName(ARCHIVE, self.item.name)

    def find_range(self, period: Period) -> TimeRange | None:
        """Find the range of the period's time that the segment is; None if it is a segment of a scan."""
        if not self.memo.slices:
            return None
        edges = divide_time(period.start, period.end, self.memo.count)
        return TimeRange(edges[self.number], edges[self.number + 1], self.memo.slices)

    def begin_anew(self) -> Segment:
        """Return the segment without progress."""
        memo = self.memo
        return self._replace(memo=SegmentMemo(memo.count, memo.readers, memo.columns, slices=memo.slices))

    def read_memo(self, text: str) -> Segment:
        """Return the segment with another memo of its record."""
        return self._replace(memo=msgspec.json.decode(text, type=SegmentMemo))

    def make_part_prefix(self, generation: int) -> str:
        """Make the prefix of the files that a claim of this generation writes."""
        return f"{make_prefix(self.stream, self.label)}part-{self.made}-{self.number:05d}-{generation:03d}-"

    def _make_progress_key(self, generation: int) -> str:
        """Make the key of the object in which a claim of this generation notes the files of the segment."""
        prefix = make_progress_prefix(self.stream, self.label)
        return f"{prefix}{self.made}-{self.number:05d}-{generation:03d}.json.gz"

    def note_parts(self, parts: Sequence[Part], generation: int, objects: Objects) -> None:
        """Note the files of the segment in one object. In a stream by time, all of them have about the same series."""
        body = gzip.compress(msgspec.json.encode(parts), mtime=0)
        objects.put(self._make_progress_key(generation), body)

    def read_parts(self, objects: Objects) -> list[Part] | None:
        """Read the noted files; None if the note is gone, for example after an earlier version began its own archive."""
        if not self.memo.noted:
            return []
        note = objects.find(self._make_progress_key(self.memo.noted))
        return msgspec.json.decode(gzip.decompress(note), type=list[Part]) if note is not None else None


def list_segments(work: WorkRecords, *names: str) -> list[Segment]:
    """List the segments of all periods, of a stream, or of the stream and the period that ``names`` has, by their numbers.

    A record of a newer version is left out; in the list of a period, ArchiveFailed says so.
    """
    segments = list[Segment]()
    for item in work.list_items(ARCHIVE, "".join(f"{name}#" for name in names)):
        stream, label, made, number = item.name.split("#")
        try:
            memo = msgspec.json.decode(item.memo, type=SegmentMemo)
        except msgspec.DecodeError as error:
            if len(names) > 1:
                what = f"the record of segment {number} of {stream} {label}"
                raise ArchiveFailed(f"{what} cannot be read: {error}") from error
            continue
        segments.append(Segment(item, memo, stream, label, made, int(number)))
    return segments


def find_number(part: Part) -> int:
    """Find the number of the segment that a part was written for."""
    return int(part.key.rpartition("/")[2].split("-")[2])


def describe_progress(segments: Iterable[Segment], now: datetime) -> list[dict[str, Any]]:
    """Describe how far the archives of periods are; ``problem`` says why a segment could not be written."""
    periods = dict[tuple[str, str], list[Segment]]()
    for segment in segments:
        periods.setdefault((segment.stream, segment.label), []).append(segment)
    return [
        {
            "stream": stream,
            "period": label,
            "segments": own[0].memo.count,
            "done": sum(bool(one.item.done) for one in own),
            "running": sum(one.item.is_claimed(now) for one in own),
            "events": sum(one.memo.events for one in own),
            "problem": next((one.item.problem for one in own if one.item.problem), None),
        }
        for (stream, label), own in periods.items()
    ]


def add_segments(
    work: WorkRecords, stream: str, label: str, made: str, memo: SegmentMemo, numbers: Iterable[int]
) -> list[Segment]:
    """Add the segments of these numbers that do not exist. Return all that were made at this instant."""
    text = msgspec.json.encode(memo).decode()
    for number in numbers:
        work.add(ARCHIVE, f"{stream}#{label}#{made}#{number:05d}", text)
    return [segment for segment in list_segments(work, stream, label) if segment.made == made]


def remove_segments(work: WorkRecords, segments: Iterable[Segment]) -> None:
    """Remove segments."""
    for segment in segments:
        work.remove(ARCHIVE, segment.item.name)
