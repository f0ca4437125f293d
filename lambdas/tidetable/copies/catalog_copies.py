"""The copies of the catalog: a reader in another Region finds the periods and the secret of cursors in its copy."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tidetable.config import Config
from tidetable.copies.states import describe_changing_copies
from tidetable.copies.table_copies import LISTED
from tidetable.errors import describe_error, judge_failure, repeat_later
from tidetable.leases import RUN_SECONDS
from tidetable.period_tables import POLL_SECONDS, passes, pause
from tidetable.ports import Table
from tidetable.times import to_text
from tidetable.upkeep.run import LifecycleRun

_BEGUN = "copy-of-the-catalog"
_SHOWS = "new-and-old-images"


class CatalogCopy(NamedTuple):
    """A change for a copy of the catalog, and its outcome: planned, done, deferred or failed."""

    action: str
    region: str
    outcome: str = "planned"
    detail: str = ""


def follow_catalog(run: LifecycleRun, now: datetime, *, dry_run: bool = False) -> list[CatalogCopy]:
    """Begin the next copy of the catalog that a stream's ``replicas`` asks for, and report copies that cannot be used.

    A run makes one change. No copy is removed: other streams or a reader may use it. Nothing happens before the first
    complete deployment of the stage. An error is a failed copy.
    """
    if not run.config.replicas:
        return []
    try:
        return _follow_catalog(run, now, dry_run=dry_run)
    except Exception as error:  # not a trouble: troubles make a deploy fail, and a deploy needs no copies
        why = f"the copies of the catalog could not be checked: {describe_error(error)}"
        return [CatalogCopy("copy", run.config.replicas[0], "failed", why)]


def _follow_catalog(run: LifecycleRun, now: datetime, *, dry_run: bool) -> list[CatalogCopy]:
    table = run.tables.describe(run.catalog_table) if run.catalog.is_deployed() else None
    if table is None:
        return []
    troubles = [
        CatalogCopy("copy", region, "failed", f"it is {status}; see the runbook, *Copies in other Regions*")
        for region, status in sorted(table.copies.items())
        if region in run.config.replicas and not passes(status)
    ]
    step = _find_next_step(run.config, table, now)
    if step is None:
        return troubles
    return [*troubles, step if dry_run else _attempt_step(step, run, now)]


def _find_next_step(config: Config, table: Table, now: datetime) -> CatalogCopy | None:
    missing = [region for region in config.replicas if region not in table.copies]
    if not missing or table.status != "ACTIVE" or describe_changing_copies(table):
        return None
    # Each run takes another Region, so that a Region that refuses its copy does not delay the others.
    region = missing[int(now.timestamp()) // RUN_SECONDS % len(missing)]
    return CatalogCopy("copy" if table.stream_arn else "stream", region)


def _attempt_step(step: CatalogCopy, run: LifecycleRun, now: datetime) -> CatalogCopy:
    try:
        if step.action == "stream":
            run.tables.set_stream(run.catalog_table, _SHOWS)
        # A copy that was begun is not listed for some seconds, and must not be begun again meanwhile.
        elif run.catalog.acquire(_BEGUN, to_text(now), now, LISTED):
            run.tables.create_copy(run.catalog_table, step.region)
        else:
            return step._replace(outcome="deferred", detail="a copy was begun a moment ago, and may not be listed yet")
    except Exception as error:  # the work on the tables of events must go on
        return CatalogCopy(step.action, step.region, *judge_failure(error))
    return step._replace(outcome="done")


def remove_catalog_copies(run: LifecycleRun) -> list[str]:
    """Before a catalog is deleted, delete its copies, one after another, and wait until they do not exist any more.

    Return their Regions; NotReady if the time is not enough. The call may be repeated. DynamoDB would refuse to delete
    the catalog if a copy of it is younger than a day, and would leave an older copy as a table of its own.
    """
    removed = list[str]()
    while (table := run.tables.describe(run.catalog_table)) is not None and table.copies:
        if table.status == "ACTIVE" and not describe_changing_copies(table):
            region = min(table.copies)
            with repeat_later():
                run.tables.delete_copy(run.catalog_table, region)
                removed.append(region)
        why = f"table {run.catalog_table} still has copies in {', '.join(sorted(table.copies))}"
        pause(POLL_SECONDS, why, run.clock, run.remaining)
    return removed
