"""Entries of the catalog with other facts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tidetable.catalog import CapacityFacts, CopyFacts, Entry

GROUPS = {"copies": CopyFacts, "capacity": CapacityFacts}


def change_entry(entry: Entry, **facts: Any) -> Entry:
    """Return the entry with other facts: each is named as in the entry, or as in the group that it belongs to."""
    for group, kind in GROUPS.items():
        inside = {name: facts.pop(name) for name in kind.__struct_fields__ if name in facts}
        entry = replace(entry, **{group: replace(getattr(entry, group), **inside)})
    return replace(entry, **facts)


def make_entry(*core: Any, **facts: Any) -> Entry:
    """Make an entry from its first fields, with facts that are named as in ``change_entry``."""
    grouped = {name: facts.pop(name) for kind in GROUPS.values() for name in kind.__struct_fields__ if name in facts}
    return change_entry(Entry(*core, **facts), **grouped)
