"""How fast the drain empties the overflow queue, and how long a stuck stream delays ten others, compared with commit
01969c8d.

Each side runs in a process of its own (``bench.drain_side``), in virtual time, on the strict service with tables that were
prepared for 40,000 write units per second. The settings are the defaults of each side: consumers, memory and batches.
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

SIDE = Path(__file__).with_name("drain_side.py")
# Consumers, MB of memory, messages that Lambda passes at once, connections. The old code writes a tenth of the events.
NEW, OLD = (5, 1_024, 100, 32), (2, 256, 5, 8)


def measure(tree: Path, case: str, settings: tuple[int, ...]) -> Any:
    """Measure a case in one source tree."""
    arguments = map(str, (tree, case, *settings))
    run = subprocess.run([sys.executable, str(SIDE), *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    found = json.loads(run.stdout.splitlines()[-1])
    print(tree.name, case, settings, found, f"{found['events'] / found['seconds']:,.0f} events per second")
    return found


def main() -> None:
    """Measure both sides, and write the figures to bench/results.json."""
    figures: dict[str, Any] = {}
    with check_out_old() as old:
        for side, tree, settings in (("", ROOT, (*NEW, 1)), ("old_", old, (*OLD, 10))):
            for case in ("derived", "clients", "packed"):
                found = measure(tree, case, settings)
                figures[f"{side}drain_events_per_second_{case}"] = found["events"] / found["seconds"]
            alone, beside = (measure(tree, case, settings)["seconds"] for case in ("others", "stuck"))
            figures[f"{side}drain_delay_beside_a_stuck_stream_over_alone"] = beside / alone
    note_ratios(**figures)


if __name__ == "__main__":
    main()
