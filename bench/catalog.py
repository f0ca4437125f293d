"""What long histories cost, compared with commit 01969c8d: ``latest`` of 100 silent series over 90 days of hours in a
stream with a rollup, and over 30 days in one without and in packs by the series; and the catalog's read units of the
first and of the hundredth page of a query over ten years of hours, of a page of an aggregate over them, and of the daily
sweep. Every number is a count of the strict service. Each side runs in a process of its own (``bench.catalog_side``).

The stage has lived through 90 days of hours for ``latest``. For the pages, it has lived through the newest hundred hours,
one page for each, and the older hours of its ten years are archived.
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


def measure(tree: Path, what: str) -> Any:
    """Measure one source tree."""
    run = subprocess.run([sys.executable, str(SIDE), str(tree), what], check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, what, run.stdout.strip(), flush=True)
    return json.loads(run.stdout)


def main() -> None:
    """Measure both trees, and write the figures to bench/results.json."""
    latest, pages = measure(ROOT, "latest"), measure(ROOT, "pages")
    alone, packs = measure(ROOT, "latest_alone"), measure(ROOT, "latest_packs")
    with check_out_old() as tree:
        old_latest, old_pages = measure(tree, "latest"), measure(tree, "pages")
    note_ratios(
        digits=1,
        latest_silent_requests=latest["requests"],
        latest_silent_requests_old=old_latest["requests"],
        latest_silent_units=latest["units"],
        latest_silent_units_old=old_latest["units"],
        latest_alone_requests=alone["requests"],
        latest_alone_units=alone["units"],
        latest_packs_requests=packs["requests"],
        latest_packs_units=packs["units"],
        catalog_units_page_1=pages["first"],
        catalog_units_page_1_old=old_pages["first"],
        catalog_units_page_100=pages["last"],
        catalog_units_page_100_old=old_pages["last"],
        catalog_units_aggregate=pages["aggregate"],
        catalog_units_aggregate_old=old_pages["aggregate"],
        catalog_units_sweep=pages["sweep"],
        catalog_units_sweep_old=old_pages["sweep"],
    )


if __name__ == "__main__":
    main()
