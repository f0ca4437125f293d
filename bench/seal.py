"""Sealing a bucket, compared with commit 01969c8d, which read events in the order of time and added them one by one.

Each side runs in a process of its own (``bench.seal_side``), the old code from a worktree of its commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]

from bench.deployed import restart_as_deployed
from bench.results import note_ratios
from bench.whole import check_out_old

SIDE = Path(__file__).with_name("seal_side.py")


def measure(tree: Path, shards: int, events: int, batch: int = 0) -> Any:
    """Measure the sealing of a bucket with 1,000 groups in one source tree."""
    arguments = map(str, (tree, shards, events, 1_000, batch))
    run = subprocess.run([sys.executable, str(SIDE), *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, shards, events, batch, run.stdout.strip())
    return json.loads(run.stdout)


def main() -> None:
    """Measure both sides, and write the ratios to bench/results.json."""
    with check_out_old() as old:
        plain, packed, wide = (
            [measure(tree, *case)["cpu"] for tree in (ROOT, old)]
            for case in ((4, 100_000), (4, 100_000, 500), (200, 120_000))
        )
    # 100,000 events each, on this machine.
    note_ratios(
        sealing_microseconds_per_event=plain[0] * 10,
        packed_sealing_microseconds_per_event=packed[0] * 10,
        digits=1,
    )
    note_ratios(
        sealing_cpu_over_old=plain[0] / plain[1],
        packed_sealing_cpu_over_old=packed[0] / packed[1],
        sealing_200_shards_cpu_over_old=wide[0] / wide[1],
    )


if __name__ == "__main__":
    restart_as_deployed("bench.seal")
    main()
