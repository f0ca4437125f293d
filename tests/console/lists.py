"""``make lists``: write the console's module of statistics anew, from the one list of statistics."""

from __future__ import annotations

import json
from pathlib import Path

from tidetable.statistics import STATISTICS, TIMES

MODULE = Path(__file__).parents[2] / "console" / "js" / "statistics.js"


def render_module() -> str:
    """Render the module: the statistics that the console offers, those that add up, and those that are times."""
    offered = [name for statistic in STATISTICS for name in statistic.examples or (statistic.name,)]
    adding = [statistic.name for statistic in STATISTICS if statistic.adds_up]
    return f"""// The statistics of aggregates. `make lists` writes this file from lambdas/tidetable/statistics.py.

// The statistics to choose from.
export const STATISTICS = {json.dumps(offered)};
// The values of groups add up to that of all events, and are 0 without events.
export const ADDED = {json.dumps(adding)};
// The values are times.
export const TIMES = {json.dumps(TIMES)};
"""


if __name__ == "__main__":
    MODULE.write_text(render_module())
