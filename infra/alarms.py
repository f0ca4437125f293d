"""Alarms: each describes the fault, and names the section of docs/operate/runbook.md that describes the remedy."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tidetable.config.demand import NEAR

from .lifecycle import EVERY_MINUTES
from .targets import Targets
from .watched import Measure, Watched, read_document


class _Alarm(Measure, kw_only=True):
    """An alarm of ``alarms.toml``, whose first comment says what the keys mean."""

    fault: str
    threshold: float | str = 1
    periods: int = 1
    below: bool = False
    missing_is_bad: bool = False
    needs: str = ""


class Alarms(Construct):
    """The alarms of ``alarms.toml`` that watch what a stage or a reader has.

    Every alarm notifies the targets of the configuration when it begins and when it ends.
    """

    def __init__(self, scope: Construct, id: str, *, watched: Watched, targets: Targets) -> None:
        super().__init__(scope, id)
        config, parts = watched.common.config, watched.parts
        quota = config.lifecycle.table_quota
        facts = {"near": int(NEAR * quota), "quota": quota, "every": EVERY_MINUTES}
        columns = any(stream.archive.columns for stream in config.streams.values())
        have = {"": True, "columns": columns, "rollups": config.is_refreshed}
        # The alarms by their sections of docs/operate/runbook.md, such as ``DeadLetters``.
        self.by_name: dict[str, cloudwatch.Alarm] = {}
        for name, alarm in read_document("alarms.toml", dict[str, _Alarm]).items():
            if watched.has(alarm) and have[alarm.needs]:
                self.by_name[name] = self._make_alarm(name, alarm, watched.make_metric(alarm), facts)
                targets.watch_alarm(self.by_name[name])
        # Before the first run these metrics have no data, and these alarms take missing data for a fault. So each is
        # created after the schedule of the runs, and deleted before it.
        if parts is not None:
            self.by_name["LifecycleNotRunning"].node.add_dependency(parts.lifecycle.schedule)
        if parts is not None and parts.rollups is not None:
            self.by_name["RollupLagging"].node.add_dependency(parts.rollups.schedule)

    def _make_alarm(
        self, name: str, alarm: _Alarm, metric: cloudwatch.Metric, facts: dict[str, Any]
    ) -> cloudwatch.Alarm:
        operator, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        return cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=facts[alarm.threshold] if isinstance(alarm.threshold, str) else alarm.threshold,
            evaluation_periods=alarm.periods,
            comparison_operator=operator.LESS_THAN_THRESHOLD
            if alarm.below
            else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if alarm.missing_is_bad else missing.NOT_BREACHING,
            alarm_description=f"{alarm.fault.format(**facts)} What to do: docs/operate/runbook.md#{name.lower()}",
        )
