"""Read the changes of a batch's records.

If a service does not answer (the catalog, a table, S3), the batch ends before the record that needs it, and
Lambda sends this record and all later records again. A record becomes a dead letter only if it is wrong by itself and
older than ``max_age``, or if its last hour has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.errors import TidetableError, ValueMissing, describe_error
from tidetable.feed.changes import StreamRecord
from tidetable.feed.targets import Delivered, Failure, Feed, ReadRecord
from tidetable.feed.unread import describe_unread
from tidetable.packs import DamagedPack
from tidetable.remaining import Remaining

# The share of a call's time in which records are read; the rest is for sending them.
_SHARE = 0.5
TIME_IS_UP = "the time of this call is up; the other changes come with the next call"


class UnknownPeriod(TidetableError):
    """The catalog has no period of a record's table."""


class _Trouble(NamedTuple):
    """The reason why a record could not be read, and if the record is ``wrong`` by itself."""

    reason: str
    wrong: bool


def read_records(
    records: Sequence[StreamRecord], feed: Feed, remaining: Remaining, delivered: Delivered
) -> tuple[list[ReadRecord], Failure | None]:
    """Read records in order. Return them up to the first that must come again, and the failure of that one."""
    read: list[ReadRecord] = []
    least = remaining() * _SHARE
    # All records of a batch are of one table. If the catalog does not answer, it is not asked for every record.
    lookup = _Lookup(feed)
    for number, record in enumerate(records):
        if number and remaining() < least:
            return read, Failure(number, TIME_IS_UP)
        # A deletion is not a change.
        if record.item is None or record.kind is None:
            read.append(ReadRecord(record, ()))
            continue
        try:
            read.append(ReadRecord(record, feed.reader.read(record, lookup.find(record.table))))
        except Exception as error:
            trouble = _Trouble(describe_error(error), _is_wrong(error))
            if not _is_due(record, trouble, feed):
                return read, Failure(number, trouble.reason)
            problem = _bury_record(record, trouble, feed)
            if problem is not None:
                return read, Failure(number, problem)
            delivered.buried += 1
            read.append(ReadRecord(record, ()))
    return read, None


class _Lookup:
    """Finds the period of a table; after an error it raises the same error for this table again."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._errors: dict[str, Exception] = {}

    def find(self, table: str) -> Entry:
        if table in self._errors:
            raise self._errors[table]
        try:
            entry = self._feed.find_entry(table)
        except Exception as error:
            self._errors[table] = error
            raise
        if entry is None:
            raise UnknownPeriod(f"the catalog has no period of table {table}")
        return entry


def _is_wrong(error: Exception) -> bool:
    """True if a record is wrong by itself: its item is damaged, has a key of another layout, or belongs to no period.

    The error of a service never is. OSError: an error of TLS is also a ValueError.
    """
    if isinstance(error, OSError):
        return False
    return isinstance(error, UnknownPeriod | ValueMissing | DamagedPack | ValueError | LookupError | TypeError)


def _is_due(record: StreamRecord, trouble: _Trouble, feed: Feed) -> bool:
    """True if a record that cannot be read becomes a dead letter now."""
    if feed.is_last_call(record):
        return True
    return trouble.wrong and feed.clock.now() - record.created > feed.max_age


def _bury_record(record: StreamRecord, trouble: _Trouble, feed: Feed) -> str | None:
    """Make a record a dead letter; return the reason if that fails."""
    try:
        feed.letters.bury(feed.stream, "", trouble.reason, [describe_unread(record)])
    except Exception as error:
        return f"{trouble.reason}; no dead letter could be written: {describe_error(error)}"
    return None
