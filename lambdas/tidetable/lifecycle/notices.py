"""What others may want to know of a run: a table created, closed, archived or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidetable.lifecycle.reconcile import Report
from tidetable.times import to_text

_KINDS = {"create": "created", "close": "closed", "archive": "archived", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for others to hook on: its kind, such as ``Period Table Created``, and its detail."""

    kind: str
    detail: dict[str, Any]


def notices_of(report: Report, stage: str) -> list[Notice]:
    """The notices of what a run did, in the order in which it did it."""
    return [
        Notice(
            f"Period Table {_KINDS[one.action.name].capitalize()}",
            {
                "stage": stage,
                "stream": one.action.entry.stream,
                "period": one.action.entry.period.label,
                "start": to_text(one.action.entry.period.start),
                "end": to_text(one.action.entry.period.end),
                "table": one.action.entry.table,
                "reason": one.action.reason,
            },
        )
        for one in report.done
        if one.outcome == "done" and one.action.name in _KINDS
    ]
