"""Write a part, and read it back: only a part that holds exactly its items counts."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from tidetable.archive.manifest import Part
from tidetable.archive.ports import Format, Objects, PartWriter
from tidetable.errors import ArchiveMismatch
from tidetable.layout import Layout


def write_verified_part(
    key: str,
    writer: PartWriter,
    objects: Objects,
    format: Format,
    layout: Layout,
    packs: int,
    *,
    require_time: Callable[[], None] = lambda: None,
) -> Part:
    """Write a part, fetch it anew, and compare bytes, counts by partition and content with the items that were added.

    ``packs`` is the number of packs that held them. ``require_time`` raises an error if the part must not be written any
    more. ArchiveMismatch if anything differs.
    """
    body, facts = writer.finish(), writer.facts
    require_time()
    objects.put(key, body)
    stored = objects.get(key)
    if stored != body:
        raise ArchiveMismatch(f"{key} differs from the bytes that were written")
    read = format.facts(stored, layout)
    if read.identity != facts.identity:
        raise ArchiveMismatch(
            f"{read.items} events read back, {facts.items} scanned, and their digests differ"
            if read.items == facts.items
            else f"{read.items} events read back but {facts.items} scanned"
        )
    return Part(
        key=key,
        events=facts.items,
        size=len(body),
        sha256=sha256(body).hexdigest(),
        digest=facts.hex,
        partitions=len(facts.partitions),
        first=facts.first,
        last=facts.last,
        packs=packs,
        untyped=writer.untyped,
        bounds=writer.find_bounds(),
    )
