"""The puts of events' items, whatever their form: a version, an item with data outside of it, or a plain item."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tidetable.catalog import Entry
from tidetable.event_writing import Writer
from tidetable.events import Event, Item
from tidetable.ingest.submission import Durable, Slot, Submission
from tidetable.large.outside import write_outside
from tidetable.large.shrink import Shrinker
from tidetable.layout import Layout
from tidetable.ports import EventStore, Guarded, Put, Transacted, Written
from tidetable.versions.writing import add_fenced, is_repeat, is_version, make_first_version, write_versions


def make_put(item: Item, entry: Entry, shrinker: Shrinker) -> Put | None:
    """Return the put of an item in a form that the period's table can hold; None if there is no such form."""
    if entry.layout.versioned:
        item = make_first_version(item, item["data"])
    return shrinker.shrink_item(item, entry)


def write_puts(writer: Writer, puts: Sequence[Put], write: Callable[[Sequence[Put]], Written]) -> Written:
    """Write puts of every form: first their data outside, then versions, then all other puts by ``write``."""
    ready, total = write_outside(writer, puts)
    total.add(write_versions(writer, [put for put in ready if is_version(put)]))
    total.add(writer.retry_writes(write, [put for put in ready if not is_version(put)]))
    return total


def write_fenced(store: EventStore, put: Put, entry: Entry) -> Transacted:
    """Write a put, whose data outside is written, while the catalog says that the entry is writable.

    CONFLICT says that another writer changes the event, so that a new version must be tried again. An item whose event
    was accepted again meanwhile needs no write: that is DONE.
    """
    if is_version(put):
        return add_fenced(store, put, entry)
    done = store.transact([Guarded(put, "newer")], entry)
    return Transacted.DONE if done is Transacted.CONFLICT else done


def is_stored(put: Put, item: Item | None) -> bool:
    """True if the item in the table equals the put's item, or was accepted after it."""
    if item is None:
        return False
    if is_version(put):
        return is_repeat(put.item, item)
    return item == put.item or item.get("at", 0) > put.item["at"]


def list_queued(submissions: Sequence[Submission], layout: Layout, entries: Sequence[Entry]) -> list[Event]:
    """List the events to queue: the last event of each slot, but all events of a pack.

    ``layout`` is the stream's present layout, ``entries`` are the periods of the request.
    """
    to_queue = [submission for submission in submissions if submission.fate is Durable.QUEUED]
    # The events of one pack stay together, so that the drain can pack them again.
    order: dict[Slot, int] = {}
    to_queue.sort(key=lambda submission: order.setdefault(submission.slot, len(order)))
    versioned = layout.versioned or any(entry.layout.versioned for entry in entries)
    return list({_identify(submission, versioned=versioned): submission.event for submission in to_queue}.values())


def _identify(submission: Submission, *, versioned: bool) -> Hashable:
    """Return a submission's identity for the queue. Of submissions with the same identity, only the last is queued.

    The identity is series, time and id, because the queue does not keep the order. For a version it is the slot. If
    versions are kept, but the event has no put, it is the index.
    """
    event, put = submission.event, submission.put
    if versioned if put is None else is_version(put):
        return submission.slot or submission.index
    return event.series, event.time, event.id
