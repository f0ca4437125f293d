"""What long histories cost, compared with commit 01969c8d: ``latest`` of 100 silent series over 90 days of hours in a
stream with a rollup, and over 30 days in one without and in packs by the series; and the catalog's read units of the
first and of the hundredth page of a query over ten years of hours, of a page of an aggregate over them, and of the daily
sweep. Every number is a count of the strict service. Each side runs in a process of its own (``bench.catalog_side``).

The stage has lived through 90 days of hours for ``latest``. For the pages, it has lived through the newest hundred hours,
one page for each, and the older hours of its ten years are archived.

The numbers of the former commit are computed, because its runs over so many hours take many minutes. It searched each
hour for each series, and read each entry of the catalog for each page. So each number is measured with a short history
and with one that is twice as long, and the difference is the step for each further part. Its first page is left out: it
reads as much as the hundredth, but not in equal steps.
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


# The hours of the histories of ``latest``, of those of streams that leave out tables at no cost, and of those of the pages.
LATEST, LISTED, ALL = 2_160, 720, 87_600


def measure(tree: Path, what: str, hours: int) -> Any:
    """Measure one source tree with a history of some hours."""
    arguments = [str(SIDE), str(tree), what, str(hours)]
    run = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)  # noqa: S603
    print(tree.name, what, hours, run.stdout.strip(), flush=True)
    return json.loads(run.stdout)


def compute_old(tree: Path, what: str, hours: int, parts: int) -> dict[str, float]:
    """Compute what the former commit needs for a history from the first part of it, and from the first two parts."""
    one, two = (measure(tree, what, number * hours // parts) for number in (1, 2))
    return {name: one[name] + (parts - 1) * (two[name] - one[name]) for name in one if name != "searched"}


def main() -> None:
    """Measure both trees, and write the figures to bench/results.json."""
    latest, pages = measure(ROOT, "latest", LATEST), measure(ROOT, "pages", ALL)
    alone, packs = (measure(ROOT, what, LISTED) for what in ("latest_alone", "latest_packs"))
    with check_out_old() as tree:
        old_latest, old_pages = compute_old(tree, "latest", LATEST, 90), compute_old(tree, "pages", ALL, 50)
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
        catalog_units_page_100=pages["last"],
        catalog_units_page_100_old=old_pages["last"],
        catalog_units_aggregate=pages["aggregate"],
        catalog_units_aggregate_old=old_pages["aggregate"],
        catalog_units_sweep=pages["sweep"],
        catalog_units_sweep_old=old_pages["sweep"],
    )


if __name__ == "__main__":
    main()
