"""The ratios that the benchmarks found last, by name."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).parent / "results.json"


def note(*, digits: int = 2, **ratios: float) -> None:
    """Print ratios and keep them in bench/results.json beside the others, with so many digits after the point."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, ratio in ratios.items():
        print(f"{name} {ratio:.{digits}f}")
        results[name] = round(ratio, digits)
    FILE.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
