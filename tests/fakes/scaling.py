"""Application Auto Scaling in memory."""

from collections.abc import Sequence

from tidetable.config import Autoscaling


class FakeScaling:
    """``tended`` holds the policy of each table that is registered, ``calls`` counts."""

    def __init__(self) -> None:
        self.tended: dict[str, tuple[tuple[str, ...], Autoscaling]] = {}
        self.calls = 0

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        self.calls += 1
        self.tended[table] = (tuple(indexes), policy)

    def deregister(self, table: str, indexes: Sequence[str]) -> None:
        self.calls += 1
        self.tended.pop(table, None)
