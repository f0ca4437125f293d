"""The port to AWS Lambda that feeds need: the mappings of tables' change streams to a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class FeedSettings(NamedTuple):
    """The maximum number of records in a batch, the seconds that Lambda waits for a batch, and the batches of a shard that
    are under way at once.
    """

    batch: int
    window: int
    parallel: int = 1


class StreamMapping(NamedTuple):
    """An event source mapping: ``source`` is the ARN of a table's stream, ``state`` is Lambda's word."""

    id: str
    source: str
    state: str
    settings: FeedSettings

    @property
    def table(self) -> str:
        """The name of the table, from ``arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL``; empty for another source."""
        parts = self.source.split("/")
        return parts[1] if len(parts) == 4 and ":dynamodb:" in parts[0] else ""


class Mappings(Protocol):
    """The event source mappings of the feed's function. TableRefused says that a change must wait, or is refused."""

    def list(self) -> Sequence[StreamMapping]:
        """Return all mappings. A mapping that was made a moment ago may be missing."""

    def create(self, source: str, settings: FeedSettings) -> bool:
        """Map a table's stream to the function, from its oldest record on; False if it is mapped. Does not wait."""

    def update(self, mapping: StreamMapping, settings: FeedSettings) -> None:
        """Give a mapping its settings, and enable it. Does not wait."""

    def delete(self, mapping: StreamMapping) -> None:
        """Remove a mapping; nothing happens if it does not exist. Does not wait."""
