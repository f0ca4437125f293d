"""What many streams and many callers read of the catalog, compared with commit 01969c8d.

Each side runs in a process of its own (``bench.many_side``), the old code from a worktree of its commit. Everything is
counted: no figure depends on the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]

from bench.results import note_ratios
from bench.whole import check_out_old

SIDE = Path(__file__).with_name("many_side.py")


def measure(tree: Path) -> Any:
    """Count the reads of one source tree."""
    command = [sys.executable, str(SIDE), str(tree)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, run.stdout.strip())
    return json.loads(run.stdout)


def main() -> None:
    """Count both sides, and write the counts of this code to bench/results.json."""
    with check_out_old() as old:
        measure(old)
        ours = measure(ROOT)
    note_ratios(
        digits=3,
        many_streams_catalog_queries_per_request=ours["queries"],
        many_keys_reads_per_request=ours["misses"],
        many_keys_peak_reads_of_a_partition=ours["peak"],
        many_streams_calls_per_idle_stream_and_run=ours["idle_calls"],
        many_streams_runs_for_300_tables=ours["runs"],
    )


if __name__ == "__main__":
    main()
