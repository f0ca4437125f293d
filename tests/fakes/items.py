"""Events read back from items."""

from tidetable.events import Event, Item
from tidetable.layout import Layout
from tidetable.times import from_text


def read_event(layout: Layout, item: Item) -> Event:
    """Read the event of an item of ``Layout.make_item``, in any version. Data that is kept elsewhere reads as empty."""
    time, series, id = layout.read_names(item)
    return Event(series=series, time=from_text(time), id=id, data=item.get("data", {}))
