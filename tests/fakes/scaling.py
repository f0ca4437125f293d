"""Application Auto Scaling in memory."""

from collections.abc import Callable, Sequence

from tidetable.config import Autoscaling


class FakeScaling:
    """``tended`` has the policy of each registered table, ``calls`` the number of calls.

    ``strike`` is called after each request, and may raise.
    """

    def __init__(self, strike: Callable[[], None] = lambda: None) -> None:
        self.strike = strike
        self.tended: dict[str, tuple[tuple[str, ...], Autoscaling]] = {}
        self.calls = 0

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        self.calls += 1
        self.tended[table] = (tuple(indexes), policy)
        self.strike()

    def deregister(self, table: str, indexes: Sequence[str]) -> None:
        self.calls += 1
        self.tended.pop(table, None)
        self.strike()
