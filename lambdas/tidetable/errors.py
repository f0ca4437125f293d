"""The errors of the core. Each error is named after what happened, and carries the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidetable.events import Event

# Who tries again, and who reports.
#
# error                  raised by               tried again by                          reported as
# ProblemError           request checks          the caller, after a change              its own status, RFC 9457
# InvalidTime,           parsers                 nobody                                  400, or a rejection of the event; by
#   InvalidName,                                                                         an invoked function, BadInvocation
#   InvalidRef,
#   InvalidCursor,
#   UnknownZone
# ConfigError            config.load, a policy   nobody                                  the synth, `tidetable check`; a trouble
#                        that was recorded                                               of the run
# StoreUnavailable       dynamodb/reads.py, S3,  dynamodb/reads.py, a few times (reads   503 with Retry-After; the message comes
#                        CloudWatch, Lambda      and changes of the catalog); the drain, again; a failure of the refresher or
#                                                with the next delivery; the next run of of the lifecycle
#                                                the refresher or the lifecycle
# TableMissing           any store               queries once, with the catalog anew;    a gap of the answer; 202; the message
#                                                the drain, with the next delivery       comes again; a feed: "deferred"
# TableThrottled         archive source          archive/segment.py and restore.py,      the archive goes on in the next run
#                                                paced
#                        marks, notes and cells  the drain, for events that were         202; the message comes again; a failure
#                        of rollups              queued; the next run of the refresher   of the refresher
# CollectionFull         dynamodb/store.py       nobody                                  queued, then buried with its reason
# PutRefused             dynamodb/store.py       nobody                                  a rejection of the event; buried with its
#                                                                                        reason; BucketOver for a rollup's cell
# StaleEntry             catalog                 the next run of the lifecycle           outcome "deferred"
# NotReady               tables that change      the next run of the lifecycle           outcome "deferred"
# TableRefused           dynamodb/tables.py and  period_tables.py for the recovery of    outcome "deferred" or "failed"
#                        mappings.py             a new table; the lifecycle's next run
# CopyRefused            dynamodb/tables.py      the next run of the lifecycle           outcome "failed"
# NotOurs, TableUnusable period_tables.py        nobody: the operator must look          outcome "failed", the alarm for failures
# ArchiveBusy            archive functions       the next run; a query's caller          "deferred"; 503 with Retry-After
# ArchiveMismatch,       archive functions       the next run of the lifecycle           outcome "failed"; 503 for a query
#   ArchiveFailed
# LakeConflict           aws/iceberg             lake/reconcile.py, three times          LakeFailed; the next hour's run
# LakeRefused            aws/iceberg             nobody: the operator must look          LakeFailed
# ValueMissing           large/unpack.py         nobody                                  a mark on the event; ArchiveFailed
# DamagedPack            packs/body.py           nobody                                  a gap of the answer; ArchiveFailed
# ChangesRefused,        aws/feed_targets.py     feed/sending.py, then Lambda            FeedFailures, then a dead letter
#   TargetBusy
# UnknownPeriod          feed/intake.py          Lambda, for ``max_age``                 the same
# NotDrained             ingest/delivery.py      the queue, 120 times; saved.py, 2 days  MessagesNotDrained, then the dead letters
# Paced                  ingest/delivery.py      saved.py, minute by minute              EventsSaved
# Undrainable            ingest/delivery.py      nobody                                  buried at once with its reason
# BucketBlocked,         rollups/                the next run of the refresher           the refresher's report; the bucket is
#   Unfinished, Divided,                                                                 read from its events
#   ShareUsed, Superseded,
#   RecordUnread
# BucketOver             rollups/                nobody                                  the same
# TooManyEvents          rollups/                rollups/seal.py, in parts                nobody
# BadInvocation          handlers                nobody                                  the function's own error
# BadBackfill            lifecycle/backfill.py   the operator, after a change            the function's own error
# RemovalFailed          lifecycle/removal.py    the next deletion of the stack          a failed stack, with its reason
# DeployFailed           handlers/deployment.py  the next deployment                     a failed deployment, with its reason
# RefreshFailed,         handlers                the next run                            the function's own error
#   SweepIncomplete
#
# Requests of boto3's clients that fail are repeated by botocore: aws/clients.py has the number of attempts per client.
# http/client.py repeats a request once if the other end had closed the idle connection, or refused the request's time.
# Requests to the targets of feeds do not raise: feed/sending.py tries each change three times, then the batch comes again.
# Writes of events do not raise: event_writing.py repeats the items that a store did not take until the time is up.
# problems.py makes an answer of each error that a caller of the API can meet. Any other exception is a fault of this
# project: 503 with Retry-After and a log line with its trace, or the function's own error.


class TidetableError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(TidetableError):
    """The configuration cannot be used; ``problems`` has one line per key, each with its fix."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        count = len(self.problems)
        super().__init__(f"{count} {'problem' if count == 1 else 'problems'} in the configuration:\n{lines}")


class InvalidTime(TidetableError, ValueError):
    """A text or number is not an instant that the pipeline accepts."""


class UnknownZone(TidetableError, ValueError):
    """A text is not the name of a time zone."""


class InvalidName(TidetableError, ValueError):
    """A text is not the name of a stage, a stream, a period or a period table."""


class InvalidRef(TidetableError, ValueError):
    """A ref was not made by this pipeline for this stream."""


class InvalidCursor(TidetableError, ValueError):
    """A cursor cannot be read, or belongs to another query."""


class CollectionFull(TidetableError):
    """An item collection is full: AWS allows 10 GB in a table with local indexes. A retry never succeeds."""

    def __init__(self, table: str) -> None:
        super().__init__(f"an item collection of table {table} holds 10 GB and takes nothing more")


class PutRefused(TidetableError):
    """DynamoDB refuses a put because of what is in it. A retry never succeeds."""


class TableMissing(TidetableError):
    """DynamoDB knows no table of this name: not created yet, or deleted."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} does not exist")


class Outage(StrEnum):
    """The causes of a refused or unanswered request. An answer to a query distinguishes them."""

    NO_ANSWER = "no answer"
    NO_SECRET = "no secret"  # noqa: S105 - the text of a message
    THROTTLED = "throttled"
    NEWER = "newer format"
    OTHER = "other"


class StoreUnavailable(TidetableError):
    """AWS refused a request or gave no answer; the same request may succeed later. ``code`` is for logs only."""

    def __init__(self, cause: Outage, detail: str, code: str = "") -> None:
        self.cause = cause
        self.code = code or cause.value
        super().__init__(f"{self.code}: {detail}")


class TableThrottled(TidetableError):
    """DynamoDB throttled a read of this table; a moment later the same read may succeed."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} is throttled")


class TableRefused(TidetableError):
    """DynamoDB refused a change of a table. If it is ``transient``, the same change may succeed later.

    If it is ``crowded``, the only reason was too many other changes at the same time, or in one second.
    """

    def __init__(self, message: str, *, transient: bool, crowded: bool = False) -> None:
        self.transient = transient
        self.crowded = crowded
        super().__init__(message)


class NotReady(TidetableError):
    """A table is still changing, and the time to wait for it is up: a later run goes on."""


class NotOurs(TidetableError):
    """A table has our name but not our tags; it is never touched."""


class CopyRefused(TidetableError):
    """A Region cannot have a copy of a table, because it has another table of the same name."""

    def __init__(self, table: str, region: str) -> None:
        super().__init__(
            f"{region} has a table {table} already, which is not a copy of this one; see the runbook, *Copies in other Regions*"
        )


class TableUnusable(TidetableError):
    """A table is in a state that does not end without an operator."""

    def __init__(self, table: str, status: str) -> None:
        super().__init__(f"table {table} is {status}; see the runbook, *Tables that cannot be used*")


class StaleEntry(TidetableError):
    """A catalog entry is no longer in the state that a change expected: another run was faster."""

    def __init__(self, stream: str, label: str, expected: Sequence[str]) -> None:
        super().__init__(f"period {label} of {stream} is in none of the states {', '.join(expected)} any more")


class ArchiveMismatch(TidetableError):
    """An archive differs from its table when it is read back; nothing may be deleted."""


class ArchiveBusy(TidetableError):
    """The archive of a period is being written by another run, or takes longer than the caller can wait."""


class ArchiveFailed(TidetableError):
    """The archive of a period could not be written or read; the table is untouched."""


class ValueMissing(TidetableError):
    """The data that an item refers to is missing or damaged."""


class ChangesRefused(TidetableError):
    """A target of a feed refused the messages with these ``numbers`` for themselves: it may accept other messages."""

    def __init__(self, reason: str, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        super().__init__(reason)


class TargetBusy(TidetableError):
    """A target of a feed could not take the messages with these ``numbers`` now; the same messages may pass later."""

    def __init__(self, reason: str, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        super().__init__(reason)


class NotDrained(TidetableError):
    """Some events of a message are not written yet.

    The queue delivers the message again; in the end it becomes a dead letter. ``rest`` are the unwritten events, if known.
    """

    def __init__(self, message: str, rest: Sequence[Event] = ()) -> None:
        self.rest = rest
        super().__init__(message)


class Paced(NotDrained):
    """A table takes no more of a message in the time of a delivery. What it took stays written."""


class Undrainable(NotDrained):
    """Some events of a message can never be written, unless an operator acts first.

    ``events`` are these events if all other events of the message are written; otherwise it is empty.
    """

    def __init__(self, message: str, events: Sequence[Event] = ()) -> None:
        self.events = events
        super().__init__(message, events)


class BadInvocation(TidetableError):
    """A function was invoked with a payload that it does not understand; nothing was done."""


class BadBackfill(TidetableError):
    """The requested backfill cannot be opened or ended; nothing was done."""


class RemovalFailed(TidetableError):
    """Some tables that had to be deleted still exist; the next deletion of the stack continues."""


def describe_error(error: Exception) -> str:
    """Describe an unexpected error for a report, by its type and its message."""
    return f"{type(error).__name__}: {error}"


@contextmanager
def note_trouble(what: str, troubles: list[str]) -> Iterator[None]:
    """Add an error of the block to the troubles, after the text ``what``, so that it does not stop the other work."""
    try:
        yield
    except Exception as error:
        troubles.append(f"{what}: {describe_error(error)}")


@contextmanager
def repeat_later() -> Iterator[None]:
    """Pass over a transient refusal in the block: the caller looks at the table again, and repeats the request."""
    try:
        yield
    except TableRefused as refused:
        if not refused.transient:
            raise


def judge_failure(error: Exception) -> tuple[str, str]:
    """Return the outcome of a change that raised an error, and the reason.

    "deferred": a later run will make the change; otherwise "failed".
    """
    waits = (
        error.transient if isinstance(error, TableRefused) else isinstance(error, NotReady | StaleEntry | ArchiveBusy)
    )
    return "deferred" if waits else "failed", str(error) if isinstance(error, TidetableError) else describe_error(error)
