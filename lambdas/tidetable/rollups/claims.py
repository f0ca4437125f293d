"""The claim of a stream's rollups: one run at a time seals, reseals or rebuilds the rollups of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.remaining import Remaining
from tidetable.rollup_model.bounds import CLOCKS, LEASE, UNDER_WAY
from tidetable.rollups.services import Services
from tidetable.times import EPOCH
from tidetable.work.claim import Claim, HeldClaim, hold_claim

# The kind of work.
SEAL = "seal"
_OWNER = "work items"
# A claim ends so long after it was made or renewed. It is renewed at most this often, whenever a run looks at its time.
CLAIMED, _BEAT = timedelta(seconds=90), timedelta(seconds=20)
# What a run writes after a look at its time takes effect within this time: a request is tried three times for seven
# seconds each, or eight times if it is throttled.
_LAST_REQUEST = timedelta(seconds=21) + CLOCKS + UNDER_WAY
_NEVER = datetime.max.replace(tzinfo=UTC)


def shut_out_former(services: Services, length: timedelta) -> Services | None:
    """Hold the lease of the whole stage together with all runs of this version; None while a former version holds it.

    During a deploy, or after one was rolled back, a run of a former version may be under way. It knows no claims, but
    it has this lease, or waits for it. The services say since when no former version has had it.
    """
    since = services.catalog.share_lease(LEASE, _OWNER, services.clock.now(), length)
    return None if since is None else replace(services, held_since=since)


@contextmanager
def hold_item(
    services: Services, kind: str, name: str, owner: str, *, added: bool = False
) -> Iterator[tuple[HeldClaim | None, Services]]:
    """Hold the claim of an item during the block; yield None if another run has it.

    Also yields the services of the run: whenever the run looks at its time, the claim is renewed if that is due. No time is
    left once another run has the item, or the claim is about to end.
    """
    with hold_claim(services.work, kind, name, owner, services.clock.now(), CLAIMED, added=added) as held:
        yield held, services if held is None else replace(services, remaining=_keep_claim(held.claim, services))


def _keep_claim(claim: Claim, services: Services) -> Remaining:
    until, due, clock = claim.until, claim.until - CLAIMED + _BEAT, services.clock

    def find_left() -> float:
        nonlocal until, due
        now = clock.now()
        if due <= now:
            due = now + _BEAT
            # If the answer is lost, the next one comes before the claim ends.
            with suppress(StoreUnavailable, TableThrottled):
                kept = services.work.renew(claim, now + CLAIMED)
                until, due = (now + CLAIMED, due) if kept else (EPOCH, _NEVER)
        return services.remaining() if clock.now() + _LAST_REQUEST < until else 0.0

    return find_left
