"""Write waiting events into a table that may be archived at any moment: in transactions with the state of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tidetable.catalog import Entry
from tidetable.catalog_steps import read_entry
from tidetable.errors import CollectionFull, Outage, PutRefused, StoreUnavailable, TableMissing
from tidetable.event_writing import Writer
from tidetable.groups import group_by_size
from tidetable.ingest.fates import Fates, explain_troubles
from tidetable.ingest.puts import needs_own_transaction, write_fenced
from tidetable.large.outside import write_outside
from tidetable.ports import CatalogReader, Guarded, Put, Transacted
from tidetable.values import count_item_bytes

# AWS: a transaction takes 100 actions and 4 MB.
_TOGETHER, _TOGETHER_BYTES = 25, 3_000_000


@dataclass(frozen=True, slots=True)
class FencedWriter:
    """Writes puts of one table, each only while the catalog says that the table is writable."""

    entry: Entry
    catalog: CatalogReader
    writer: Writer
    fates: Fates

    def write(self, puts: Sequence[Put]) -> None:
        """Write puts, and note the fate of those that are not written. After the archive has begun, none is written.

        If DynamoDB refuses a transaction, what was written before stays written, and only the other puts wait.
        """
        stream, taken, left = self.entry.stream, 0, list(puts)
        batches = group_by_size(puts, lambda put: count_item_bytes(put.item), _TOGETHER_BYTES, _TOGETHER)
        for batch in batches if self.entry.writable else ():
            left = left[len(batch) :]
            parts = [self._write_outside(batch)]
            while parts:
                part = parts.pop()
                try:
                    fenced = self._transact(part)
                except (StoreUnavailable, TableMissing) as error:
                    if len(part) > 1 and isinstance(error, StoreUnavailable) and error.cause is Outage.THROTTLED:
                        # A table saves the units of five minutes at most: a table with few units never has those of a large
                        # transaction.
                        middle = len(part) // 2
                        parts += [part[middle:], part[:middle]]
                        continue
                    self.fates.wait_puts([*part, *chain(*reversed(parts)), *left], str(error), is_blocked=not taken)
                    return
                rest = [*fenced, *chain(*reversed(parts)), *left]
                if fenced:
                    self._judge_fenced(rest)
                    return
                taken += len(part)
                if rest and self.writer.remaining() < 0:
                    text = f"{len(rest)} items of {stream} are still to be written: the time was up"
                    self.fates.wait_puts(rest, text, is_blocked=False)
                    return
        if left:
            self._judge_fenced(left)

    def _write_outside(self, batch: Sequence[Put]) -> list[Put]:
        """Write the data that lies outside of items; return the puts whose data is complete."""
        ready, outside = write_outside(self.writer, batch)
        self.fates.refused |= outside.refused
        late = [put for put in outside.unwritten if put.slot not in outside.refused]
        why = explain_troubles(outside)
        self.fates.wait_puts(late, f"the data of a large event of {self.entry.stream} is not written yet{why}")
        return list(ready)

    def _judge_fenced(self, puts: Sequence[Put]) -> None:
        """Note the fate of puts that the state of the table refuses."""
        entry = self.entry
        period = f"period {entry.period.label} of {entry.stream} is"
        present = (read_entry(self.catalog, entry.stream, entry.period) if entry.writable else None) or entry
        if present.writable and (present.state, present.segments) != (entry.state, entry.segments):
            # The entry was read before the transaction. The next try knows what has changed.
            self.fates.wait_puts(puts, f"{period} {present.state} since a moment ago", is_blocked=False)
        else:
            self.fates.give_up({put.slot for put in puts}, f"{period} {entry.state}: restore it, then replay")

    def _transact(self, puts: Sequence[Put]) -> Sequence[Put]:
        """Write puts in one transaction or, if that is refused because of one of them, each in its own. Return the puts
        that the fence refuses.
        """
        store = self.writer.store
        together = [Guarded(put, "newer") for put in puts if not needs_own_transaction(put)]
        if len(together) > 1:
            try:
                done = store.transact(together, self.entry)
            except (CollectionFull, PutRefused):
                done = Transacted.CONFLICT
            if done is Transacted.FENCED:
                return puts
            if done is Transacted.DONE:
                puts = [put for put in puts if needs_own_transaction(put)]
        for number, put in enumerate(puts):
            try:
                done = write_fenced(store, put, self.entry)
            except CollectionFull:
                self.fates.full.add(put.slot)
                continue
            except PutRefused as error:
                self.fates.refused[put.slot] = str(error)
                continue
            if done is Transacted.FENCED:
                return puts[number:]
            if done is Transacted.CONFLICT:
                why = f"another writer changes an event of {self.entry.stream} at the same time"
                self.fates.wait_puts([put], why)
        return []
