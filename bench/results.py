"""The latest ratios of the benchmarks, by name."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).parent / "results.json"


def note_ratios(*, digits: int = 2, **ratios: float) -> None:
    """Print ratios with ``digits`` digits after the point, and write them to bench/results.json beside the others."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, ratio in ratios.items():
        print(f"{name} {ratio:.{digits}f}")
        results[name] = round(ratio, digits)
    FILE.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
