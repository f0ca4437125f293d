"""The report of a run of the lifecycle: its observations and its actions, and the notices of them for other systems."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidetable.copies.catalog_copies import CatalogCopy
from tidetable.feed.mappings import FeedStep
from tidetable.lifecycle.outlook import Outlook
from tidetable.times import to_text
from tidetable.upkeep.actions import Action, Delete

# The actions of which other systems get notices.
_KINDS = {"create": "created", "close": "closed", "archive": "archived", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class Done:
    """An action and its outcome: planned, done, deferred, failed or lost."""

    action: Action
    outcome: str
    detail: str = ""

    def document(self) -> dict[str, str]:
        """Return the action as a line of a report."""
        action, entry = self.action, self.action.entry
        return {
            "action": action.name,
            "stream": entry.stream,
            "period": entry.period.label,
            "table": entry.table,
            "reason": action.reason,
            "outcome": self.outcome,
            "detail": self.detail,
        }


@dataclass(slots=True)
class RunReport:
    """The observations and actions of a run.

    ``skipped`` is the reason why it did nothing; ``troubles`` says what it could not observe. ``tables`` counts the
    tables that exist after the run. ``only`` is the stream's name if the run was for one stream.
    """

    now: datetime
    dry_run: bool
    tables: int = 0
    done: list[Done] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    outlook: Outlook = field(default_factory=Outlook)
    skipped: str | None = None
    only: str | None = None
    feeds: list[FeedStep] = field(default_factory=list)
    catalog_copies: list[CatalogCopy] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """Count the actions with an outcome."""
        return sum(done.outcome == outcome for done in self.done)

    @property
    def deleted_with_marks(self) -> int:
        """The number of deleted tables whose late events may be missing in rollups."""
        return sum(
            isinstance(done.action, Delete) and done.action.marked and done.outcome == "done" for done in self.done
        )

    @property
    def healthy(self) -> bool | None:
        """True if the run did everything that it planned; None if it was skipped, because then nothing is known."""
        if self.skipped is not None:
            return None
        steps: list[Done | FeedStep | CatalogCopy] = [*self.done, *self.feeds, *self.catalog_copies]
        return not self.troubles and not any(step.outcome in ("failed", "lost") for step in steps)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "now": to_text(self.now),
            "dry_run": self.dry_run,
            "healthy": self.healthy,
            "skipped": self.skipped,
            "tables": self.tables,
            "troubles": self.troubles,
            "without_next_table": list(self.outlook.without_next_table),
            "archives_overdue": list(self.outlook.overdue),
            "changes": list(self.outlook.changes),
            "backfills": [{"stream": backfill.stream, **backfill.document()} for backfill in self.outlook.backfills],
            "removed_streams": [stream.document() for stream in self.outlook.removed],
            "actions": [done.document() for done in self.done],
            "feeds": [step._asdict() for step in self.feeds],
            "catalog_copies": [step._asdict() for step in self.catalog_copies],
        }


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to which other systems can react: its kind, such as ``Period Table Created``, and its detail."""

    kind: str
    detail: dict[str, Any]


def make_notices(report: RunReport, stage: str) -> list[Notice]:
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
