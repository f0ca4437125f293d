"""The queue of messages to workers, in memory. It delivers as SQS may: late, twice, in any order, or not at all."""

from collections.abc import Callable, Sequence

from tidetable.work.claim import ItemName


class FakeWorkQueue:
    """A queue of messages. With ``refuses`` it accepts none."""

    def __init__(self) -> None:
        self.messages: list[ItemName] = []
        self.refuses = False

    def send(self, names: Sequence[ItemName]) -> Sequence[ItemName]:
        if self.refuses:
            return []
        self.messages += names
        return names

    def deliver(self, work_on: Callable[[ItemName], object], choose: Callable[[int], int] = lambda _: 0) -> None:
        """Deliver messages, also those that workers send meanwhile; ``choose`` chooses the next of so many."""
        while self.messages:
            work_on(self.messages.pop(choose(len(self.messages))))
