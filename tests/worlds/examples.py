"""The pipelines of the examples, simulated with all of their events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import groupby
from typing import Any

from tests.fakes.stage import Stage
from tests.worlds.configs import ROOT
from tests.worlds.killed import copier_of
from tidetable.exact_json import decode_json

NOW = datetime(2026, 3, 31, 10, tzinfo=UTC)
# An event as it was sent, and in ``at`` its time as an instant.
Sent = dict[str, Any]
# By example: what makes equal stages.
_COPIERS: dict[str, Callable[[], Stage]] = {}


class Example:
    """An example's pipeline after the simulation, and all sent events."""

    def __init__(self, name: str) -> None:
        folder = ROOT / "examples" / name
        data = import_module(f"examples.{name}.data")
        self.config = folder / "tidetable.toml"
        # Encode and decode the events, as they are compared with events that came through JSON.
        sent = [decode_json(json.dumps(event)) for event in data.make_events(NOW)]
        self.sent: list[Sent] = [{**event, "at": datetime.fromisoformat(event["time"])} for event in sent]
        # A copy, which a test may change: to simulate the events again would take ten times as long.
        if name not in _COPIERS:
            _COPIERS[name] = copier_of(lambda: self._simulate(data.STREAM))
        self.stage = _COPIERS[name]()
        self.requests = re.findall(r'^    curl .* "\$URL(/[^"]*)"$', (folder / "README.md").read_text(), re.MULTILINE)

    def _simulate(self, stream: str) -> Stage:
        start = self.sent[0]["at"] - timedelta(hours=1)
        stage = Stage(start, self.config.read_text())
        for _, hour in groupby(self.sent, key=lambda event: event["at"].replace(minute=0, second=0)):
            many = list(hour)
            while stage.run_lifecycle().count("done"):
                stage.clock.sleep(60)
            stage.clock.time = max(stage.clock.now(), many[-1]["at"])
            bare = [{name: value for name, value in event.items() if name != "at"} for event in many]
            outcome = stage.send(stream, json.dumps(bare, default=float).encode())
            assert (outcome.accepted, outcome.queued) == (len(many), 0)
            _refresh(stage)
        stage.clock.time = NOW
        while stage.run_lifecycle().count("done"):
            stage.clock.sleep(1)
        stage.clock.time = NOW
        _refresh(stage)
        stage.clock.time = NOW
        return stage

    def since(self, **ago: float) -> list[Sent]:
        """The events of the last so many days or hours (``days=7``) and of the next five minutes, the newest first."""
        events = [event for event in self.sent if NOW - timedelta(**ago) <= event["at"] < NOW + timedelta(minutes=5)]
        return sorted(events, key=lambda event: (event["at"], event["series"], event["id"]), reverse=True)


def _refresh(stage: Stage) -> None:
    """Seal all buckets of rollups that have ended, if the stream has rollups."""
    while stage.config.rolled_up and (report := stage.refresh()) is not None and report.sealed:
        stage.clock.sleep(1)
