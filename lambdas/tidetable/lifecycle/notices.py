"""Notices for other systems: a run created, closed, archived or deleted a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidetable.lifecycle.report import Report
from tidetable.times import to_text

_KINDS = {"create": "created", "close": "closed", "archive": "archived", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to which other systems can react: its kind, such as ``Period Table Created``, and its detail."""

    kind: str
    detail: dict[str, Any]


def make_notices(report: Report, stage: str) -> list[Notice]:
    """Make the notices of a run, in the order of its actions."""
    return [
        Notice(
            f"Period Table {_KINDS[result.action.name].capitalize()}",
            {
                "stage": stage,
                "stream": result.action.entry.stream,
                "period": result.action.entry.period.label,
                "start": to_text(result.action.entry.period.start),
                "end": to_text(result.action.entry.period.end),
                "table": result.action.entry.table,
                "reason": result.action.reason,
            },
        )
        for result in report.done
        if result.outcome == "done" and result.action.name in _KINDS
    ]
