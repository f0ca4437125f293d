"""The rollups that a stream has from its first deploy on: they begin with its first event.

Nobody has written to a stream that the catalog does not know: it has no table. All processes that will write to it have
its rollups in their configuration, so they mark late events and note series from the first event on.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidetable.config import Stream
from tidetable.errors import Outage, StoreUnavailable
from tidetable.ports import Edge, Noting, Rollups
from tidetable.rollup_model.definition import make_definition
from tidetable.window import Window

# All periods of the stream begin after this instant, also those of a backfill.
ALWAYS = datetime.min.replace(tzinfo=UTC)


def begin_with_stream(stream: Stream, rollups: Rollups, now: datetime) -> None:
    """Record that the rollups of a new stream begin with the oldest event that it may get at ``now``.

    The call may be repeated until the stream is recorded. Raises StoreUnavailable if a run of the refresher was faster:
    then the next call replaces what it has recorded.
    """
    state = rollups.read_at_once(stream.name)
    noting, is_made = state.noting, True
    if noting is None or noting.stopped or noting.since > now:
        is_made = rollups.put_noting(stream.name, Noting(ALWAYS, now), noting)
    for policy in stream.rollup:
        definition = make_definition(stream, policy)
        start = definition.floor(Window.of(stream, now).oldest)
        edges = [edge for edge in state.edges if edge.rollup == policy.name]
        # An edge that was written before may be one of the refresher, which is in the future, or one of a former call.
        if not edges or edges[-1].start > now:
            new = Edge(policy.name, start, start, definition.text)
            is_made &= rollups.put_edge(stream.name, new, edges[-1] if edges else None)
    if not is_made:
        raise StoreUnavailable(Outage.OTHER, f"another run began the rollups of {stream.name}")
