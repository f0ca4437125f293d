"""Application Auto Scaling in memory."""

from collections.abc import Callable, Sequence

from tidetable.config import Autoscaling


class FakeScaling:
    """``tended`` maps each registered table to its indexes and its policy; ``calls`` is the number of calls.

    ``strike`` is called after each request, and may raise an error.
    """

    def __init__(self, strike: Callable[[], None] = lambda: None) -> None:
        self.strike = strike
        self.tended: dict[str, tuple[tuple[str, ...], Autoscaling]] = {}
        self.calls = 0
        # The tables and indexes that are scaled. A test may put the set of the strict service here.
        self.scaled: set[str] = set()
        # The tables that were deregistered in other Regions, each with the Region.
        self.elsewhere: list[tuple[str, str]] = []

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        self.calls += 1
        self.tended[table] = (tuple(indexes), policy)
        if policy.write is not None:
            self.scaled.update({table, *(f"{table}/index/{index}" for index in indexes)})
        self.strike()

    def deregister(self, table: str, indexes: Sequence[str], regions: Sequence[str] = ()) -> None:
        self.calls += 1
        self.tended.pop(table, None)
        self.elsewhere += [(table, region) for region in regions]
        self.scaled.difference_update({table, *(f"{table}/index/{index}" for index in indexes)})
        self.strike()
