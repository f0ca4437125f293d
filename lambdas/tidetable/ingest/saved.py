"""Messages of the overflow that are saved in the bucket, where they wait without a limit of time.

A message becomes an object, and leaves the queue only after that, if it has waited for an hour, or if its table takes no
more of it in the time of a delivery. The list of the objects is the truth: an object is deleted only after its events are
written. Messages only wake workers. So a run that stops, a message that is lost or a schedule that is late loses nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zlib import crc32

from tidetable.errors import NotDrained, Paced, StoreUnavailable, Undrainable
from tidetable.events import Event
from tidetable.ingest.delivery import Drain
from tidetable.ingest.drain import TRIES, Drained, Letter, drain_letters, drain_messages, expand_message
from tidetable.ingest.overflow import (
    OverflowMessage,
    Wake,
    decode_message,
    encode_message,
    encode_wake,
    read_wake,
)
from tidetable.ingest.pace import SHARE
from tidetable.ingest.saved_names import OF_STREAM, SAVED_PREFIX, Backlog, SavedMessage, count_backlog, read_stream
from tidetable.large.sweep_ports import Store, Stored
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.remaining import Remaining, limit_time

# AWS: a queue keeps a message for 14 days at most. The rest of the days is for the saving.
SAVE_AFTER = timedelta(hours=1)
# A run begins no further objects with less time.
_OBJECT_SECONDS = 5.0
# After so many failures a run leaves the other messages of a stream alone: its table is throttled or missing. A message
# of which nothing can be written two days after it was saved becomes a dead letter, so that it does not delay its stream
# for ever.
_FAILURES = 3
_GIVE_UP_AFTER = timedelta(days=2)
# A stream takes turns with the others, in each of which so many events are written together. A worker more is woken for
# so many objects. AWS: a page of a list has 1,000 keys.
_TURN_SECONDS, _TURN_EVENTS = 10.0, 10_000
_OBJECTS_PER_WORKER, _LISTED = 20, 1_000
# The scheduled run begins once a minute, and wakes the workers again.
_EVERY = timedelta(minutes=1)


class SavedRun(NamedTuple):
    """The result of a run: the listed backlog at its start, the written events, and why objects are left."""

    backlog: Backlog
    events: int
    reasons: list[str]


class Received(NamedTuple):
    """A message of the queue: its body, when the queue got it, its id, and how often it was delivered."""

    body: str
    sent: datetime
    id: str
    received: int = 1


def take_messages(messages: Sequence[Received], ports: Drain, remaining: Remaining) -> Sequence[Drained | NotDrained]:
    """Handle messages of the queue: write their events, or save the messages. A message may be deleted unless the result
    has NotDrained in its place: then it must come again.
    """
    outcomes: dict[int, Drained | NotDrained] = {}
    wakes, now = dict[int, Wake](), ports.clock.now()
    for number, message in enumerate(messages):
        wake = read_wake(message.body)
        if wake is not None:
            wakes[number] = wake
        elif now - message.sent >= SAVE_AFTER and (saved := _try_to_save(message, ports)) is not None:
            outcomes[number] = saved
    young = [number for number in range(len(messages)) if not (number in outcomes or number in wakes)]
    bodies = [(messages[number].body, messages[number].received) for number in young]
    for number, outcome in zip(young, drain_messages(bodies, ports, remaining), strict=True):
        # The table's units are used up. The workers of saved messages go on, minute by minute.
        saved = _try_to_save(messages[number], ports, outcome.rest) if isinstance(outcome, Paced) else None
        outcomes[number] = saved if isinstance(saved, Drained) else outcome
    for number, wake in wakes.items():
        outcomes[number] = Drained(drain_woken(wake, ports, remaining).events)
    return [outcomes[number] for number in range(len(messages))]


def _try_to_save(message: Received, ports: Drain, rest: Sequence[Event] = ()) -> Drained | NotDrained | None:
    """Save a message, or the rest of its events; None if it cannot be read, so that it must be buried."""
    try:
        return Drained(0, saved=save_message(message, ports, rest))
    except Undrainable:
        return None
    except (NotDrained, StoreUnavailable) as error:
        return NotDrained(str(error))


def save_message(received: Received, ports: Drain, rest: Sequence[Event] = ()) -> int:
    """Save a message of the queue, or the rest of its events, as an object, and return the number of these events. The
    same message is one object.

    NotDrained if it is not certain that the object was stored; Undrainable if the message cannot be read.
    """
    _, message = expand_message(received.body, ports)
    stored = _store_events(message._replace(events=rest or message.events), received.sent, received.id, ports)
    if stored is None:
        raise NotDrained("the message is old, and could not be saved in the bucket")
    return SavedMessage.of(stored.key).events


def _store_events(message: OverflowMessage, sent: datetime, id: str, ports: Drain) -> Stored | None:
    """Store events as an object; None if it is not certain that it was stored."""
    first, name = message.events[0], SavedMessage(sent, message.stream, len(message.events), id)
    text = encode_message(message.stream, message.events, message.at)
    blob = Blob(name.key, ports.large.compressor.compress(text.encode()), Key(first.series, first.id))
    return Stored(blob.key, len(blob.body), ports.clock.now()) if ports.large.values.put(blob) else None


def drain_saved(ports: Drain, remaining: Remaining) -> SavedRun:
    """Write the events of saved messages, the oldest of each stream first, and delete each object after its events are
    written. A message that cannot be written yet waits for the next run.

    If a stream has many objects, workers are woken, each for a part of them.
    """
    objects = _list_objects(ports.saved)
    workers = _wake_workers(objects, ports)
    parts = {stream: _choose_part(own, 0, workers[stream]) for stream, own in objects.items()}
    events, reasons = _drain_objects(parts, ports, remaining, max(workers.values(), default=1))
    return SavedRun(count_backlog([found for own in objects.values() for found in own]), events, reasons)


def drain_woken(wake: Wake, ports: Drain, remaining: Remaining) -> SavedRun:
    """Write a part of the saved messages of a stream, as ``drain_saved`` does. After its time, a wake does nothing."""
    left = (wake.until - ports.clock.now()).total_seconds()
    limited = limit_time(left, ports.clock, remaining)
    if limited() < _OBJECT_SECONDS:
        return SavedRun(Backlog(), 0, [])
    part = _choose_part(_list_stream(wake.stream, ports.saved), wake.part, wake.workers)
    return SavedRun(count_backlog(part), *_drain_objects({wake.stream: part}, ports, limited, wake.workers))


def _list_objects(store: Store) -> Mapping[str, Sequence[Stored]]:
    """List the oldest saved messages of each stream, in order of time. "?" has the objects that are no saved messages."""
    objects: dict[str, list[Stored]] = {}
    for found in takewhile(lambda found: found.key < OF_STREAM, store.stored(SAVED_PREFIX)):
        objects.setdefault(read_stream(found.key), []).append(found)
    for stream in store.folders(OF_STREAM):
        objects.setdefault(stream, []).extend(_list_stream(stream, store))
    return objects


def _list_stream(stream: str, store: Store) -> Sequence[Stored]:
    return list(islice(store.stored(f"{OF_STREAM}{stream}/"), _LISTED))


def _wake_workers(objects: Mapping[str, Sequence[Stored]], ports: Drain) -> Mapping[str, int]:
    """Wake workers for the streams with many objects, and return how many workers each stream has with this one.

    At most half of the consumers work on saved messages, so that the others take new ones.
    """
    wanted = {stream: len(own) // _OBJECTS_PER_WORKER for stream, own in objects.items() if stream != "?"}
    many = [stream for stream, count in wanted.items() if count]
    most = ports.config.work.consumers // 2 // max(len(many), 1)
    workers, until = dict.fromkeys(objects, 1), ports.clock.now() + _EVERY
    for stream in many:
        more = min(wanted[stream], most)
        wakes = [encode_wake(Wake(stream, part, more + 1, until)) for part in range(1, more + 1)]
        if wakes and ports.overflow.wake(stream, wakes):
            workers[stream] += more
    return workers


def _choose_part(objects: Sequence[Stored], part: int, workers: int) -> Sequence[Stored]:
    """Order the objects: those of a worker's part come before the others, whose worker may have been lost."""
    return sorted(objects, key=lambda found: (crc32(found.key.encode()) - part) % workers != 0)


def _drain_objects(
    parts: Mapping[str, Sequence[Stored]], ports: Drain, remaining: Remaining, workers: int
) -> tuple[int, list[str]]:
    """Write the events of objects, stream by stream in turns. Return their number, and why objects are left."""
    # What this process has found out about its tables is kept.
    ports = replace(ports, pace=replace(ports.pace, share=SHARE / workers))
    turns = deque((stream, deque(own)) for stream, own in parts.items() if own)
    events, reasons, failures = 0, list[str](), Counter[str]()
    while turns and remaining() >= _OBJECT_SECONDS:
        stream, objects = turns.popleft()
        group = [objects.popleft()]
        total = count_backlog(group).events
        while objects and (total := total + count_backlog([objects[0]]).events) <= _TURN_EVENTS:
            group.append(objects.popleft())
        limited = limit_time(_TURN_SECONDS, ports.clock, remaining) if turns else remaining
        for found, outcome in _drain_group(group, ports, limited):
            if isinstance(outcome, NotDrained):
                reasons.append(str(outcome))
                failures[stream] += not isinstance(outcome, Paced)
            else:
                events += outcome.events
            if isinstance(outcome, Paced):
                objects.append(found)
        if objects and failures[stream] < _FAILURES:
            turns.append((stream, objects))
    return events, list(dict.fromkeys(reasons))


def _drain_group(
    group: Sequence[Stored], ports: Drain, remaining: Remaining
) -> Sequence[tuple[Stored, Drained | NotDrained]]:
    """Write the events of objects together, or bury those that can never be written; then delete these objects. An object
    of which some events are written is replaced by one of the other events.
    """
    outcomes: list[tuple[Stored, Drained | NotDrained]] = []
    letters: list[tuple[Stored, Letter]] = []
    for found in group:
        try:
            letter = _read_object(found, ports)
            if letter is not None:
                letters.append((found, letter))
        except (NotDrained, StoreUnavailable) as error:
            outcomes.append((found, NotDrained(str(error))))
    drained, done = drain_letters([letter for _, letter in letters], ports, remaining), list[str]()
    for (found, letter), outcome in zip(letters, drained, strict=True):
        left = found
        if isinstance(outcome, NotDrained) and 0 < len(outcome.rest) < len(letter.message.events):
            # The next run need not look for the events that are written.
            name, message = SavedMessage.of(found.key), letter.message._replace(events=outcome.rest)
            left = _store_events(message, name.sent, name.id, ports) or found
        if left is not found or not isinstance(outcome, NotDrained):
            done.append(found.key)
        outcomes.append((left, outcome))
    if done:
        ports.saved.delete(done)
    return outcomes


def _read_object(found: Stored, ports: Drain) -> Letter | None:
    """Read a saved message; None if another run was faster. NotDrained if it cannot be read."""
    try:
        SavedMessage.of(found.key)
    except ValueError:
        raise NotDrained(f"{found.key} is not the key of a saved message") from None
    payload = ports.large.values.get(found.key)
    if payload is None:
        return None
    try:
        text = ports.large.compressor.expand(payload).decode()
        message = decode_message(text)
    except (ValueError, KeyError, TypeError) as error:
        raise NotDrained(f"{found.key} cannot be read: {error}") from error
    is_last = ports.clock.now() - found.written >= _GIVE_UP_AFTER
    return Letter(text, message, TRIES if is_last else 1)
