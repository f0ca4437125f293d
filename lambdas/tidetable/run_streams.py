"""The streams of a run: the configured streams, and the removed streams, which may still have tables.

A removed stream is recorded in the catalog and no longer configured. It takes no events and gets no new tables. Its tables
age, are archived and are deleted as its last policy says, under the switches of the present ``[lifecycle]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tidetable.catalog import RecordedPolicy
from tidetable.config import Capacity, Config, Stream
from tidetable.config.derive import derive_name
from tidetable.config.record import parse_policy, render_policy
from tidetable.errors import ConfigError, Outage, StoreUnavailable, describe_error, note_trouble
from tidetable.ports import Catalog, Rollups
from tidetable.rollup_model.beginning import begin_with_stream

# The drain tries a message for about half a day: until then a removed stream's tables need their units.
DRAINED = timedelta(days=1)


@dataclass(slots=True)
class RunStreams:
    """The streams of a run. ``config`` is the configuration with the policies of removed streams.

    ``removed`` has the time at which each removed stream was removed, ``news`` the policies that must be recorded.
    ``unrecorded`` are configured streams without a recorded policy. ``troubles`` says which policies could not be read:
    the tables of these streams are not changed. ``unreadable`` has the troubles of each of these streams. ``complete``
    is False if no policy could be read.
    """

    config: Config
    removed: dict[str, datetime] = field(default_factory=dict)
    news: list[RecordedPolicy] = field(default_factory=list)
    unrecorded: set[str] = field(default_factory=set)
    troubles: list[str] = field(default_factory=list)
    unreadable: dict[str, tuple[str, ...]] = field(default_factory=dict)
    complete: bool = True


def find_run_streams(config: Config, catalog: Catalog, now: datetime) -> RunStreams:
    """Compare the configuration with the recorded policies; nothing is written."""
    try:
        recorded = {policy.stream: policy for policy in catalog.list_policies()}
    except Exception as error:  # even so, the next tables of the configured streams must be made
        trouble = f"the recorded policies could not be read: {describe_error(error)}"
        return RunStreams(config, troubles=[trouble], complete=False)
    known = RunStreams(config, unrecorded=config.streams.keys() - recorded.keys())
    streams = dict(config.streams)
    for name, stream in config.streams.items():
        present = RecordedPolicy(name, render_policy(stream))
        if recorded.get(name) != present:
            known.news.append(present)
    for name, record in recorded.items():
        if name in config.streams:
            continue
        since = record.removed or now
        if record.removed is None:
            known.news.append(record._replace(removed=now))
        try:
            policy = parse_policy(name, record.policy)
        except ConfigError as error:
            known.unreadable[name] = error.problems
            known.troubles += error.problems
            continue
        streams[name] = policy if now < since + DRAINED else lower_fully(policy)
        known.removed[name] = since
    known.config = msgspec.structs.replace(config, streams=streams)
    return known


def find_recorded_policy(stream: str, catalog: Catalog) -> Stream | None:
    """Find the policy that a stream had when it left the configuration; None if no readable policy is recorded."""
    return next((policy for policy in read_recorded_policies(catalog) if policy.name == stream), None)


def read_recorded_policies(catalog: Catalog) -> Iterator[Stream]:
    """Read the recorded policies. The runs of the lifecycle report a policy that this version cannot read."""
    for record in catalog.list_policies():
        with suppress(ConfigError):
            yield parse_policy(record.stream, record.policy)


def remember_policies(
    catalog: Catalog, known: RunStreams, now: datetime, find_rollups: Callable[[], Rollups] | None = None
) -> None:
    """Record new policies.

    Call it before tables are made: they need the record if their stream leaves the configuration. So do not make a
    table of a stream that is still ``unrecorded`` afterwards. If a rollup has left the configuration, its state is
    forgotten before its removal is recorded. Nobody marks its buckets any more, so its sealed buckets may become wrong,
    and must not be read if the rollup comes back.

    The rollups of a new stream begin with the stream, before it is recorded, and after they are recorded: if the stream
    leaves the configuration in between, the state of its rollups is forgotten like any other.
    """
    derived = {name for name, stream in known.config.streams.items() if stream.source}
    for record in sorted(known.news, key=lambda record: record.stream not in derived):
        effect = ", so no table of it is made yet" if record.stream in known.unrecorded else ""
        # If this fails, the next run records it.
        with note_trouble(f"the policy of {record.stream} could not be recorded{effect}", known.troubles):
            if record.removed is not None and find_rollups is not None:
                _forget_rollup(record, known, record.removed, find_rollups)
            if record.stream in known.unrecorded and find_rollups is not None:
                _begin_rollups(known.config.streams[record.stream], known, now, find_rollups)
            catalog.put_policy(record)
            known.unrecorded.discard(record.stream)


def _begin_rollups(stream: Stream, known: RunStreams, now: datetime, find_rollups: Callable[[], Rollups]) -> None:
    waiting = {derive_name(stream.name, rollup) for rollup in stream.rollup} & known.unrecorded
    if waiting:
        raise StoreUnavailable(Outage.OTHER, f"its rollup {min(waiting)} comes first")
    if stream.rollup:
        begin_with_stream(stream, find_rollups(), now)


def _forget_rollup(
    record: RecordedPolicy, known: RunStreams, now: datetime, find_rollups: Callable[[], Rollups]
) -> None:
    try:
        source = parse_policy(record.stream, record.policy).source
    except ConfigError:
        return
    if source:
        find_rollups().forget(source, record.stream.removeprefix(f"{source}-"))
        if source in known.removed or source not in known.config.streams or not known.config.streams[source].rollup:
            # Nobody notes series any more.
            find_rollups().stop_noting(source, now)


def lower_fully(stream: Stream) -> Stream:
    """Return the policy with the lowest units of its ladder at every age: nobody uses the stream any more."""
    capacity = stream.capacity
    provisioned = [step for step in capacity.ladder if not capacity.on_demand(step)]
    if not provisioned:
        return stream
    write, read = (min(getattr(step, side) or 1 for step in provisioned) for side in ("write", "read"))
    ladder = tuple(
        msgspec.structs.replace(step, write=write, read=read, index={}) if step in provisioned else step
        for step in capacity.ladder
    )
    lowest: Capacity = msgspec.structs.replace(capacity, ladder=ladder, autoscaling=None, warm=None)
    return msgspec.structs.replace(stream, capacity=lowest)
