"""The latest ratios of the benchmarks, by name."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).parent / "results.json"


def note(**ratios: float) -> None:
    """Print ratios and write them to bench/results.json beside the others."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, ratio in ratios.items():
        print(f"{name} {ratio:.2f}")
        results[name] = round(ratio, 2)
    FILE.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
