"""The feeds of a stage, one per stream, made from the configuration and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidetable.catalog import Entry
from tidetable.config import Config, FeedPolicy, Stream
from tidetable.errors import BadInvocation, NotReady, TableMissing
from tidetable.feed.changes import Change, ChangeReader, StreamRecord
from tidetable.feed.deliver import deliver
from tidetable.feed.memory import Memory
from tidetable.feed.sending import send_messages
from tidetable.feed.targets import Delivered, Feed, FeedLetters, FeedMessage, Target
from tidetable.feed.unread import UnreadRecord, parse_unread
from tidetable.large.unpack import Unpacker
from tidetable.names import parse_table_name
from tidetable.ports import CatalogReader, Clock
from tidetable.remaining import Remaining
from tidetable.where import read_feed_conditions

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

    def deliver(self, records: Sequence[StreamRecord], remaining: Remaining) -> Delivered:
        """Deliver the records of one table's stream; none without a feed, as its mappings will be deleted."""
        stream, _ = parse_table_name(self.stage, records[0].table)
        policy = self.config.streams.get(stream)
        if policy is None or policy.feed is None:
            return Delivered()
        reader, max_age = self._make_reader(policy, policy.feed), policy.feed.max_age
        targets = [self._find_target(arn, stream) for arn in policy.feed.targets]
        memory = self._memories.setdefault(stream, Memory())
        feed = Feed(stream, reader, targets, self.letters, self.clock, max_age, self._find_entry, memory)
        return deliver(records, feed, remaining)

    def redeliver(self, stream: str, target: str, bodies: Sequence[bytes], remaining: Remaining) -> int:
        """Send the changes of a dead letter to their target again, and return their number; NotReady if the target does
        not accept all of them.

        A letter without a target names records that could not be read. Their items are read again, and their changes
        go to all targets of the feed.
        """
        policy = self.config.streams.get(stream)
        if policy is None or policy.feed is None or (target and target not in policy.feed.targets):
            known = "has no such target" if policy is not None else "is not in the configuration"
            raise BadInvocation(f"stream {stream} {known}: {target or 'it has no feed'}")
        if not target:
            return self._redeliver_unread(policy, policy.feed, bodies, remaining)
        self._send_again(
            stream, target, [FeedMessage(("", "", str(number)), body) for number, body in enumerate(bodies)], remaining
        )
        return len(bodies)

    def _redeliver_unread(self, stream: Stream, feed: FeedPolicy, bodies: Sequence[bytes], remaining: Remaining) -> int:
        reader = self._make_reader(stream, feed)
        changes = [change for unread in parse_unread(bodies) for change in self._read_again(unread, reader)]
        for arn in feed.targets:
            target = self._find_target(arn, stream.name)
            messages = [FeedMessage(change.identity, change.encode(target.most_bytes)) for change in changes]
            self._send_again(stream.name, arn, messages, remaining)
        return len(bodies)

    def _read_again(self, unread: UnreadRecord, reader: ChangeReader) -> Sequence[Change]:
        """Read the changes of a record that could not be read, from the present item in its table."""
        entry = self._find_entry(unread.table)
        if entry is None:
            raise NotReady(f"the catalog has no period of table {unread.table}")
        try:
            item = self.unpacker.store.get_many(entry.table, [unread.key]).get(unread.key)
        except TableMissing as error:
            raise NotReady(f"{error}: read the events of period {entry.period.label} by a query") from error
        if item is None:
            raise NotReady(f"table {entry.table} has no item {unread.key.pk}, {unread.key.sk}")
        return reader.read(unread.make_record(item), entry)

    def _send_again(self, stream: str, target: str, messages: Sequence[FeedMessage], remaining: Remaining) -> None:
        refused, reason = send_messages(messages, self._find_target(target, stream), self.clock, remaining)
        if refused:
            raise NotReady(f"{target} did not take {len(refused)} of {len(messages)} changes: {reason}")

    def _make_reader(self, stream: Stream, feed: FeedPolicy) -> ChangeReader:
        return ChangeReader(self.unpacker, frozenset(feed.kinds), read_feed_conditions(stream, feed.where))

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
