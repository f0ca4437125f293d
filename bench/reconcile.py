"""AWS calls of a lifecycle run over a thousand tables, when nothing changes and at the change of an hour.

The baseline describes every table in every run, as a simple reconciler does. Both sides run the real use case and
adapters on the strict DynamoDB in memory, with a manual clock.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from tests.fakes.stage import Stage

TABLES = 1000
CONFIG = f"""
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.hourly]
period = "hour"
late = "1h"
retention = {TABLES}
[streams.hourly.key]
partition_by = "series"
[streams.hourly.capacity]
mode = "provisioned"
ladder = [
    {{ age = 0, write = 10, read = 10 }},
    {{ age = 1, write = 1, read = 1, class = "infrequent-access" }},
]
"""


def grow_stage() -> Stage:
    """A stage that has lived for a thousand hours."""
    stage = Stage(datetime(2026, 1, 1, 0, 1, tzinfo=UTC), CONFIG)
    for _ in range(TABLES):
        stage.run_lifecycle()
        stage.clock.sleep(3600)
    for _ in range(15):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    return stage


def count_calls(stage: Stage) -> tuple[int, int, float]:
    """Move the clock by five minutes and run the lifecycle: its calls, its actions, and its seconds of CPU."""
    stage.clock.sleep(300)
    stage.client.calls = 0
    begun = time.process_time()
    report = stage.run_lifecycle()
    return stage.client.calls, report.count("done"), time.process_time() - begun


def run_hour(stage: Stage) -> list[tuple[int, int, float]]:
    """Count the calls of the twelve runs of an hour."""
    return [count_calls(stage) for _ in range(12)]


def main() -> None:
    """Print the calls of both sides, and their ratio over an hour."""
    stage = grow_stage()
    ours = run_hour(stage)
    with mock.patch("tidetable.lifecycle.observe._needs_look", return_value=True):
        base = run_hour(stage)
    print(f"a lifecycle run over {len(stage.dynamo.account.tables) - 1} tables")
    print("| | calls, nothing to do | calls, most in a run | calls per hour | CPU seconds per run |")
    print("|---|---|---|---|---|")
    for name, runs in (("describes every table", base), ("ours", ours)):
        idle = max(run[0] for run in runs if not run[1])
        cpu = sum(run[2] for run in runs) / len(runs)
        print(f"| {name} | {idle} | {max(run[0] for run in runs)} | {sum(run[0] for run in runs)} | {cpu:.2f} |")
    print(f"reconcile_calls_every_table_over_ours {sum(run[0] for run in base) / sum(run[0] for run in ours):.1f}")


if __name__ == "__main__":
    main()
