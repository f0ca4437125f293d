"""Aggregates of whole ranges, compared with commit 01969c8d, which merged all shards in the order of time.

Each side runs in a process of its own (``bench.whole_side``), the old code from a worktree of its commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]

from bench.deployed import restart_as_deployed
from bench.results import note_ratios

OLD = "01969c8d"
SIDE, ARCHIVE_SIDE = (Path(__file__).with_name(name) for name in ("whole_side.py", "archive_side.py"))


@contextmanager
def check_out_old() -> Iterator[Path]:
    """Check the old commit out into a folder, while the block lasts."""
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        _run_git("worktree", "add", "--detach", str(tree), OLD)
        try:
            yield tree
        finally:
            _run_git("worktree", "remove", "--force", str(tree))


def _run_git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)  # noqa: S603, S607


def measure(tree: Path, shards: int, events: int, groups: int, stats: str, batch: int = 0) -> Any:
    """Measure an aggregate of one source tree."""
    arguments = map(str, (tree, shards, events, groups, stats, batch))
    run = subprocess.run([sys.executable, str(SIDE), *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, shards, events, groups, stats, batch, run.stdout.strip())
    return json.loads(run.stdout)


def measure_archives(old: Path) -> None:
    """Archive and read 100,000 events, plain and packed, with both trees in turn; the least CPU of three runs counts."""
    ratios: dict[str, Any] = {}
    for name, batch in (("archive", 0), ("packed_archive", 500)):
        runs: dict[Path, list[Any]] = {ROOT: [], old: []}
        for _ in range(3):
            for tree, figures in runs.items():
                command = [sys.executable, str(ARCHIVE_SIDE), str(tree), "8", "100000", str(batch)]
                run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                print(name, tree.name, run.stdout.strip())
                figures.append(json.loads(run.stdout))
        for figure in ("cpu", "read_cpu", "units"):
            ours, theirs = (min(run[figure] for run in figures) for figures in runs.values())
            ratios[f"{name}_{figure}_over_old"] = ours / theirs
    note_ratios(**ratios)


def main() -> None:
    """Measure both sides, and write the ratios to bench/results.json."""
    wide, narrow = (measure(ROOT, shards, 120_000, 1_000, "count,sum") for shards in (200, 1))
    packed_wide, packed_narrow = (measure(ROOT, shards, 120_000, 1_000, "count,sum", 500) for shards in (200, 1))
    peak, packed_peak = (measure(ROOT, 200, 120_000, 10_000, "count,p95", batch)["peak"] for batch in (0, 500))
    with check_out_old() as old:
        plain = [measure(tree, 10, 100_000, 1_000, "count,p95")["cpu"] for tree in (ROOT, old)]
        packed = [measure(tree, 200, 20_000, 1_000, "count,p95", 500)["cpu"] for tree in (ROOT, old)]
        measure_archives(old)
    note_ratios(
        aggregate_200_shards_further_requests=wide["requests"] - narrow["requests"],
        aggregate_200_shards_units_over_1_shard=wide["units"] / narrow["units"],
        packed_aggregate_200_shards_units_over_1_shard=packed_wide["units"] / packed_narrow["units"],
        aggregate_p95_cpu_over_old=plain[0] / plain[1],
        packed_aggregate_p95_cpu_over_old=packed[0] / packed[1],
        aggregate_10_000_groups_peak_mb=peak,
        packed_aggregate_10_000_groups_peak_mb=packed_peak,
    )


if __name__ == "__main__":
    restart_as_deployed("bench.whole")
    main()
