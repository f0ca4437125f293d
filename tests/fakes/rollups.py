"""The edges and marks of rollups in memory."""

from collections.abc import Sequence
from datetime import datetime

from tidetable.ports import Edge, Mark, RollupState


class FakeRollups:
    """A table of edges, marks and overfull buckets."""

    def __init__(self) -> None:
        self.edges: dict[tuple[str, str, datetime], Edge] = {}
        self.marks: dict[tuple[str, datetime], int] = {}
        self.over: dict[tuple[str, str, datetime], int] = {}

    def read_state(self, stream: str) -> RollupState:
        edges = [edge for (owner, *_), edge in self.edges.items() if owner == stream]
        marks = [Mark(bucket, at) for (owner, bucket), at in self.marks.items() if owner == stream]
        over = [(rollup, bucket) for owner, rollup, bucket in self.over if owner == stream]
        return RollupState(sorted(edges, key=lambda edge: (edge.start, edge.rollup)), sorted(marks), sorted(over))

    def put_marks(self, stream: str, buckets: Sequence[datetime], at: int) -> None:
        for bucket in buckets:
            self.marks[stream, bucket] = max(at, self.marks.get((stream, bucket), at))

    def clear_mark(self, stream: str, mark: Mark) -> bool:
        if self.marks.get((stream, mark.bucket)) != mark.at:
            return False
        del self.marks[stream, mark.bucket]
        return True

    def put_edge(self, stream: str, edge: Edge, expected: Edge | None) -> bool:
        key = (stream, edge.rollup, edge.start)
        before = key if expected is None else (stream, expected.rollup, expected.start)
        if self.edges.get(before) != expected or (before != key and key in self.edges):
            return False
        self.edges.pop(before, None)
        self.edges[key] = edge
        return True

    def put_over(self, stream: str, rollup: str, bucket: datetime, groups: int) -> None:
        self.over[stream, rollup, bucket] = groups

    def clear_over(self, stream: str, rollup: str, bucket: datetime) -> None:
        self.over.pop((stream, rollup, bucket), None)
