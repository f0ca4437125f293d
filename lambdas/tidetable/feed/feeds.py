"""The feeds of a stage, one per stream, made from the configuration and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.config import Config, FeedPolicy, Stream
from tidetable.errors import BadInvocation, NotReady
from tidetable.feed.changes import ChangeReader, Record
from tidetable.feed.deliver import Delivered, Feed, FeedLetters, Message, Target, deliver, send_messages
from tidetable.feed.memory import Memory
from tidetable.large.whole import Unpacker
from tidetable.names import parse_table_name
from tidetable.ports import CatalogReader, Clock
from tidetable.query.where import parse_conditions
from tidetable.remaining import Remaining

MakeTarget = Callable[[str, str], Target]


@dataclass(slots=True)
class Feeds:
    """The ports and settings of a stage's feeds. ``make_target`` makes the target of an ARN, for a stream."""

    config: Config
    stage: str
    catalog: CatalogReader
    unpacker: Unpacker
    letters: FeedLetters
    clock: Clock
    make_target: MakeTarget
    _targets: dict[tuple[str, str], Target] = field(default_factory=dict)
    _entries: dict[str, Entry] = field(default_factory=dict)
    _memories: dict[str, Memory] = field(default_factory=dict)

    def deliver(self, records: Sequence[Record], remaining: Remaining) -> Delivered:
        """Deliver the records of one table's stream; none without a feed, as its mappings will be deleted."""
        stream, _ = parse_table_name(self.stage, records[0].table)
        policy = self.config.streams.get(stream)
        if policy is None or policy.feed is None:
            return Delivered()
        kinds, max_age = frozenset(policy.feed.kinds), policy.feed.max_age
        reader = ChangeReader(self.unpacker, kinds, read_conditions(policy, policy.feed))
        targets = [self._find_target(arn, stream) for arn in policy.feed.targets]
        memory = self._memories.setdefault(stream, Memory())
        feed = Feed(stream, reader, targets, self.letters, self.clock, max_age, self._find_entry, memory)
        return deliver(records, feed, remaining)

    def redeliver(self, stream: str, target: str, bodies: Sequence[bytes], remaining: Remaining) -> int:
        """Send the changes of a dead letter to their target again; NotReady if the target does not accept all of them."""
        policy = self.config.streams.get(stream)
        if policy is None or policy.feed is None or target not in policy.feed.targets:
            known = "has no such target" if policy is not None else "is not in the configuration"
            raise BadInvocation(f"stream {stream} {known}: {target or 'the record could not be read'}")
        messages = [Message(("", "", str(number)), body) for number, body in enumerate(bodies)]
        refused, reason = send_messages(messages, self._find_target(target, stream), self.clock, remaining)
        if refused:
            raise NotReady(f"{target} did not take {len(refused)} of {len(bodies)} changes: {reason}")
        return len(bodies)

    def _find_target(self, arn: str, stream: str) -> Target:
        if (arn, stream) not in self._targets:
            self._targets[arn, stream] = self.make_target(arn, stream)
        return self._targets[arn, stream]

    def _find_entry(self, table: str) -> Entry | None:
        """Return the period of a table. It is looked up once, as its layout never changes."""
        if table not in self._entries:
            stream, period = parse_table_name(self.stage, table)
            entries = self.catalog.entries(stream, period.start, period.start)
            self._entries |= {entry.table: entry for entry in entries}
        return self._entries.get(table)


def read_conditions(stream: Stream, feed: FeedPolicy) -> tuple[Condition, ...]:
    """Return the conditions of a feed; ProblemError says what to change."""
    return parse_conditions(stream, {f"where.{name}": value for name, value in feed.where.items()})
