"""The result of a request: the outcome of its events, or the refusal of the whole request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from tidetable.catalog import Backfill
from tidetable.exact_json import encode_json
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.context import RequestContext
from tidetable.ingest.rejection import Rejection
from tidetable.ingest.routing import Routed
from tidetable.ports import Slot, Written
from tidetable.problems import refuse_request
from tidetable.window import Window

# The effect of rejections on a request. "strict": any rejection refuses the request. "all": the request is refused if
# every event is rejected. "whole": after any rejection, no event is written. "none": the other events are written.
Refusal = Literal["strict", "all", "whole", "none"]
# At most this many errors are listed if a whole request is refused: nothing was written, so the sender can repeat it
# whole.
LISTED = 100
# AWS: a Lambda answers at most 6 MB, counted after escaping. A ref has up to 1,400 bytes, and a rejection up to 3,400, so
# that the answer to this number of events surely fits.
MAX_ANSWER_BYTES, SURELY_ANSWERED = 5_900_000, 1_500


class Outcome(msgspec.Struct):
    """The result of a request.

    ``refs`` has one entry per event: its ref, or None if the event was rejected, or was queued without a put.
    ``throttled_late`` counts the throttled writes to tables that are lowered for late events, ``throttled`` those to
    all other tables; ``reasons`` counts DynamoDB's reasons, in its words. ``backfills`` are the backfills under way;
    None if no event was older than the window, because then they are not looked up. ``packs`` counts the packs that
    were written. ``unmarked`` counts the writes that were queued because their buckets of rollups could not be marked,
    or their series could not be noted. ``full`` counts the writes to item collections that hold all that DynamoDB
    allows. ``refused`` has DynamoDB's reasons for the slots that it refuses because of what is in their items: their
    events are rejected, although this service had accepted them.
    """

    refs: list[str | None]
    window: Window
    accepted: int = 0
    queued: int = 0
    rejections: Sequence[Rejection] = ()
    write_units: float = 0.0
    throttled: int = 0
    throttled_late: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    newest: datetime | None = None
    backfills: Sequence[Backfill] | None = None
    packs: int = 0
    unmarked: int = 0
    full: int = 0
    refused: Mapping[Slot, str] = {}

    @property
    def status(self) -> int:
        """200 if all events that were not rejected are stored, 202 if some of them wait in the queue."""
        return 202 if self.queued else 200

    def document(self, *, refs: bool = True) -> dict[str, Any]:
        """Return the body of the answer, with or without the refs of the events."""
        return {
            "accepted": self.accepted,
            "queued": self.queued,
            "rejected": len(self.rejections),
            **({"refs": self.refs} if refs else {}),
            "window": self.window.document(self.backfills),
            "errors": list_errors(self.rejections) if self.rejections else [],
        }


def list_errors(rejections: Sequence[Rejection]) -> list[dict[str, Any]]:
    """List the rejections in the form of the API."""
    errors: list[dict[str, Any]] = msgspec.to_builtins(rejections)
    return errors


def report_written(context: RequestContext, routed: Routed, written: Written, lowered: Collection[str]) -> Outcome:
    """Return the outcome of a request, as far as its puts and writes decide it."""
    return Outcome(
        refs=routed.refs,
        window=context.window,
        write_units=written.units,
        throttled=sum(count for table, count in written.throttles.items() if table not in lowered),
        throttled_late=sum(count for table, count in written.throttles.items() if table in lowered),
        reasons=written.reasons,
        backfills=context.backfills,
        full=sum(map(written.is_full, written.unwritten)),
        refused=written.refused,
    )


def refuse_all(context: RequestContext, batch: SentBatch, refusal: Refusal) -> Outcome | None:
    """Return the outcome of a request of which nothing may be written; None if some of its events may be written.

    ProblemError if the whole request is refused.
    """
    rejections, count = batch.list_rejections(), len(batch.times)
    if rejections and (refusal == "strict" or (refusal == "all" and len(rejections) == count)):
        listed = {
            "rejected": len(rejections),
            "errors": list_errors(rejections[:LISTED]),
            "window": context.window.document(context.backfills),
        }
        more = f"; errors lists the first {LISTED} of {len(rejections)}" if len(rejections) > LISTED else ""
        if refusal == "strict":
            detail = (
                f"{len(rejections)} of {count} events are refused, so with handling=strict nothing was written{more}"
            )
            raise refuse_request(400, "strict", detail, **listed)
        raise refuse_request(422, "all_refused", f"every event was refused; nothing was written{more}", **listed)
    if (rejections and refusal == "whole") or len(rejections) == count:
        return Outcome([None] * count, context.window, rejections=rejections, backfills=context.backfills)
    return None


def refuse_long_answer(refs: Sequence[str | None], rejections: Sequence[Rejection]) -> None:
    """Raise ProblemError if the answer would be larger than a function may answer. Nothing may be written before.

    Otherwise the caller would get an error for events that are stored, and would send them again for ever.
    """
    # A text of the answer is escaped once more, which at most doubles it; refs have no character to escape.
    size = (
        sum(len(ref) for ref in refs if ref is not None)
        + 3 * len(refs)
        + sum(2 * len(encode_json(rejection)) for rejection in rejections)
    )
    if size > MAX_ANSWER_BYTES:
        more = ", or add refs=false" if refs else ""
        detail = f"the answer, with a ref or an error for each event, would have {size} bytes, and may have"
        raise refuse_request(413, "too_large", f"{detail} {MAX_ANSWER_BYTES}: send fewer events at once{more}")
