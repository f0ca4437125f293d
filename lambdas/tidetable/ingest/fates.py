"""What becomes of the messages of one delivery: some of their events may wait, and some may never be written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tidetable.events import Event
from tidetable.ports import Put, Slot, Written


@dataclass(slots=True)
class Fate:
    """What became of a message: the first reason why some of its events still wait, these events, and the events that no
    later try can write, each list with its reason. ``is_blocked`` is false if events wait only because the time was up.
    """

    waits: str = ""
    is_blocked: bool = False
    waiting: list[Event] = field(default_factory=list)
    unwritable: list[tuple[str, Sequence[Event]]] = field(default_factory=list)


class Fates:
    """The fates of the messages of a stream, by their numbers.

    ``events_of`` has the events of each put, with the numbers of their messages. ``full`` are the puts of full item
    collections, ``refused`` has DynamoDB's reasons by the slots that it refuses.
    """

    def __init__(self, stream: str, messages: int) -> None:
        self._stream = stream
        self.of_messages = [Fate() for _ in range(messages)]
        self.events_of: defaultdict[Slot, list[tuple[int, Event]]] = defaultdict(list)
        self.full: set[Slot] = set()
        self.refused: dict[Slot, str] = {}

    def wait(self, events: Iterable[tuple[int, Event]], reason: str, *, is_blocked: bool = True) -> None:
        """Note why events wait, each with the number of its message. The first reason counts."""
        for number, event in events:
            fate = self.of_messages[number]
            fate.waits, fate.is_blocked = fate.waits or reason, fate.is_blocked or is_blocked
            fate.waiting.append(event)

    def wait_puts(self, puts: Sequence[Put], reason: str, *, is_blocked: bool = True) -> None:
        """Note why the events of puts wait."""
        self.wait((own for put in puts for own in self.events_of[put.slot]), reason, is_blocked=is_blocked)

    def give_up(self, slots: Collection[Slot], reason: str) -> None:
        """Note, for each message, its events that no later try can write. ``{count}`` in the reason becomes the number of
        its items.
        """
        events = defaultdict[int, list[Event]](list)
        counts = Counter[int]()
        for slot in slots:
            own = self.events_of[slot]
            counts.update({number for number, _ in own})
            for number, event in own:
                events[number].append(event)
        for number, given_up in events.items():
            self.of_messages[number].unwritable.append((reason.replace("{count}", str(counts[number])), given_up))

    def give_up_refused(self) -> None:
        """Note the events of items that DynamoDB refuses for ever."""
        # AWS: a full item collection takes only writes that make it smaller.
        self.give_up(
            self.full,
            f"{{count}} items of {self._stream} belong to item collections that hold 10 GB, the most with a local index:"
            " choose a shorter bucket or more shards for the periods to come (runbook: ItemCollectionFull)",
        )
        for reason in dict.fromkeys(self.refused.values()):
            slots = [slot for slot, own in self.refused.items() if own == reason]
            self.give_up(slots, f"DynamoDB refuses {{count}} items of {self._stream}: {reason}")


def explain_troubles(written: Written) -> str:
    """Return the end of a sentence that says why puts are not written; empty if DynamoDB gave no reason."""
    if written.missing_tables:
        return f"; missing: {', '.join(sorted(written.missing_tables))}"
    return f": {'; '.join(sorted(set(written.troubles.values())))}" if written.troubles else ""
