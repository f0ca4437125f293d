"""The state of rollups: the time up to which each rollup is sealed, and the buckets that must be read from the events.

docs/design/rollups.md says how edges and marks make every acknowledged event visible in aggregates at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from tidetable.ports.data import Put
from tidetable.times import EPOCH

# A range of time, [start, end).
Span = tuple[datetime, datetime]


class Mark(NamedTuple):
    """A bucket whose events changed or will change. All instants are in epoch milliseconds.

    ``since`` is the time when its first writer put the mark, ``at`` the time when its last writer put it. ``length`` is
    the length of the bucket: the shortest ``every`` of the stream's rollups in the writer's configuration. During a
    deploy, other functions may still have another configuration. ``resealed`` is the time when the bucket was last
    computed anew, ``pauses`` how many times that happened; both are 0 if it was not computed anew within the last hour.
    ``lost`` says that its events were deleted for ever before the bucket was computed anew.

    The mark of a new late event names the ``event``: its table, its partition key and its sort key. The event and this
    mark were written by one transaction, and no other event has this mark. ``is_added`` says that the event is in the
    cells of all sealed buckets; the mark is removed next.
    """

    bucket: datetime
    at: int
    length: timedelta
    since: int = 0
    resealed: int = 0
    pauses: int = 0
    lost: bool = False
    event: tuple[str, ...] = ()
    is_added: bool = False

    def meets(self, start: datetime, end: datetime) -> bool:
        """True if its bucket overlaps ``[start, end)``."""
        return self.bucket < end and start < self.bucket + self.length


class Edge(NamedTuple):
    """An edge says that a rollup's buckets of ``[start, sealed)`` are sealed under a definition, which is JSON text.

    A rollup has an edge for each definition that it ever had. The ranges of its edges do not overlap.
    """

    rollup: str
    start: datetime
    sealed: datetime
    definition: str


class Noting(NamedTuple):
    """The instant ``since``: the series of every period that begins then or later are noted.

    ``swept`` is the instant up to which the notes of deleted periods were removed. ``stopped`` says that the stream had no rollup
    at ``since``, so nothing was noted from then on.
    """

    since: datetime
    swept: datetime
    stopped: bool = False


class NotePage(NamedTuple):
    """A page of the notes of a period: some series that have events in it.

    A period has several chains of pages, and a hash of a series chooses its chain. ``number`` counts the pages of a
    chain; None means a page of one series alone, which is in no chain. ``at`` (epoch milliseconds) is when notes were
    last put on the page.
    """

    chain: int
    number: int | None
    series: Sequence[str]
    at: int = 0


class LastPeriods(NamedTuple):
    """The record of the periods in which a stream's series have their last events.

    ``covered`` are the spans of the periods whose series are known, under the notes that began at ``since``. ``slots``
    is the number of slots that hold the periods of series, and ``series`` the number of series; ``generation`` and
    ``side`` name the slots: the next generation is written into those of the other side. ``version`` counts the changes
    of the record. At ``due`` the refresher looks for further periods. The record counts only if this version has held
    the lease of the stage since ``held``, as a former version lets marks rest without the record.
    """

    covered: tuple[Span, ...]
    since: datetime
    due: datetime
    version: int = 1
    generation: int = 0
    side: int = 0
    slots: int = 0
    series: int = 0
    held: datetime = EPOCH


class NotedSeries(NamedTuple):
    """The series that have events in a period, in order, and the read units that this read consumed."""

    series: Sequence[str]
    units: float


class RollupState(NamedTuple):
    """The state of a stream's rollups: all edges, and the instant since which its series are noted.

    ``over`` lists the buckets with too many groups to be sealed. ``marks``, ``over``, ``rested`` and ``lost`` are of all
    time, or of a span. ``rested`` are the marks whose buckets were computed anew: they do not count any more, and only
    their ``resealed`` and ``pauses`` have a meaning. ``lost`` are the marks whose events are deleted for ever: their
    cells are used, and answers have a gap.
    """

    edges: Sequence[Edge]
    marks: Sequence[Mark]
    over: Sequence[tuple[str, datetime]]
    noting: Noting | None = None
    rested: Sequence[Mark] = ()
    lost: Sequence[Mark] = ()
    last: LastPeriods | None = None

    @property
    def noted_since(self) -> datetime | None:
        """The start of the first period whose series are all noted; None if there is no such period."""
        return None if self.noting is None or self.noting.stopped else self.noting.since


class Rollups(Protocol):
    """The table of edges and marks. Every read is strongly consistent, and every change is conditional or idempotent.

    Any method may raise ``StoreUnavailable`` or ``TableThrottled``: then nobody knows whether the change was made.
    """

    def read_state(self, stream: str, span: Span | None = None) -> RollupState:
        """Read the state of a stream, with edges and marks in the order of time.

        With a span, the state has only the marks whose buckets overlap the span, and only the overfull buckets that
        begin in the span.
        """

    def read_at_once(self, stream: str) -> RollupState:
        """Read the whole state of a stream by one request, in whatever order.

        Only a caller that alone clears marks and moves edges can rely on it. For others it is a first look.
        """

    def read_marks(self, stream: str, span: Span) -> Sequence[Mark]:
        """Read the marks of a span that count, by one request."""

    def make_mark(self, stream: str, mark: Mark) -> Put:
        """Make the put of the mark of a new event, for a transaction; of a mark that ``is_added``, it replaces the mark."""

    def put_marks(self, stream: str, buckets: Sequence[datetime], at: int, length: timedelta) -> None:
        """Mark buckets of a length; an existing mark keeps the greater ``at`` and its ``since``. Raise if any mark may not
        be written.
        """

    def clear_mark(self, stream: str, mark: Mark) -> bool:
        """Remove a mark if its ``at`` is unchanged, or a rested mark if nobody has put it again; True if it was removed."""

    def note_resealed(self, stream: str, mark: Mark, at: int, *, rests: bool) -> bool:
        """Record that the bucket of a mark was computed anew at an instant, one time more; return True if it was recorded.

        If the mark ``rests``, all of its events are in the cells, and it does not count any more; that is refused if its
        ``at`` has changed. If it does not rest, it stays; that is refused if it does not exist any more.
        """

    def note_lost(self, stream: str, mark: Mark) -> bool:
        """Record that the events of a mark are deleted for ever, if its ``at`` is unchanged; return True if it was recorded."""

    def put_edge(self, stream: str, edge: Edge, expected: Edge | None) -> bool:
        """Put an edge in place of ``expected`` (None: a new edge); return False if another edge is stored.

        An edge is found by its rollup and its start. If ``expected`` has another start it is replaced in the same transaction.
        """

    def put_over(self, stream: str, rollup: str, bucket: datetime, groups: int) -> None:
        """Record that a bucket of a rollup has too many groups to be sealed, and the number of groups."""

    def clear_over(self, stream: str, rollup: str, bucket: datetime) -> None:
        """Remove the record that a bucket of a rollup has too many groups."""

    def put_part(self, name: str, generation: int, pieces: Sequence[str]) -> None:
        """Store the cells of a part of a bucket, in pieces of at most 300,000 characters, under a generation."""

    def read_part(self, name: str, generation: int) -> Sequence[str]:
        """Read the pieces of a part's cells that were stored under a generation, and that are not removed."""

    def clear_part(self, name: str) -> None:
        """Remove the cells of a part, of all generations."""

    def forget(self, stream: str, rollup: str) -> None:
        """Remove every edge and every overfull bucket of a rollup, so that none of its buckets counts as sealed."""

    def put_noting(self, stream: str, noting: Noting, expected: Noting | None) -> bool:
        """Record since when series are noted, in place of ``expected`` (None: no record); False if another is stored."""

    def stop_noting(self, stream: str, at: datetime) -> None:
        """Record that series are no longer noted, whatever the present record says."""

    def put_notes(self, stream: str, period: str, pages: Sequence[NotePage], at: int) -> None:
        """Add the notes on pages to the notes of a period, and set ``at`` of these pages. Raise if any may be missing."""

    def read_chains(self, stream: str, period: str, first: Mapping[int, int]) -> Iterable[NotePage]:
        """Read the pages of chains, each from the page ``first[chain]`` on. The pages of a chain come in order."""

    def read_notes(self, stream: str, period: str, *, consistent: bool) -> NotedSeries:
        """Read the series that are noted for a period."""

    def read_last(self, stream: str) -> RollupState | None:
        """Read the marks, and then the record of last periods and of notes; None if there are too many marks."""

    def put_last(self, stream: str, last: LastPeriods, expected: LastPeriods | None) -> bool:
        """Record the last periods, in place of ``expected`` (None: no record); False if another record is stored."""

    def put_slots(self, stream: str, last: LastPeriods, first: int, contents: Sequence[bytes]) -> None:
        """Write some slots of the generation and the side of ``last``, from the slot ``first`` on."""

    def read_slots(self, stream: str, last: LastPeriods, numbers: Sequence[int]) -> Sequence[bytes] | None:
        """Read some slots of a record; None if another generation has replaced any of them."""

    def clear_notes(self, stream: str, period: str, before: int, most: int) -> int:
        """Remove at most ``most`` pages of a period to which no notes were put since an instant; return their number."""
