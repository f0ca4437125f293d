"""Messages of the overflow that are saved in the bucket, where they wait without a limit of time.

A message becomes an object, and leaves the queue only after that, if it has waited for an hour, or if its table takes no
more of it in the time of a delivery. While the drain stands still, requests and the lifecycle make objects, too
(``beat.py``, ``standstill.py``). The list of the objects is the truth: an object is deleted only after its events are
written. Messages only wake workers. So a run that stops, a message that is lost or a schedule that is late loses nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from tidetable.errors import NotDrained, Paced, StoreUnavailable, TableMissing, Undrainable
from tidetable.events import Event
from tidetable.ingest.beat import BEAT, record_beat
from tidetable.ingest.delivery import Drain
from tidetable.ingest.drain import TRIES, Drained, Letter, drain_letters, drain_messages
from tidetable.ingest.overflow import Wake, decode_message, encode_wake, read_wake
from tidetable.ingest.pace import SHARE
from tidetable.ingest.saved_lists import StreamObjects, list_objects, list_stream
from tidetable.ingest.saved_names import Backlog, SavedMessage, count_backlog
from tidetable.ingest.saving import Received, save_message, store_events
from tidetable.large.sweep_ports import Stored
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
# A stream takes turns with the others. A worker more is woken for so many objects.
_TURN_SECONDS = 10.0
_OBJECTS_PER_WORKER = 20
# So many objects are read at once.
_READS = 16
# The scheduled run begins once a minute, and wakes the workers again.
_EVERY = timedelta(minutes=1)


class SavedRun(NamedTuple):
    """The result of a run: the listed backlog at its start, the written events, and why objects are left."""

    backlog: Backlog
    events: int
    reasons: list[str]


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
        outcomes[number] = _follow_wake(wake, ports, remaining)
    return [outcomes[number] for number in range(len(messages))]


def _follow_wake(wake: Wake, ports: Drain, remaining: Remaining) -> Drained | NotDrained:
    if wake.stream != BEAT:
        return Drained(drain_woken(wake, ports, remaining).events)
    try:
        record_beat(wake, ports.beats, ports.clock.now())
    except (StoreUnavailable, TableMissing) as error:
        return NotDrained(f"the beat could not be recorded: {error}")
    return Drained(0)


def _try_to_save(message: Received, ports: Drain, rest: Sequence[Event] = ()) -> Drained | NotDrained | None:
    """Save a message, or the rest of its events; None if it cannot be read, so that it must be buried."""
    try:
        return Drained(0, saved=save_message(message, ports.large, rest))
    except Undrainable:
        return None
    except (NotDrained, StoreUnavailable) as error:
        return NotDrained(str(error))


def drain_saved(ports: Drain, remaining: Remaining) -> SavedRun:
    """Write the events of saved messages, the oldest of each stream first, and delete each object after its events are
    written. A message that cannot be written yet waits for the next run.

    If a stream has many objects, workers are woken, each for a part of them.
    """
    objects = list_objects(ports.saved)
    workers = _wake_workers(objects, ports)
    streams = [StreamObjects(stream, page, 0, workers[stream]) for stream, page in objects.items()]
    events, reasons = _drain_objects(streams, max(workers.values(), default=1), ports, remaining)
    return SavedRun(count_backlog([found for own in objects.values() for found in own]), events, reasons)


def drain_woken(wake: Wake, ports: Drain, remaining: Remaining) -> SavedRun:
    """Write a part of the saved messages of a stream, as ``drain_saved`` does. After its time, a wake does nothing."""
    left = (wake.until - ports.clock.now()).total_seconds()
    limited = limit_time(left, ports.clock, remaining)
    if limited() < _OBJECT_SECONDS:
        return SavedRun(Backlog(), 0, [])
    page = list_stream(wake.stream, ports.saved)
    objects = StreamObjects(wake.stream, page, wake.part, wake.workers)
    return SavedRun(count_backlog(page), *_drain_objects([objects], wake.workers, ports, limited))


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


def _drain_objects(
    streams: Sequence[StreamObjects], workers: int, ports: Drain, remaining: Remaining
) -> tuple[int, list[str]]:
    """Write the events of objects, stream by stream in turns. Return their number, and why objects are left."""
    # What this process has found out about its tables is kept.
    ports = replace(ports, pace=replace(ports.pace, share=SHARE / workers))
    turns = deque(objects for objects in streams if objects)
    events, reasons, failures = 0, list[str](), Counter[str]()
    while turns and remaining() >= _OBJECT_SECONDS:
        objects = turns.popleft()
        limited = limit_time(_TURN_SECONDS, ports.clock, remaining) if turns else remaining
        for found, outcome in _drain_group(objects.take_group(), ports, limited):
            if isinstance(outcome, Paced):
                objects.put_back(found)
            elif isinstance(outcome, NotDrained):
                objects.leave(found)
                failures[objects.stream] += 1
            else:
                events += outcome.events
            if isinstance(outcome, NotDrained):
                reasons.append(str(outcome))
        if failures[objects.stream] < _FAILURES:
            objects.list_on(ports.saved)
            if objects:
                turns.append(objects)
    return events, list(dict.fromkeys(reasons))


def _drain_group(
    group: Sequence[Stored], ports: Drain, remaining: Remaining
) -> Sequence[tuple[Stored, Drained | NotDrained]]:
    """Write the events of objects together, or bury those that can never be written; then delete these objects. An object
    of which some events are written is replaced by one of the other events.
    """
    with ports.pools(_READS) as pool:
        read = [*zip(group, pool.map(partial(_read_object, ports=ports), group), strict=True)]
    outcomes: list[tuple[Stored, Drained | NotDrained]]
    outcomes = [(found, letter) for found, letter in read if isinstance(letter, NotDrained)]
    letters = [(found, letter) for found, letter in read if isinstance(letter, Letter)]
    drained, done = drain_letters([letter for _, letter in letters], ports, remaining), list[str]()
    for (found, letter), outcome in zip(letters, drained, strict=True):
        left = found
        if isinstance(outcome, NotDrained) and 0 < len(outcome.rest) < len(letter.message.events):
            # The next run need not look for the events that are written.
            name, message = SavedMessage.of(found.key), letter.message._replace(events=outcome.rest)
            blob = store_events(message, name.sent, name.id, ports.large)
            left = found if blob is None else Stored(blob.key, len(blob.body), ports.clock.now())
        if left is not found or not isinstance(outcome, NotDrained):
            done.append(found.key)
        outcomes.append((left, outcome))
    if done:
        ports.saved.delete(done)
    return outcomes


def _read_object(found: Stored, ports: Drain) -> Letter | NotDrained | None:
    """Read a saved message; None if another run was faster, and NotDrained if it cannot be read."""
    try:
        SavedMessage.of(found.key)
    except ValueError:
        return NotDrained(f"{found.key} is not the key of a saved message")
    try:
        payload = ports.large.values.get(found.key)
        if payload is None:
            return None
        text = ports.large.compressor.expand(payload).decode()
        message = decode_message(text)
    except StoreUnavailable as error:
        return NotDrained(str(error))
    except (ValueError, KeyError, TypeError) as error:
        return NotDrained(f"{found.key} cannot be read: {error}")
    is_last = ports.clock.now() - found.written >= _GIVE_UP_AFTER
    return Letter(text, message, TRIES if is_last else 1)
