"""Why a query could not be answered now: which part gave no answer, and what reads less of it."""

from __future__ import annotations

from tidetable.errors import ArchiveBusy, ArchiveFailed, StoreUnavailable
from tidetable.problems import Problem

_THROTTLED = ("thrott", "throughput", "requestlimit")


def unavailable(error: Exception) -> Problem:
    """503 for an error; of the error itself it says no more than its kind."""
    return Problem(503, "unavailable", _detail(error), headers={"Retry-After": "2"})


def _detail(error: Exception) -> str:
    match error:
        case ArchiveBusy():
            return (
                "an archived period of the range did not answer in time: ask again, as its reader may just have started;"
                " if that does not help, narrow from and to"
            )
        case ArchiveFailed():
            return (
                "an archived period of the range could not be read: ask again; if that does not help, query the range"
                " before and after it, which explain=true shows, and tell the operator"
            )
        case StoreUnavailable(code="no secret"):
            return "the stage is new, and its first run has not made what signs cursors: ask again in some minutes"
        case StoreUnavailable(code="no answer"):
            return (
                "DynamoDB did not answer in time: ask again; if that does not help, narrow from and to, or lower limit"
            )
        case StoreUnavailable(code=code) if any(word in code.lower() for word in _THROTTLED):
            return (
                "DynamoDB throttled the reads of this query: ask again in some seconds; a shorter range, a lower limit or"
                " an index reads less, and a table that is often throttled needs more read units"
            )
    return "the query could not be answered now; ask again"
