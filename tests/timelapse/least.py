"""The least that a life of so many days brings about: without it a life proves less than its tests say."""

from __future__ import annotations

from tests.conftest import FULL_DAYS
from tests.timelapse import course


def least_outcomes(days: int) -> dict[str, int]:
    """The least count of each outcome of a life of some days, whatever its seed; 0 where so few days may have none."""
    least = {
        "accepted": 80 * days,
        "ladder checked": 2 * days,
        "tables checked": 50 * days,
        "lowered tables checked": 5 * days,
        "create done": 20 * days,
        # Six hours until the first hour expires, and a day without deletions.
        "deletions checked": 24 * max(0, days - 2),
        "large in texts": days // 4,
        "large in weekly": days // 4,
        "corrected in texts": 2 * days,
        "corrected in weekly": days // 4,
        "lifecycle killed": days // 4,
        "ingest failed": days // 10,
        "archive failed": days // 10,
        "rejected": days // 4,
        "refused 422": 2 * days,
    }
    # Some hours are sealed while the refresher sleeps, so a rollup answers most queries and not all.
    least |= {"sealed": 40 * days, "resealed": 4 * days, "added": days, "refresher killed": days // 5}
    least |= {f"answered by {name}": days // 4 for name in ("daily-hours", "daily-days", "fleeting-hours")}
    least |= {
        "answered by daily-kinds": max(0, min(days, 23) - 10) // 4,
        "aggregated rows of deleted events": 20 * max(0, days - 5),
    }
    storms = (days + course.STORM_DAYS - 2) // course.STORM_DAYS
    least |= {"queued": 20 * storms, "throttled": 20 * storms, "refused 503": storms}
    least |= {f"change {day}": 1 for day in course.CHANGES if day < days}
    least |= {"map done": 3 * days // 2, "unmap done": max(0, days - 6), "remap done": days // 2}
    least |= {"feed of texts checked": 2 * days, "feed of daily checked": max(0, min(days, 18) - 6)}
    least["stream done"] = 2 * (days > 6)
    least["restored"] = sum(day + 1 < days for day in course.RESTORES)
    least["restored events"] = least["restored"]
    least["imported"] = 60 * (days > course.IMPORT_DAY + 1) + 70 * (days > course.EARLY_DAY + 1)
    least["import ended"] = int(days > course.EARLY_DAY + 1)
    least["scaled"] = 5 * max(0, min(days, 14) - 5)
    # An object is replaced by a correction of a long text, or left by a write that failed.
    least["swept orphans"] = days // 8
    # The weeks of the first days are deleted with everything in them.
    least["swept expired"] = int(days > 12)
    return least


def unproven(days: int) -> list[str]:
    """The outcomes of a life of full length that a life of so many days need not have."""
    least = least_outcomes(days)
    return [what for what in least_outcomes(FULL_DAYS) if least.get(what, 0) < 1]
