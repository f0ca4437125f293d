"""A stage with rollups on the strict service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.fakes.refresher import refresh_rollups
from tests.fakes.rollups import FakeRollups
from tests.fakes.stage import Stage
from tidetable.ingest.marks import Marks
from tidetable.rollup_model.bounds import choose_lease_length
from wiring_upkeep import Upkeep


class Rolled(Stage):
    """A stage that keeps the state of rollups in memory."""

    def __init__(self, *args: Any) -> None:
        self.state = FakeRollups()
        super().__init__(*args)

    def restart(self) -> None:
        super().restart()
        self.marks = Marks(self.state)

    @property
    def pipeline(self) -> Upkeep:
        pipeline = super().pipeline
        pipeline.rollups = self.state
        return pipeline

    def refresh(self) -> None:
        pipeline, remaining = self.pipeline, lambda: 100.0
        report = refresh_rollups(
            pipeline.definitions, pipeline.refresher(remaining), "run", choose_lease_length(timedelta(seconds=300))
        )
        assert report is not None
        assert not report.failed
