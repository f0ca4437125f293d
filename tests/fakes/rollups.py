"""The state of rollups in memory. Like reads of the real table, all reads are strongly consistent."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tests.fakes.store import FakeStore
from tidetable.errors import TableThrottled
from tidetable.events import Item
from tidetable.layout import Key
from tidetable.ports import Edge, LastPeriods, Mark, NotedSeries, NotePage, Noting, Put, RollupState
from tidetable.ports.rollups import Span
from tidetable.times import from_text, to_text

# A stream, the start of a bucket and its length.
_Place = tuple[str, datetime, timedelta]


class FakeRollups:
    """The state of rollups. With ``refuses`` every request fails; ``reads`` counts the reads of a state.

    The marks of new events are items of the event store ``store``, because they are written together with events.
    """

    table = "rollups"

    def __init__(self, store: FakeStore | None = None) -> None:
        self.new: dict[Key, Item] = {} if store is None else store.tables.setdefault(self.table, {})
        self.edges: dict[tuple[str, str, datetime], Edge] = {}
        self.marks: dict[_Place, int] = {}
        # Of marks: the instant of the first writer, and the time and number of the last resealing. ``lost`` marks are not in
        # ``marks``; rested marks are only in ``resealed``.
        self.since: dict[_Place, int] = {}
        self.resealed: dict[_Place, tuple[int, int]] = {}
        self.lost: set[_Place] = set()
        self.over: dict[tuple[str, str, datetime], int] = {}
        self.noting: dict[str, Noting] = {}
        # The pages of a period by chain, number and, if it is alone on its page, series.
        self.pages: dict[tuple[str, str], dict[tuple[int, int, str], NotePage]] = {}
        self.parts: dict[tuple[str, int], list[str]] = {}
        self.last: dict[str, LastPeriods] = {}
        self.slots: dict[tuple[str, int, int], tuple[int, bytes]] = {}
        self.refuses = False
        self.reads = 0

    def read_state(self, stream: str, span: Span | None = None) -> RollupState:
        self._ask()
        self.reads += 1
        return RollupState(
            sorted(
                [edge for (name, _, _), edge in self.edges.items() if name == stream],
                key=lambda edge: (edge.start, edge.rollup),
            ),
            sorted([*self._list_marks(stream, span, self.marks), *self._list_new(stream, span)]),
            [
                (rollup, bucket)
                for name, rollup, bucket in sorted(self.over)
                if name == stream and (span is None or span[0] <= bucket < span[1])
            ],
            self.noting.get(stream),
            self._list_marks(stream, span, self.resealed.keys() - self.marks.keys() - self.lost),
            self._list_marks(stream, span, self.lost),
        )

    def read_last(self, stream: str) -> RollupState | None:
        state = self.read_at_once(stream)
        return state if len(state.marks) + len(state.rested) + len(state.lost) < 1_000 else None

    def put_last(self, stream: str, last: LastPeriods, expected: LastPeriods | None) -> bool:
        self._ask()
        stored = self.last.get(stream)
        if (stored and stored.version) != (expected and expected.version):
            return False
        self.last[stream] = last
        return True

    def put_slots(self, stream: str, last: LastPeriods, first: int, contents: Sequence[bytes]) -> None:
        self._ask()
        for number, content in enumerate(contents, first):
            self.slots[stream, last.side, number] = last.generation, content

    def read_slots(self, stream: str, last: LastPeriods, numbers: Sequence[int]) -> Sequence[bytes] | None:
        self._ask()
        found = [self.slots.get((stream, last.side, number), (0, b"")) for number in numbers]
        return [content for _, content in found] if all(number == last.generation for number, _ in found) else None

    def read_at_once(self, stream: str) -> RollupState:
        return self.read_state(stream)._replace(last=self.last.get(stream))

    def _list_marks(self, stream: str, span: Span | None, places: Iterable[_Place]) -> list[Mark]:
        return [
            Mark(
                bucket,
                self.marks.get(place, 0),
                length,
                min(self.since.get(place, 0), self.marks.get(place, 0)),
                *self.resealed.get(place, (0, 0)),
                place in self.lost,
            )
            for place in sorted(places)
            for name, bucket, length in [place]
            if name == stream and (span is None or (bucket < span[1] and span[0] < bucket + length))
        ]

    def _list_new(self, stream: str, span: Span | None) -> list[Mark]:
        marks = []
        for item in self.new.values():
            bucket, length = from_text(item["bucket"]), timedelta(seconds=item["seconds"])
            is_added = item["version"] == 2
            mark = Mark(bucket, item["at"], length, item["at"], event=tuple(item["event"]), is_added=is_added)
            if item["pk"] == stream and (span is None or mark.meets(*span)):
                marks.append(mark)
        return marks

    def read_marks(self, stream: str, span: Span) -> Sequence[Mark]:
        return self.read_state(stream, span).marks

    def make_mark(self, stream: str, mark: Mark) -> Put:
        bucket, seconds, event = to_text(mark.bucket), int(mark.length.total_seconds()), list(mark.event)
        key = {"pk": stream, "sk": f"{bucket} {seconds} {event}"}
        version = 2 if mark.is_added else 1
        return Put(
            self.table, key | {"bucket": bucket, "seconds": seconds, "event": event, "at": mark.at, "version": version}
        )

    def put_marks(self, stream: str, buckets: Sequence[datetime], at: int, length: timedelta) -> None:
        self._ask()
        assert len(set(buckets)) == len(buckets), "BatchWriteItem refuses a repeated key"
        for bucket in buckets:
            place = stream, bucket, length
            if place not in self.marks or self.marks[place] < at:
                self.since.setdefault(place, at)
                self.marks[place] = at
            self.lost.discard(place)

    def clear_mark(self, stream: str, mark: Mark) -> bool:
        self._ask()
        if mark.event:
            return self.new.pop(self.make_mark(stream, mark).key, None) is not None
        place = stream, mark.bucket, mark.length
        if self.marks.get(place, 0) != mark.at:
            return False
        for held in (self.marks, self.since, self.resealed):
            held.pop(place, None)
        self.lost.discard(place)
        return True

    def note_resealed(self, stream: str, mark: Mark, at: int, *, rests: bool) -> bool:
        self._ask()
        place = stream, mark.bucket, mark.length
        if place not in self.marks or (rests and self.marks[place] != mark.at):
            return False
        self.resealed[place] = at, mark.pauses + 1
        if rests:
            del self.marks[place]
            self.since.pop(place, None)
        return True

    def note_lost(self, stream: str, mark: Mark) -> bool:
        self._ask()
        place = stream, mark.bucket, mark.length
        if self.marks.get(place) != mark.at:
            return False
        del self.marks[place]
        self.since.pop(place, None)
        self.lost.add(place)
        return True

    def put_edge(self, stream: str, edge: Edge, expected: Edge | None) -> bool:
        self._ask()
        place = stream, edge.rollup, edge.start
        if expected is None:
            if place in self.edges:
                return False
        else:
            before = stream, expected.rollup, expected.start
            if self.edges.get(before) != expected or (before != place and place in self.edges):
                return False
            del self.edges[before]
        self.edges[place] = edge
        return True

    def put_over(self, stream: str, rollup: str, bucket: datetime, groups: int) -> None:
        self._ask()
        self.over[stream, rollup, bucket] = groups

    def clear_over(self, stream: str, rollup: str, bucket: datetime) -> None:
        self._ask()
        self.over.pop((stream, rollup, bucket), None)

    def put_part(self, name: str, generation: int, pieces: Sequence[str]) -> None:
        self._ask()
        self.parts[name, generation] = list(pieces)

    def read_part(self, name: str, generation: int) -> Sequence[str]:
        self._ask()
        return self.parts.get((name, generation), [])

    def clear_part(self, name: str) -> None:
        self._ask()
        self.parts = {key: pieces for key, pieces in self.parts.items() if key[0] != name}

    def forget(self, stream: str, rollup: str) -> None:
        self._ask()
        self.edges = {key: edge for key, edge in self.edges.items() if key[:2] != (stream, rollup)}
        self.over = {key: groups for key, groups in self.over.items() if key[:2] != (stream, rollup)}

    def put_noting(self, stream: str, noting: Noting, expected: Noting | None) -> bool:
        self._ask()
        if self.noting.get(stream) != expected:
            return False
        self.noting[stream] = noting
        return True

    def stop_noting(self, stream: str, at: datetime) -> None:
        self._ask()
        self.noting[stream] = Noting(at, at, stopped=True)

    @property
    def notes(self) -> dict[tuple[str, str], dict[str, int]]:
        """The noted series of each period, each with the instant of its page."""
        return {
            key: {series: page.at for page in pages.values() for series in page.series}
            for key, pages in self.pages.items()
        }

    def put_notes(self, stream: str, period: str, pages: Sequence[NotePage], at: int) -> None:
        self._ask()
        held = self.pages.setdefault((stream, period), {})
        for page in pages:
            key = (-1, -1, page.series[0]) if page.number is None else (page.chain, page.number, "")
            old = held[key].series if key in held else ()
            held[key] = page._replace(series=sorted({*old, *page.series}), at=at)

    def read_chains(self, stream: str, period: str, first: Mapping[int, int]) -> Iterable[NotePage]:
        self._ask()
        pages = sorted(self.pages.get((stream, period), {}).items())
        return [page for (chain, number, _), page in pages if chain in first and number >= first[chain]]

    def read_notes(self, stream: str, period: str, *, consistent: bool) -> NotedSeries:
        self._ask()
        noted = sorted(self.notes.get((stream, period), {}))
        return NotedSeries(noted, float(len(noted)))

    def clear_notes(self, stream: str, period: str, before: int, most: int) -> int:
        self._ask()
        pages = self.pages.get((stream, period), {})
        due = [key for key, page in sorted(pages.items()) if page.at < before][:most]
        for key in due:
            del pages[key]
        return len(due)

    def _ask(self) -> None:
        if self.refuses:
            raise TableThrottled("rollups")
