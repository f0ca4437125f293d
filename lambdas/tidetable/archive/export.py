"""The use case of archiving: fence, read, write, read back, compare, mark.

A run may stop anywhere: the next run continues. The table is read in segments, by as many workers at the same time as
the table's pace and the share of the stream allow. A worker reads back and compares each file as soon as it is written.
On a slow table, a worker reads only the unused capacity and then ends: a function that waits costs more than the units.
A table that is read in a few seconds is archived by the run that begins its archive, without messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from tidetable.archive.exporter import Exporter, open_source
from tidetable.archive.pacing import BURST_SECONDS, SMOOTH_SECONDS, Pacer
from tidetable.archive.segment import SegmentRun
from tidetable.archive.segments import ARCHIVE, Segment, list_segments, remove_segments
from tidetable.archive.turn import DONE, compute_policy, require_active_table, require_entry, take_turn
from tidetable.catalog import IN_ARCHIVE, Entry
from tidetable.catalog_steps import read_entry
from tidetable.errors import ArchiveBusy, ArchiveFailed, TidetableError, describe_error
from tidetable.periods import parse_label
from tidetable.remaining import Remaining, limit_time
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.times import from_text
from tidetable.work.claim import ItemName, hold_claim, rests
from tidetable.work.schedule import DueItem, WorkReport, wake_workers

# If a worker has used these seconds, it makes room for the other streams.
_CHAIN = 60.0
# After so many seconds a caller asks again how far the workers came.
_POLL_SECONDS = 15.0
# The seconds that a function keeps for its answer: its claims outlive them.
RESERVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run: ``events`` counts the events that are archived and verified so far.

    ``wait`` is the number of seconds after which another run finds as much unused capacity as one run can use, or finds
    that workers have gone on.
    """

    entry: Entry
    events: int
    wait: float = 0.0

    @property
    def done(self) -> bool:
        return self.entry.state not in IN_ARCHIVE or self.entry.is_retained


def archive_period(
    stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining, *, retain: bool = False
) -> Archived:
    """Archive a period's table as far as the time allows, or wake the workers that do it.

    Mark the period as archived when the archive is complete; or as retained, if its table is to answer on.
    ``remaining`` returns the seconds that this run may still take. ArchiveFailed and ArchiveMismatch leave the table as
    it is.
    """
    entry = require_entry(stream, label, exporter.catalog)
    if entry.state in DONE:
        return report_archived(entry)
    if rests(ARCHIVE, stream, exporter.work.list_pauses()):
        raise ArchiveBusy(f"the archiving of {stream} rests, until tidetable archive {stream} --resume")
    table = require_active_table(entry, exporter)
    entry, segments = take_turn(stream, label, exporter, owner, remaining, retain=retain)
    if entry.state in DONE or entry.is_retained:
        return report_archived(entry)
    if table.size_bytes > exporter.at_once_bytes:
        wake_archive_workers(exporter)
        problem = next((one.item.problem for one in segments if one.item.problem), "")
        if problem:
            raise ArchiveFailed(problem)
        return Archived(entry, _count_events(segments), _POLL_SECONDS)
    worker = ArchiveWorker(exporter, owner, remaining)
    wait = max([worker.work_on_segment(segment, entry) for segment in segments], default=0.0)
    segments = list_segments(exporter.work, stream, label)
    events = _count_events(segments)
    if are_done(segments):
        entry, _ = take_turn(stream, label, exporter, owner, remaining, retain=retain)
        # Segments that a killed run left of another period get a message, and its worker removes them. This archive is
        # complete also if that fails, and a later run sends the message.
        with suppress(Exception):
            wake_archive_workers(exporter)
        wait = 0.0
    return Archived(entry, events, wait)


def report_archived(entry: Entry) -> Archived:
    return Archived(entry, entry.archive.events if entry.archive is not None else 0)


def _count_events(segments: Iterable[Segment]) -> int:
    return sum(segment.memo.events for segment in segments)


def are_done(segments: Sequence[Segment]) -> bool:
    """True if all segments of a period are done."""
    return bool(segments) and all(one.item.done for one in segments)


def wake_archive_workers(exporter: Exporter) -> WorkReport:
    """Send messages for the segments of all periods, as many as the shares of their streams and their tables allow."""
    now, due = exporter.clock.now(), list[DueItem]()
    pauses = exporter.work.list_pauses()
    periods = groupby(list_segments(exporter.work), key=lambda segment: (segment.stream, segment.label))
    for (stream, _), of_period in periods:
        segments = [] if rests(ARCHIVE, stream, pauses) else list(of_period)
        # If all segments are done, a run that wanted to complete the archive was stopped: a worker does it.
        left = [segment for segment in segments if not segment.item.done] or segments[:1]
        left.sort(key=lambda segment: not (segment.item.is_claimed(now) or segment.item.is_sent(now)))
        due += [DueItem(segment.item, stream, added=True) for segment in left[: left[0].memo.readers if left else 0]]
    return wake_workers(due, exporter.config.work.workers, exporter.work, exporter.work_queue, now)


@dataclass(slots=True)
class ArchiveWorker:
    """The work of one run. ``owner`` is its name in the claims."""

    exporter: Exporter
    owner: str
    remaining: Remaining

    def work_on_segment(self, segment: Segment, entry: Entry) -> float:
        """Claim a segment, and write its files as far as the time and the table's pace allow.

        Return the seconds after which another run finds unused capacity. ArchiveBusy if another worker has the segment.
        """
        exporter, now = self.exporter, self.exporter.clock.now()
        if segment.item.done:
            return 0.0
        table = require_active_table(entry, exporter)
        length = choose_lease_length(timedelta(seconds=self.remaining() + RESERVE_SECONDS))
        with hold_claim(exporter.work, *segment.name, self.owner, now, length, added=True) as held:
            if held is None:
                raise ArchiveBusy(f"period {segment.label} of {segment.stream} is being archived by another run")
            # Another worker may have gone on with it since it was listed.
            segment = segment.read_memo(held.memo)
            rate = compute_policy(entry, table, exporter)[1] / segment.memo.readers
            burst, free = SMOOTH_SECONDS if table.on_demand else BURST_SECONDS, segment.memo.free
            pacer = Pacer(rate, exporter.clock, burst=burst, free=from_text(free) if free else None)
            source = open_source(entry, exporter, segment.find_range(entry.period))
            try:
                SegmentRun(entry, segment, held, exporter, source, pacer, self.remaining).run()
            except Exception as error:
                # That the time is up is no problem.
                if not isinstance(error, ArchiveBusy):
                    held.problem = str(error) if isinstance(error, TidetableError) else describe_error(error)
                raise
        return 0.0 if held.done else pacer.measure_time_to_full_burst()

    def work_on(self, name: ItemName) -> Archived | ItemName | None:
        """Work on the segment of a message. Return the next segment of its period that nobody has, or the archived period.

        The archive is completed if all segments are done. The message may come twice, late, or after the archive.
        """
        exporter = self.exporter
        stream, label, *_ = name.name.split("#")
        if rests(ARCHIVE, stream, exporter.work.list_pauses()):
            return None
        segments = list_segments(exporter.work, stream, label)
        entry = read_entry(exporter.catalog, stream, parse_label(label))
        if entry is None or entry.state not in IN_ARCHIVE:
            # A run was stopped before it removed them, or the stream was removed.
            remove_segments(exporter.work, segments)
            return None
        now = exporter.clock.now()
        others = sum(one.item.is_claimed(now) for one in segments if one.name != name)
        own = next((one for one in segments if one.name == name and not one.item.done), None)
        if own is not None:
            if others >= own.memo.readers or self.work_on_segment(own, entry) > _CHAIN:
                # The scheduler wakes a worker when the table has a free reader, or unused units.
                return None
            segments = list_segments(exporter.work, stream, label)
        if are_done(segments):
            entry, _ = take_turn(stream, label, exporter, self.owner, self.remaining, retain=True)
            return report_archived(entry)
        now = exporter.clock.now()
        free = (one for one in segments if not (one.item.done or one.item.is_claimed(now) or one.item.is_sent(now)))
        return next((one.name for one in free), None)


def work_on_message(name: ItemName, exporter: Exporter, owner: str, remaining: Remaining) -> Archived | None:
    """Work on the segment of a message, and on others of its period for a minute; then send a message for the next one.

    Return the period if it is archived now.
    """
    worker = ArchiveWorker(exporter, owner, remaining)
    share = limit_time(_CHAIN, exporter.clock, remaining)
    following = worker.work_on(name)
    while isinstance(following, ItemName) and share() > 0:
        following = worker.work_on(following)
    if not isinstance(following, ItemName):
        return following
    exporter.work_queue.send([following])
    return None
