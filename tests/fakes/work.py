"""The records of work items in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidetable.work.claim import Claim, Pause, WorkItem


@dataclass
class _Record:
    memo: str = ""
    generation: int = 0
    owner: str = ""
    until: datetime | None = None
    done: int = 0
    sent: datetime | None = None
    waiting: datetime | None = None
    problem: str = ""


class FakeWork:
    """The records of work items, by kind and name."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], _Record] = {}
        self.pauses: set[Pause] = set()

    def claim(
        self, kind: str, name: str, owner: str, now: datetime, until: datetime, *, added: bool = False
    ) -> Claim | None:
        record = self.records.get((kind, name), _Record())
        if added and ((kind, name) not in self.records or record.done):
            return None
        if record.until is not None and now < record.until and record.owner != owner:
            return None
        record.generation, record.owner, record.until = record.generation + 1, owner, until
        record.sent = record.waiting = None
        self.records[kind, name] = record
        return Claim(kind, name, record.generation, until, record.memo)

    def renew(self, claim: Claim, until: datetime) -> bool:
        record = self.records.get((claim.kind, claim.name))
        if record is None or record.generation != claim.generation or record.until is None:
            return False
        record.until = until
        return True

    def release(self, claim: Claim, memo: str, *, done: bool = False, problem: str = "") -> None:
        record = self.records.get((claim.kind, claim.name))
        if record is None or record.generation != claim.generation:
            return
        record.memo, record.until, record.owner, record.problem = memo, None, "", problem
        if done:
            record.done = claim.generation

    def mark_sent(self, item: WorkItem, now: datetime, until: datetime, *, added: bool = False) -> None:
        key = (item.kind, item.name)
        if added and key not in self.records:
            return
        record = self.records.get(key, _Record())
        if record.generation != item.generation:
            return
        record.sent, record.waiting = until, item.waiting or now
        self.records[key] = record

    def add(self, kind: str, name: str, memo: str) -> bool:
        if (kind, name) in self.records:
            return False
        self.records[kind, name] = _Record(memo)
        return True

    def list_items(self, kind: str, prefix: str = "") -> Sequence[WorkItem]:
        return [
            WorkItem(
                *(kind, name, record.memo, record.until, record.done, record.generation),
                *(record.sent, record.waiting, record.problem),
            )
            for (of, name), record in sorted(self.records.items(), key=lambda pair: pair[0])
            if of == kind and name.startswith(prefix)
        ]

    def remove(self, kind: str, name: str) -> None:
        self.records.pop((kind, name), None)

    def list_pauses(self) -> frozenset[Pause]:
        return frozenset(self.pauses)

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        self.pauses.add(pause) if on else self.pauses.discard(pause)
