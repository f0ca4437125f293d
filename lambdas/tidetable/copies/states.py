"""The copies of one table: what they forbid while they change, and which of them the lifecycle has made."""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.catalog import Entry
from tidetable.errors import NotReady
from tidetable.ports import Table

# AWS: while a copy is in one of these states, AWS refuses every change of its table, although the table is ACTIVE.
_CHANGING = frozenset({"CREATING", "DELETING"})


def describe_changing_copies(table: Table) -> str:
    """Describe the copies that are being made or deleted; empty if there are no such copies."""
    return ", ".join(f"{region} {status}" for region, status in sorted(table.copies.items()) if status in _CHANGING)


def refuse_changing(table: Table) -> None:
    """Raise NotReady while a copy of the table is being made or deleted."""
    if changing := describe_changing_copies(table):
        raise NotReady(f"a copy of {table.name} is changing: {changing}")


def list_own_copies(entry: Entry, table: Table) -> list[str]:
    """List the Regions with a copy of the table that the lifecycle has made, not somebody else."""
    return [region for region in entry.copies.replicas if region in table.copies]


def list_mirrors(entry: Entry) -> Sequence[str]:
    """List the Regions to which AWS mirrors the scalable targets of the table. It leaves them there."""
    return entry.copies.replicas
