"""The use case of the drain: write the events of overflow messages, or fail, so that the messages come again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tidetable.errors import NotDrained, Paced, StoreUnavailable, Undrainable, describe_error
from tidetable.ingest.delivery import Delivery, Drain
from tidetable.ingest.fates import Fate
from tidetable.ingest.overflow import MAX_MESSAGE_BYTES, OverflowMessage, encode_message, expand_message, keep_message
from tidetable.remaining import Remaining, limit_time

# The number of times that the queue delivers a message, twelve hours in all.
TRIES = 120


class Drained(NamedTuple):
    """The number of written events of a message and, if any were buried, why they can never be written.

    ``saved`` is the number of events if the message was saved in the bucket instead.
    """

    events: int
    buried: str | None = None
    saved: int = 0


class Letter(NamedTuple):
    """A message with its events: its text, what the text says, and how often it was delivered."""

    text: str
    message: OverflowMessage
    received: int


def drain_message(body: str, ports: Drain, remaining: Remaining, *, received: int = 1) -> Drained:
    """Write a message's events, as ``drain_messages`` does; NotDrained if the message must come again."""
    (drained,) = drain_messages([(body, received)], ports, remaining)
    if isinstance(drained, NotDrained):
        raise drained
    return drained


def drain_messages(
    bodies: Sequence[tuple[str, int]], ports: Drain, remaining: Remaining
) -> Sequence[Drained | NotDrained]:
    """Write the events of messages, each a body and the number of its deliveries, and bury those that no later try can
    write. NotDrained in place of a message says that it must come again.

    A message also comes again if events should be buried, but the queue of dead letters did not take them. Writing an
    event again is harmless, but it costs write units. So if a message was delivered before, only the events that are
    not in the table yet are written: each try gets further, even if the table has few units. At the last try the whole
    message is buried: SQS would do the same, but without the reason.
    """
    letters: dict[int, Letter] = {}
    outcomes: dict[int, Drained | NotDrained] = {}
    for number, (body, received) in enumerate(bodies):
        try:
            text, message = expand_message(body, ports.large.values, ports.large.compressor)
            letters[number] = Letter(text, message, received)
        except Undrainable as error:
            outcomes[number] = Drained(0, str(error)) if ports.dead_letters.bury(body, str(error)) else error
        except StoreUnavailable as error:
            outcomes[number] = NotDrained(str(error))
    outcomes |= zip(letters, drain_letters([*letters.values()], ports, remaining), strict=True)
    return [outcomes[number] for number in range(len(bodies))]


def drain_letters(letters: Sequence[Letter], ports: Drain, remaining: Remaining) -> Sequence[Drained | NotDrained]:
    """Write the events of messages, as ``drain_messages`` does.

    The messages of a stream are written together. Streams whose messages come for the first time are first, and the
    time is divided among the streams, so that a table that takes little does not use up the time of the others.
    """
    numbers_of = defaultdict[str, list[int]](list)
    for number, letter in enumerate(letters):
        numbers_of[letter.message.stream].append(number)
    outcomes: dict[int, Drained | NotDrained] = {}
    groups = sorted(numbers_of.values(), key=lambda numbers: max(letters[number].received for number in numbers))
    for place, numbers in enumerate(groups):
        own, left = [letters[number] for number in numbers], len(groups) - place
        limited = remaining if left == 1 else limit_time(remaining() / left, ports.clock, remaining)
        outcomes |= zip(numbers, _drain_stream(own, ports, limited), strict=True)
    return [outcomes[number] for number in range(len(letters))]


def _drain_stream(letters: Sequence[Letter], ports: Drain, remaining: Remaining) -> Sequence[Drained | NotDrained]:
    """Write the events of messages of one stream."""
    repeated = frozenset(number for number, letter in enumerate(letters) if letter.received > 1)
    try:
        fates = Delivery([letter.message for letter in letters], ports, remaining, repeated=repeated).write()
    except (NotDrained, StoreUnavailable) as error:
        fates = [Fate(str(error), is_blocked=True)] * len(letters)
    except Exception as error:
        # A fault of this project, perhaps because of one message: the others must not wait for it.
        if len(letters) > 1:
            return [outcome for letter in letters for outcome in _drain_stream([letter], ports, remaining)]
        fates = [Fate(describe_error(error), is_blocked=True)]
    return [_settle_letter(letter, fate, ports) for letter, fate in zip(letters, fates, strict=True)]


def _settle_letter(letter: Letter, fate: Fate, ports: Drain) -> Drained | NotDrained:
    """Return what became of a message, after its unwritable events are buried. They are buried only if no later try can
    write more of the message.
    """
    events = letter.message.events
    unwritten = {id(event) for own in (fate.waiting, *(own for _, own in fate.unwritable)) for event in own}
    rest = [event for event in events if id(event) in unwritten]
    if fate.waits and not fate.is_blocked:
        return Paced(fate.waits, rest)
    if fate.waits and letter.received < TRIES:
        return NotDrained(fate.waits, rest)
    if fate.waits:
        reason, buried = fate.waits, events
    elif fate.unwritable:
        reason, buried = "; ".join(dict.fromkeys(reason for reason, _ in fate.unwritable)), rest
    else:
        return Drained(len(events))
    text = letter.text
    if len(buried) < len(events):
        text = encode_message(letter.message.stream, buried, letter.message.at)
    if _bury(text, reason, letter.message, ports):
        return Drained(len(events) - len(buried), reason)
    return NotDrained(reason) if fate.waits else Undrainable(reason, buried)


def _bury(letter: str, reason: str, message: OverflowMessage, ports: Drain) -> bool:
    """Put a letter into the queue of dead letters; False if it is not certain that it was kept."""
    if len(letter.encode()) > MAX_MESSAGE_BYTES:
        large = ports.large
        ticket = keep_message(message.stream, letter, message.events[0], large.values, large.compressor, large.unique())
        if ticket is None:
            return False
        letter = ticket
    return ports.dead_letters.bury(letter, reason)
