"""Deliver a batch of records: every change reaches every target at least once, and the changes of an event keep their
order.

The caller answers the batch with the first record that was not delivered. Lambda sends this record and all later
records again, perhaps in smaller batches. ``intake`` says what becomes of records that cannot be read, ``sending`` of
changes that a target does not accept. No failure blocks a shard until its records expire (AWS: after 24 hours).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.feed.changes import StreamRecord
from tidetable.feed.intake import read_records
from tidetable.feed.sending import send_to_target
from tidetable.feed.targets import Delivered, Feed
from tidetable.remaining import Remaining


def deliver(records: Sequence[StreamRecord], feed: Feed, remaining: Remaining) -> Delivered:
    """Deliver the changes of records. The records are in the order of their shard."""
    delivered = Delivered()
    read, unread = read_records(records, feed, remaining, delivered)
    failures = [] if unread is None else [unread]
    taken_counts: dict[str, int] = {}
    for target in sorted(feed.targets, key=lambda target: feed.memory.is_failing(target.arn)):
        failed = send_to_target(read, target, feed, remaining, delivered)
        taken_counts[target.arn] = len(read) if failed is None else failed.number
        if failed is not None:
            failures.append(failed)
    if not failures:
        return delivered
    number, delivered.reason = min(failures)
    delivered.first_failure = records[number].sequence
    # Lambda sends the batch again from this record on. A target does not get a record twice if it accepted the record.
    for arn, end in taken_counts.items():
        feed.memory.note_taken(arn, records[number:end])
    return delivered
