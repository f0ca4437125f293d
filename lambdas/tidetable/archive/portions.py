"""The puts of an archive's items for a table."""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.forms.form import Form
from tidetable.large.shrink import Shrinker
from tidetable.ports import Put


def make_puts(items: Sequence[Item], entry: Entry, form: Form, shrinker: Shrinker) -> list[Put]:
    """Make the puts of an archive's items in the form of the period's table.

    An item whose data was compressed or outside of it stays alone. The same items always give the same puts.
    """
    bare = [
        {name: value for name, value in item.items() if name != "packed"} for item in items if not item.get("packed")
    ]
    puts = form.make_puts(bare, entry.table, shrinker.compressor)
    alone = [bare[number] for number in puts.alone] + [item for item in items if item.get("packed")]
    return [shared.put for shared in puts.shared] + [shrinker.shrink_archived_item(item, entry) for item in alone]
