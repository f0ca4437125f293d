"""Find the events that the API would refuse, by the API's own rules, without sending an event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidetable.catalog import Backfill, Opening
from tidetable.config import Config, parse
from tidetable.exact_json import decode_json
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.rejection import Rejection
from tidetable.problems import describe_unknown_stream
from tidetable.times import LATEST, from_text
from tidetable.window import Window
from tidetable_client import Client, EventInvalid
from tidetable_client.stamps import Stamper

# A stream whose configuration is not known: it never refuses an event because of indexes or sizes.
_UNKNOWN = """
[streams.{name}]
period = "day"
late = "{late}"
retention = 100
large = {{ beyond = "s3" }}
key = {{ partition_by = "series" }}
"""


class Rehearsal:
    """Judges events as a stage would at this moment.

    The window and the open backfills come from the API. Indexes and limits of size come from ``config`` if it has the
    stream.
    """

    def __init__(self, client: Client, stream: str, config: Config | None, now: datetime) -> None:
        policies = {policy["stream"]: policy for policy in client.streams()}
        if stream not in policies:
            raise ValueError(describe_unknown_stream(stream, policies))
        policy = policies[stream]
        self._stamper, self._now = Stamper(), now
        (page, *_) = client.periods(stream, limit=1).pages()
        backfills = [
            Backfill(stream, from_text(open_range["from"]), from_text(open_range["to"]), Opening(LATEST, None, None))
            for open_range in page.document.get("backfills", [])
        ]
        configured = config.streams.get(stream) if config is not None else None
        self.is_complete = configured is not None
        simulated = configured or parse(_UNKNOWN.format(name=stream, late=policy["late"])).streams[stream]
        window = Window(from_text(policy["window"]["oldest"]), from_text(policy["window"]["newest"]))
        self._context = RequestContext(
            simulated, StreamRules.of(simulated, simulated.layout), window, now, backfills=backfills
        )

    def judge_event(self, event: dict[str, Any]) -> Rejection | None:
        """Return the reason why the event would be refused; None if it would be stored.

        The event is judged in the form that the API would read: floats and datetimes become the client's JSON values.
        """
        try:
            sent = decode_json(self._stamper.encode(event, self._now))
        except EventInvalid as error:
            return Rejection.of(0, event, "invalid", str(error))
        return check_batch(self._context, SentBatch.of_values([sent])).rejections.get(0)
