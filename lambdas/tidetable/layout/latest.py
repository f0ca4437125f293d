"""Which layouts have the events of a series together, so that its latest event is found."""

from __future__ import annotations

from tidetable.layout.period_layout import Layout


def finds_latest(layout: Layout) -> bool:
    """True if the latest event of a series is found without a scan."""
    return layout.partition_by == "series" or (layout.pack is not None and layout.shard_by == "series")
