"""What long histories cost, compared with commit 01969c8d: ``latest`` of 100 silent series over 90 days of hours in a
stream with a rollup, and the catalog's read units of the first and of the hundredth page of a query over ten years of
hours. Every number is a count of the strict service. Each side runs in a process of its own (``bench.catalog_side``).

The catalog's ten years are 90 days of hours with tables, which the stage has lived through, and older hours that are
archived. The pages are of the newest thousand hours.
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

SIDE = Path(__file__).with_name("catalog_side.py")


def measure(tree: Path) -> Any:
    """Measure one source tree."""
    run = subprocess.run([sys.executable, str(SIDE), str(tree)], check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, run.stdout.strip(), flush=True)
    return json.loads(run.stdout)


def main() -> None:
    """Measure both trees, and write the figures to bench/results.json."""
    new = measure(ROOT)
    with check_out_old() as tree:
        old = measure(tree)
    note_ratios(
        digits=1,
        latest_silent_requests=new["latest"]["requests"],
        latest_silent_requests_old=old["latest"]["requests"],
        latest_silent_units=new["latest"]["units"],
        latest_silent_units_old=old["latest"]["units"],
        catalog_units_page_1=new["first"],
        catalog_units_page_1_old=old["first"],
        catalog_units_page_100=new["last"],
        catalog_units_page_100_old=old["last"],
    )


if __name__ == "__main__":
    main()
