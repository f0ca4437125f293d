"""Keep every version of an event, in streams whose policy says so.

The newest version has the event's own key, which begins with ``v0#``. When a newer version comes, the previous version
moves to ``v1#``, the next time to ``v2#``, and so on in the order of writing, as AWS's guidance on sort keys
recommends. A new event needs no read: it is put on the condition that its key has no item. An event that equals one of
its stored versions is a repeat, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256

from tidetable.catalog import Entry
from tidetable.errors import CollectionFull, PutRefused, StoreUnavailable, TableMissing
from tidetable.event_writing import Writer
from tidetable.events import Item, JsonObject
from tidetable.exact_json import canonical_json
from tidetable.layout import ATTRIBUTES, Layout
from tidetable.ports import EventStore, Guarded, Put, Transacted, Written

# The number of earlier versions whose digests are remembered. A few suffice: repeats come soon.
_REMEMBERED = 32
_DIGITS = 16


def keeps_versions(layouts: Iterable[Layout]) -> bool:
    """True if a table of one of these layouts keeps every version of an event: then no state of it replaces another."""
    return any(layout.versioned for layout in layouts)


def is_version(put: Put) -> bool:
    """True if a put is to become a version of its event, beside the event's other versions."""
    return "version" in put.item


def make_first_version(item: Item, data: JsonObject) -> Item:
    """Return an item as the first version of its event."""
    return {**item, "version": 1, "digest": sha256(canonical_json(data)).hexdigest()[:_DIGITS]}


def write_versions(writer: Writer, puts: Sequence[Put]) -> Written:
    """Write as many puts as possible before the time is up. A put becomes a new version unless it repeats a version."""

    def attempt(waiting: Sequence[Put]) -> Written:
        total = Written()
        behind = set[tuple[str, str, str]]()
        for turn in _split_turns(waiting):
            ready = [put for put in turn if put.place not in behind]
            written = writer.store.write_each(ready, "absent")
            existing, written.conflicts = written.conflicts, []
            for put, item in existing:
                _add_next_version(writer.store, put, item, written)
            # The versions of one event are written in order: if a version waits, the later versions wait too.
            total.unwritten += [put for put in turn if put.place in behind]
            behind |= {put.place for put in written.unwritten}
            total.add(written)
        return total

    return writer.retry_writes(attempt, puts)


def add_fenced(store: EventStore, put: Put, entry: Entry) -> Transacted:
    """Add a version while the catalog says that the entry is writable; CONFLICT if another writer changed the event meanwhile."""
    done = store.transact([Guarded(put, "absent")], entry)
    if done is not Transacted.CONFLICT:
        return done
    existing = store.get(put.table, put.key)
    if existing is None or is_repeat(put.item, existing):
        return Transacted.DONE if existing is not None else Transacted.CONFLICT
    return store.transact(make_successors(put, existing), entry)


def _add_next_version(store: EventStore, put: Put, existing: Item, written: Written) -> None:
    """Add a version to an event that exists. If the put fails, add it to ``written``."""
    if existing and is_repeat(put.item, existing):
        return
    try:
        if existing and store.transact(make_successors(put, existing), total=written) is Transacted.DONE:
            return
    except TableMissing:
        written.missing_tables.add(put.table)
    except CollectionFull:
        written.full.add((put.table, put.item["pk"]))
    except PutRefused as error:
        written.refused[put.slot] = str(error)
    except StoreUnavailable as error:
        # The versions may be written; then the next attempt finds a repeat.
        written.troubles[put.table] = str(error)
    written.unwritten.append(put)


def is_repeat(item: Item, existing: Item) -> bool:
    """True if a version equals the existing version, or a remembered earlier version."""
    digest = item["digest"]
    past = existing.get("past", "")
    return digest == existing.get("digest") or digest in {
        past[at : at + _DIGITS] for at in range(0, len(past), _DIGITS)
    }


def make_successors(put: Put, existing: Item) -> list[Guarded]:
    """Return two puts: for the event's newest version, and for the version that moves behind it.

    The version of ``put`` moves behind if it was accepted earlier than the existing version.
    """
    count = int(existing["version"])
    older = put.item["at"] < existing["at"]
    newest, other = (existing, put.item) if older else (put.item, existing)
    past = (other["digest"] + existing.get("past", ""))[: _REMEMBERED * _DIGITS]
    # Only the newest version is in the indexes.
    earlier = {name: value for name, value in other.items() if name != "past" and not name.startswith(ATTRIBUTES)}
    earlier |= {"sk": f"v{count}#{put.key.shared.sk}", "version": count}
    return [
        Guarded(Put(put.table, {**newest, "version": count + 1, "past": past}), count),
        Guarded(Put(put.table, earlier)),
    ]


def _split_turns(puts: Iterable[Put]) -> list[list[Put]]:
    """Split the puts into turns. A turn has at most one put per place; the puts of a place keep their order."""
    turns: list[list[Put]] = []
    counts = Counter[tuple[str, str, str]]()
    for put in puts:
        turn = counts[put.place]
        counts[put.place] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(put)
    return turns
