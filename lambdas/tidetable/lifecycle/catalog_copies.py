"""The copies of the catalog itself.

A reader in another Region finds the periods and the secret of cursors in its copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from tidetable.config import Config
from tidetable.errors import TableRefused, judge_failure
from tidetable.lifecycle.apply import World
from tidetable.lifecycle.copies import LISTED
from tidetable.lifecycle.observe import RUN_SECONDS
from tidetable.period_tables import POLL_SECONDS, describe_changing_copies, pause
from tidetable.ports import Catalog, Table, Tables
from tidetable.times import to_text

_BEGUN = "copy-of-the-catalog"
_USABLE = frozenset({"CREATING", "UPDATING", "DELETING", "ACTIVE"})
_SHOWS = "new-and-old-images"


class CatalogCopy(NamedTuple):
    """A change for a copy of the catalog, and its outcome: planned, done, deferred or failed."""

    action: str
    region: str
    outcome: str = "planned"
    detail: str = ""

    def document(self) -> dict[str, str]:
        """Return the change as a line of a report."""
        return self._asdict()


def follow_catalog(
    config: Config, catalog_table: str, catalog: Catalog, tables: Tables, now: datetime, *, dry_run: bool = False
) -> list[CatalogCopy]:
    """Begin the next copy of the catalog that a stream's ``replicas`` asks for, and report copies that cannot be used.

    A run makes one change. No copy is removed: other streams or a reader may use it. Nothing happens before the first
    complete deployment of the stage.
    """
    if not config.replicas or not catalog.stands():
        return []
    table = tables.describe(catalog_table)
    if table is None:
        return []
    troubles = [
        CatalogCopy("copy", region, "failed", f"it is {status}; see the runbook, *Copies in other Regions*")
        for region, status in sorted(table.copies.items())
        if region in config.replicas and status not in _USABLE
    ]
    step = _find_next_step(config, table, now)
    if step is None:
        return troubles
    return [*troubles, step if dry_run else _attempt(step, catalog_table, catalog, tables, now)]


def _find_next_step(config: Config, table: Table, now: datetime) -> CatalogCopy | None:
    missing = [region for region in config.replicas if region not in table.copies]
    if not missing or table.status != "ACTIVE" or describe_changing_copies(table):
        return None
    # Each run takes another Region, so that a Region that refuses its copy does not delay the others.
    region = missing[int(now.timestamp()) // RUN_SECONDS % len(missing)]
    return CatalogCopy("copy" if table.stream_arn else "stream", region)


def _attempt(step: CatalogCopy, catalog_table: str, catalog: Catalog, tables: Tables, now: datetime) -> CatalogCopy:
    try:
        if step.action == "stream":
            tables.set_stream(catalog_table, _SHOWS)
        # A copy that was begun is not listed for some seconds, and must not be begun again meanwhile.
        elif catalog.acquire(_BEGUN, to_text(now), now, LISTED):
            tables.create_copy(catalog_table, step.region)
        else:
            return step._replace(outcome="deferred", detail="a copy was begun a moment ago, and may not be listed yet")
    except Exception as error:  # the work on the tables of events must go on
        outcome, detail = judge_failure(error)
        return step._replace(outcome=outcome, detail=detail)
    return step._replace(outcome="done")


def remove_catalog_copies(world: World, catalog_table: str) -> list[str]:
    """Before a catalog is deleted, delete its copies, one after another, and wait until they do not exist any more.

    Return their Regions; NotReady if the time is not enough. The call may be repeated. DynamoDB would refuse to delete
    the catalog if a copy of it is younger than a day, and would leave an older copy as a table of its own.
    """
    removed = list[str]()
    for table in _wait_until_alone(world, catalog_table):
        if table.status != "ACTIVE" or describe_changing_copies(table):
            continue
        region = min(table.copies)
        try:
            world.tables.delete_copy(catalog_table, region)
        except TableRefused as error:
            if not error.transient:
                raise
        else:
            removed.append(region)
    return removed


def _wait_until_alone(world: World, catalog_table: str) -> Iterator[Table]:
    """Yield the catalog's table again and again, until it has no copies; NotReady if the time is not enough."""
    while True:
        table = world.tables.describe(catalog_table)
        if table is None or not table.copies:
            return
        yield table
        why = f"table {catalog_table} still has copies in {', '.join(sorted(table.copies))}"
        pause(POLL_SECONDS, why, world.clock, world.remaining)
