"""For operators: the lifecycle's plan, by a dry run of its function, and the stage's alarms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aws.errors import require_answer
from tidetable.errors import Outage, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class AwsOperations:
    """The lifecycle function and CloudWatch through boto3."""

    def __init__(
        self, functions: Callable[[int], LambdaClient], lifecycle: str, alarms: Callable[[], Any], prefix: str
    ) -> None:
        self._functions = functions
        self._lifecycle = lifecycle
        self._alarms = alarms
        # CloudFormation composes an alarm's name from the stack's name and the alarm's id, which begins with the ids of
        # its constructs.
        self._prefix = prefix

    def plan(self, within: float) -> dict[str, Any]:
        """Return the report of a dry run; StoreUnavailable if no report comes in ``within`` seconds."""
        with require_answer("lifecycle", "the function"):
            answer = self._functions(max(1, int(within))).invoke(
                FunctionName=self._lifecycle, Payload=json.dumps({"dry_run": True}).encode()
            )
            body = json.loads(answer["Payload"].read() or b"null")
        if "FunctionError" in answer or not isinstance(body, dict):
            message = body.get("errorMessage", "no message") if isinstance(body, dict) else "no report"
            raise StoreUnavailable(Outage.OTHER, f"the function failed: {message}", "lifecycle")
        return body

    def alarms(self) -> list[dict[str, Any]]:
        """Read the stage's alarms: name, state (OK, ALARM or INSUFFICIENT_DATA), last change, description."""
        alarms = []
        with require_answer("alarms", "CloudWatch"):
            for page in self._alarms().get_paginator("describe_alarms").paginate(AlarmNamePrefix=self._prefix):
                alarms += [
                    _describe_alarm(alarm)
                    for alarm in (*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ()))
                ]
        return sorted(alarms, key=lambda alarm: alarm["name"])


def _describe_alarm(alarm: dict[str, Any]) -> dict[str, Any]:
    changed = alarm.get("StateUpdatedTimestamp")
    return {
        "name": alarm["AlarmName"],
        "state": alarm["StateValue"],
        "since": None if changed is None else changed.isoformat(),
        "description": alarm.get("AlarmDescription", ""),
    }
