"""A process's memory of a feed's targets. It knows the targets that are out of order.

Of a batch that comes again, it knows the records that each target has accepted. The memory ends with the process. Its
loss costs time and repeated changes, but no change is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.feed.changes import StreamRecord

# Tries of a target that is out of order may take a tenth of the time: a hanging target takes a minute per request.
_SHARE = 10
_LONGEST = timedelta(minutes=1)
# At most this many batches are remembered for a target; if there are more, all are forgotten.
_MOST = 1_000
# At most this many changes of a target have a remembered failure; if there are more, the oldest are forgotten.
_MOST_FAILURES = 10_000

# A change of a record: the record's table and sequence number, and the identity of the event. A pack has many changes.
ChangeKey = tuple[str, str, tuple[str, str, str]]
# A sequence number in a form that can be sorted: in one shard, later records have greater numbers, of up to 40 digits.
_Order = tuple[int, str]


@dataclass(slots=True)
class Memory:
    """The state of each target, by the target's ARN."""

    _failing: set[str] = field(default_factory=set)
    # The targets that have accepted no change since their changes became dead letters, and the time when each may be
    # tried again.
    _retry_from: dict[str, datetime] = field(default_factory=dict)
    # For each target, and for the table and the first record of a batch that comes again: the last record that the
    # target accepted.
    _taken: dict[str, dict[tuple[str, _Order], _Order]] = field(default_factory=dict)
    # For each target and change: when its delivery failed first.
    _failures: dict[str, dict[ChangeKey, datetime]] = field(default_factory=dict)
    # When a target accepted a change last.
    _accepted: dict[str, datetime] = field(default_factory=dict)

    def is_failing(self, target: str) -> bool:
        """True if the last request to a target failed: then the other targets are served before it."""
        return target in self._failing

    def is_out_of_order(self, target: str) -> bool:
        """True if a target has accepted no change since its changes became dead letters."""
        return target in self._retry_from

    def may_try(self, target: str, now: datetime) -> bool:
        """True if a target may be tried now; a target that is out of order must wait."""
        return now >= self._retry_from.get(target, now)

    def note_success(self, target: str, changes: Sequence[ChangeKey], now: datetime) -> None:
        """Remember that a target accepted changes."""
        self._failing.discard(target)
        self._retry_from.pop(target, None)
        self._accepted[target] = now
        failures = self._failures.get(target)
        if failures:
            for change in changes:
                failures.pop(change, None)

    def note_failure(self, target: str, changes: Sequence[ChangeKey], now: datetime) -> None:
        """Remember that a target did not accept changes."""
        self._failing.add(target)
        failures = self._failures.setdefault(target, {})
        for change in changes:
            failures.setdefault(change, now)
        while len(failures) > _MOST_FAILURES:
            del failures[next(iter(failures))]

    def note_out_of_order(self, target: str, seconds: float, now: datetime) -> None:
        """Remember that a target is out of order; its last request took ``seconds``."""
        self._retry_from[target] = now + min(_SHARE * timedelta(seconds=seconds), _LONGEST)

    def find_first_failure(self, target: str, change: ChangeKey, now: datetime) -> datetime:
        """Return when the delivery of a change failed first; ``now`` if no failure is remembered."""
        return self._failures.get(target, {}).get(change, now)

    def accepted_since(self, target: str, change: ChangeKey) -> bool:
        """True if a target has accepted a change after the first failure of this change."""
        accepted, failed = self._accepted.get(target), self._failures.get(target, {}).get(change)
        return accepted is not None and failed is not None and accepted > failed

    def count_taken(self, target: str, records: Sequence[StreamRecord]) -> int:
        """Return how many of a batch's first records a target accepted when the batch came before, and forget the
        batch.

        Later batches are forgotten, too: the target may get an earlier record again, and then needs all later records.
        """
        table, first = records[0].table, _make_order(records[0])
        ends = self._taken.get(target, {})
        last = ends.get((table, first))
        self._taken[target] = {key: end for key, end in ends.items() if key[0] != table or key[1] < first}
        return 0 if last is None else sum(_make_order(record) <= last for record in records)

    def note_taken(self, target: str, records: Sequence[StreamRecord]) -> None:
        """Remember that a target accepted all changes of these records. The next batch will begin with them."""
        if not records:
            return
        ends = self._taken.setdefault(target, {})
        if len(ends) >= _MOST:
            ends.clear()
        ends[records[0].table, _make_order(records[0])] = _make_order(records[-1])


def _make_order(record: StreamRecord) -> _Order:
    return len(record.sequence), record.sequence
