"""What a process remembers of a feed's targets: which are out of order, and what each took of a batch that comes again.

It is forgotten with the process, which costs time and repeats, and never a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.feed.changes import Record

# A request to a target that is out of order may take a tenth of the time, as a target that hangs takes a minute for each.
_SHARE = 10
_LONGEST = timedelta(minutes=1)
# Batches that are remembered for a target; beyond that all are forgotten.
_MOST = 1_000

# A sequence number in an order: of one shard, later records have greater numbers, of up to 40 digits.
_Order = tuple[int, str]


@dataclass(slots=True)
class Memory:
    """By the ARNs of targets."""

    _failing: set[str] = field(default_factory=set)
    # Targets whose changes became dead letters, and have taken nothing since: when they are tried again.
    _out: dict[str, datetime] = field(default_factory=dict)
    # Of batches that come again, by table and first record, the last record that a target took.
    _taken: dict[str, dict[tuple[str, _Order], _Order]] = field(default_factory=dict)

    def is_failing(self, target: str) -> bool:
        """Whether the last request to a target failed: the others are served before it."""
        return target in self._failing

    def is_out(self, target: str) -> bool:
        """Whether a target took nothing since its changes became dead letters."""
        return target in self._out

    def may_try(self, target: str, now: datetime) -> bool:
        """Whether a target that is out of order may be tried again."""
        return now >= self._out.get(target, now)

    def note_success(self, target: str) -> None:
        """A target took something."""
        self._failing.discard(target)
        self._out.pop(target, None)

    def note_failure(self, target: str, begun_at: datetime, now: datetime, *, out: bool) -> None:
        """A request that began at an instant failed; with ``out`` the target is out of order."""
        self._failing.add(target)
        if out:
            self._out[target] = now + min(_SHARE * (now - begun_at), _LONGEST)

    def count_taken(self, target: str, records: Sequence[Record]) -> int:
        """How many of the first records of a batch a target took when they came before. The batch is not remembered any longer.

        Nor are batches that begin later: the target may be sent an earlier record again, and then needs all that follow it.
        """
        table, first = records[0].table, _order_of(records[0])
        ends = self._taken.get(target, {})
        last = ends.get((table, first))
        self._taken[target] = {key: end for key, end in ends.items() if key[0] != table or key[1] < first}
        return 0 if last is None else sum(_order_of(record) <= last for record in records)

    def note_taken(self, target: str, records: Sequence[Record]) -> None:
        """A target took all changes of records with which a batch will begin."""
        if not records:
            return
        ends = self._taken.setdefault(target, {})
        if len(ends) >= _MOST:
            ends.clear()
        ends[records[0].table, _order_of(records[0])] = _order_of(records[-1])


def _order_of(record: Record) -> _Order:
    return len(record.sequence), record.sequence
