"""Write puts, whatever their form: a version, an item with data outside of it, or a plain item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from tidetable.catalog import Entry
from tidetable.event_writing import Writer
from tidetable.events import Event, Item
from tidetable.ingest.routing import Routed
from tidetable.large.outside import write_outside
from tidetable.layout import Layout
from tidetable.ports import EventStore, Guarded, Put, Slot, Transacted, Written
from tidetable.versions.writing import add_fenced, is_repeat, is_version, keeps_versions, write_versions


def write_puts(writer: Writer, puts: Sequence[Put], write: Callable[[Sequence[Put]], Written]) -> Written:
    """Write puts of every form: first their data outside, then versions, then all other puts by ``write``."""
    ready, total = write_outside(writer, puts)
    total.add(write_versions(writer, [put for put in ready if is_version(put)]))
    total.add(writer.retry_writes(write, [put for put in ready if not is_version(put)]))
    return total


def merge_copies(puts: Iterable[Put]) -> list[Put]:
    """Return puts without copies of the same write: several messages may have the same event.

    Of several states of an item the one that was accepted last stays, and of several with the same time the last. Of equal
    versions that follow each other the first stays: the others are repeats.
    """
    merged, known = list[Put](), dict[tuple[str, str, str], int]()
    for put in puts:
        number = known.get(put.place)
        if number is None or merged[number].slot != put.slot:
            known[put.place] = len(merged)
            merged.append(put)
        elif not is_version(put) and put.item["at"] >= merged[number].item["at"]:
            merged[number] = put
    return merged


def needs_own_transaction(put: Put) -> bool:
    """True if a put cannot share a transaction with others: a version may have to move the earlier versions."""
    return is_version(put)


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


def list_queued(routed: Routed, unwritten: Collection[Slot], layouts: Iterable[Layout]) -> list[Event]:
    """List the events to queue: the last event of each put that is not written, but all events of a pack; and the events
    that have no put.

    If a table of one of the layouts keeps versions of events, all events without a put are queued.
    """
    groups: list[tuple[Sequence[int], bool]] = [(routed.waiting, keeps_versions(layouts))] if routed.waiting else []
    for put, own in zip(routed.puts, routed.members, strict=True):
        if put.slot in unwritten:
            groups.append((own[-1:], True) if is_version(put) else (own, False))
    # The events of one pack stay together, so that the drain can pack them again.
    groups.sort(key=lambda group: min(group[0]))
    events: dict[Hashable, Event] = {}
    for numbers, is_each in groups:
        for number in numbers:
            event = routed.batch.make_event(number)
            # The queue does not keep the order: of the states of one event only the last is queued.
            events[number if is_each else (event.series, event.time, event.id)] = event
    return list(events.values())
