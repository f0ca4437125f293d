"""The level and the form of log lines beside Lambda's own controls, and the functions without the X-Ray SDK."""

import json
import os
import subprocess
import sys
from datetime import datetime

import pytest

from tests.worlds.configs import ROOT

# A function as Lambda runs it: the SDK of X-Ray is not in the package.
PROGRAM = """
import sys
sys.modules["aws_xray_sdk"] = None
from handlers._observe import logger, metrics, observe
def handle(event, context):
    metrics.add_metric("EventsRead", "Count", 3)
    for level in ("debug", "info", "warning", "error"):
        getattr(logger, level)(level)
class Context:
    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "x"
observe(handle)({}, Context())
"""


def run(**variables: str) -> list[dict[str, object]]:
    """The lines of a function's log."""
    names = {"POWERTOOLS_SERVICE_NAME": "s", "POWERTOOLS_METRICS_NAMESPACE": "t", "TIDETABLE_STAGE": "t"}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "lambdas"), **names, **variables}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("ours", "of_lambda", "messages"),
    [
        ("DEBUG", "DEBUG", ["debug", "info", "warning", "error"]),
        ("INFO", "INFO", ["info", "warning", "error"]),
        ("WARNING", "INFO", ["warning", "error"]),
        ("ERROR", "INFO", ["error"]),
        ("ERROR", None, ["error"]),
    ],
)
def test_the_level_of_the_configuration_holds_beside_lambdas_own(
    ours: str, of_lambda: str | None, messages: list[str]
) -> None:
    """Powertools prefers AWS_LAMBDA_LOG_LEVEL, which Lambda sets for functions with JSON logs."""
    lines = run(POWERTOOLS_LOG_LEVEL=ours, **({"AWS_LAMBDA_LOG_LEVEL": of_lambda} if of_lambda else {}))
    assert [line["message"] for line in lines if "message" in line] == messages
    assert [line["EventsRead"] for line in lines if "_aws" in line] == [[3.0]]


def test_lambda_can_read_the_time_of_a_line() -> None:
    """Without a time in the form of RFC 3339, Lambda takes every line for INFO."""
    (line,) = [line for line in run(POWERTOOLS_LOG_LEVEL="ERROR") if "message" in line]
    instant = str(line["timestamp"])
    assert instant[10] == "T"
    assert datetime.fromisoformat(instant).tzinfo is not None


def test_a_line_names_its_trace() -> None:
    """Lambda's active tracing sets the variable; the line leads from the log to the trace."""
    (line,) = [
        line
        for line in run(POWERTOOLS_LOG_LEVEL="ERROR", _X_AMZN_TRACE_ID="Root=1-5e1b4151-5ac6c58;Parent=a;Sampled=1")
        if "message" in line
    ]
    assert line["xray_trace_id"] == "1-5e1b4151-5ac6c58"
