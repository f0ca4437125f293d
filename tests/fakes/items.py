"""Events read back from items."""

from tidetable.events import Event, Item
from tidetable.keys import Layout
from tidetable.times import from_text


def read_event(layout: Layout, item: Item) -> Event:
    """The event of an item that ``Layout.item_of`` returned, in any version; without data if it is kept elsewhere."""
    time, series, id = layout.names_of(item)
    return Event(series=series, time=from_text(time), id=id, data=item.get("data", {}))
