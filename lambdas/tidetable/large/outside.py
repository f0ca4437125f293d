"""Write the data that items keep outside of themselves.

Chunks and objects are written before the item that refers to them, so that nobody sees an item without its data.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.event_writing import Writer
from tidetable.ports import Blob, Put, Written


def write_outside(writer: Writer, puts: Sequence[Put]) -> tuple[list[Put], Written]:
    """Write the chunks and objects that puts refer to.

    Return the puts whose data is durable, and the outcome of the writes. The outcome's ``unwritten`` are the other puts.
    """
    chunks = {part.place: part for put in puts for part in put.outside if isinstance(part, Put)}
    written = writer.retry_writes(writer.store.write, list(chunks.values()))
    missing = {chunk.place for chunk in written.unwritten}
    # An item whose chunk is refused can never be written, either.
    refused, written.refused = written.refused, {}
    ready: list[Put] = []
    written.unwritten = []
    for put in puts:
        places = [part.place for part in put.outside if isinstance(part, Put)]
        if reasons := [refused[place] for place in places if place in refused]:
            written.refused[put.slot] = reasons[0]
        safe = missing.isdisjoint(places) and all(
            writer.remaining() > 0 and writer.values.put(part) for part in put.outside if isinstance(part, Blob)
        )
        (ready if safe else written.unwritten).append(put)
    return ready, written
