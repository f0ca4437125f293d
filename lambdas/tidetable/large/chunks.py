"""The port of the chunks that hold large values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidetable.ports import EventStore

# AWS: BatchGetItem answers 16 MB. A chunk has up to 400 KB.
GET_CHUNKS = 40


class ChunkStore(EventStore, Protocol):
    """DynamoDB's data plane over period tables and their tables of chunks."""

    def get_chunks(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Read the bodies of existing chunks, strongly consistent; a key may be repeated. TableMissing as in ``get``."""
