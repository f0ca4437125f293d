"""The rules for a reader: a stage in another Region, whose tables are copies of the origin's tables.

A copy is some seconds behind the origin. Items arrive one by one, without an order across tables. This module does not
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.config import Config, Stream
from tidetable.problems import ProblemError, refuse_request


class Copies(NamedTuple):
    """The copies that a reader uses. They are in the reader's ``region``; the tables are in the Region ``origin``."""

    region: str
    origin: str

    def has(self, stream: Stream) -> bool:
        """True if a stream is configured to have copies in this Region."""
        return self.region in stream.replicas

    def show_entry(self, entry: Entry) -> Entry:
        """Return an entry in the form that a reader may use: a table without a copy in this Region cannot be read.

        Its archive, if it has one, is not read either: a restored table may hold events that are not in its archive.
        """
        if not entry.live or self.region in entry.copies.active:
            return entry
        return replace(entry, copies=replace(entry.copies, here=False), archive=None)

    def refuse_unknown(self, stream: Stream) -> None:
        """Raise ProblemError for a stream that has no copies in this Region."""
        if not self.has(stream):
            source = stream.source or stream.name
            detail = (
                f"{stream.name} has no copies in {self.region}: add {self.region} to [streams.{source}] replicas, deploy the"
                f" stage in {self.origin} and then this reader; or ask {self.origin}"
            )
            raise refuse_request(404, "stream_not_copied", detail)

    def refuse_consistent(self, consistent: bool) -> None:
        """Raise ProblemError for a query that must see every acknowledged event."""
        if consistent:
            detail = (
                f"consistent=true is answered by {self.origin} alone, where events are acknowledged: a reader is some seconds"
                " behind it; leave consistent out, and begin without a cursor that was made with it"
            )
            raise refuse_request(400, "only_at_origin", detail)

    def refuse_listing(self, what: str) -> ProblemError:
        """Return the error of a route that needs the state of rollups, which has no copies."""
        detail = (
            f"{what} are listed from rollups, whose state is in {self.origin} alone: query there. A reader answers /events,"
            " /latest, /top and /aggregate"
        )
        return refuse_request(400, "only_at_origin", detail)

    def show_streams(self, document: Mapping[str, Any], config: Config) -> dict[str, Any]:
        """Return the streams as a reader shows them: those with copies here, and the Region of the others."""
        streams = [shown for shown in document["streams"] if self.has(config.streams[shown["stream"]])]
        return {**document, "streams": streams, "reader": {"region": self.region, "origin": self.origin}}

    def refuse_missing(self, entry: Entry) -> ProblemError:
        """Return the error of an answer that would need a period without a copy in this Region."""
        label = entry.period.label
        detail = (
            f"the table of {entry.stream}'s period {label} has no copy in {self.region}, so this reader cannot know: ask"
            f" {self.origin}. A table that was made before replicas was set, or was restored, never has a copy; the table of"
            " a new period gets its copy soon"
        )
        return refuse_request(503, "no_copy", detail, periods=[label], origin=self.origin)
