"""The records of work items in memory."""

from datetime import datetime

from tidetable.work.claim import Claim, Pause


class FakeWork:
    """The records of work items: of each item the generation, the owner, and the end of its claim."""

    def __init__(self) -> None:
        self.generations: dict[tuple[str, str], int] = {}
        self.claims: dict[tuple[str, str], tuple[str, datetime]] = {}
        self.pauses: set[Pause] = set()

    def claim(self, kind: str, stream: str, owner: str, now: datetime, until: datetime) -> Claim | None:
        item = kind, stream
        holder, end = self.claims.get(item, (owner, now))
        if holder != owner and now < end:
            return None
        self.generations[item] = self.generations.get(item, 0) + 1
        self.claims[item] = owner, until
        return Claim(kind, stream, self.generations[item], until)

    def release(self, claim: Claim) -> bool:
        item = claim.kind, claim.stream
        if self.generations.get(item) != claim.generation:
            return False
        self.claims.pop(item, None)
        return True

    def list_pauses(self) -> frozenset[Pause]:
        return frozenset(self.pauses)

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        self.pauses.add(pause) if on else self.pauses.discard(pause)
