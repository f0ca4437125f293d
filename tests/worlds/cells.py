"""Events that are added to a bucket one by one, as they would be read one by one."""

from typing import Any

from tidetable.forms.field_columns import DATA, FieldColumns
from tidetable.layout import unescape
from tidetable.rollup_model.cells import Bucket


def add_event(bucket: Bucket, series: str, place: str, data: Any) -> None:
    """Add an event. ``place`` is its place in the order of all events: time, series and id; or only a time."""
    time, _, rest = place.partition("#")
    id = rest.rpartition("#")[2]
    bucket.add(FieldColumns([time], [series], {DATA: [data]}, lambda: [unescape(id)]))
    bucket.fold()
