"""The claim of a stream's rollups: one run at a time seals, reseals or rebuilds the rollups of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from msgspec.structs import replace

from tidetable.rollup_model.bounds import LEASE
from tidetable.rollups.services import Services
from tidetable.work.claim import HeldClaim, hold_claim

# The kind of work.
SEAL = "seal"
_OWNER = "work items"


def shut_out_former(services: Services, length: timedelta) -> Services | None:
    """Hold the lease of the whole stage together with all runs of this version; None while a former version holds it.

    During a deploy, or after one was rolled back, a run of a former version may be under way. It knows no claims, but
    it has this lease, or waits for it. The services say since when no former version has had it.
    """
    since = services.catalog.share_lease(LEASE, _OWNER, services.clock.now(), length)
    return None if since is None else replace(services, held_since=since)


@contextmanager
def hold_sealing(services: Services, source: str, owner: str, length: timedelta) -> Iterator[HeldClaim | None]:
    """Hold the claim of a stream's rollups during the block; yield None if another run has it."""
    with hold_claim(services.work, SEAL, source, owner, services.clock.now(), length) as held:
        yield held
