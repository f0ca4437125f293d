"""The lifecycle function and CloudWatch for the operators' routes."""

import json
from collections.abc import Callable
from typing import Any

from tidetable.errors import Outage, StoreUnavailable
from tidetable.lifecycle import RunReport


class FakeOperations:
    """A dry run in this process, and alarms that a test sets; with ``fails`` neither answers."""

    def __init__(self, dry_run: Callable[[], RunReport]) -> None:
        self._dry_run = dry_run
        self.ringing: list[dict[str, Any]] = []
        self.fails = False
        self.within: list[float] = []

    def plan(self, within: float) -> dict[str, Any]:
        """The report of a dry run, as the function answers it. ``within`` are the seconds that the run may take."""
        self.within.append(within)
        self._answer()
        report: dict[str, Any] = json.loads(json.dumps(self._dry_run().document()))
        return report

    def alarms(self) -> list[dict[str, Any]]:
        """The alarms that a test set."""
        self._answer()
        return self.ringing

    def _answer(self) -> None:
        if self.fails:
            raise StoreUnavailable(Outage.OTHER, "the function did not answer", "lifecycle")
