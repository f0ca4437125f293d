"""The packed form: many events in an item, and large events alone beside them.

Within ``span``, the unit of settling is one suffix of a logical partition if the suffix follows from the series: all
copies of an event meet there. Otherwise a pack's suffix follows from the hash of its content, and a copy of an event
may be in a pack of another suffix: then the unit is all suffixes of a logical partition. All events of a pack are less
than ``span`` older than its newest event, and the newest event is in the pack's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import compress
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from tidetable.batch import Batch, pick_values
from tidetable.events import Event, Item
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns, Flags
from tidetable.forms.form import Puts, Shrink, Source, UnitNames
from tidetable.forms.plain import PlainForm
from tidetable.layout import Layout, Packing
from tidetable.layout.pack import find_key_range, is_pack, parse_sort_key
from tidetable.ports import Compressor, Page, Put

if TYPE_CHECKING:
    from tidetable.packs.partial import PartialPack


class PackedForm:
    """Packs, and large events alone beside them."""

    name = "packed"
    together = 20_000  # more events make larger packs
    proves_new = False

    def __init__(self, layout: Layout, packing: Packing) -> None:
        self._layout = layout
        self._alone = PlainForm(replace(layout, pack=None))
        self._packing = packing
        self.span = packing.span
        of_series = layout.partition_by == "series"
        self.unit = UnitNames(series=of_series, suffix=layout.shard_by == "series" and not of_series)

    def describe(self) -> Mapping[str, Any]:
        """Return the packing."""
        return {"pack": {"span_seconds": self._packing.span, "max_bytes": self._packing.max_bytes}}

    def make_sequence(self, at: int, begun: int, number: str, hash: str = "") -> str:  # noqa: ARG002 - see Form
        """Follow the time of acceptance, then the hash: states of an event may be in several items.

        As in queries, the state that was accepted last counts, then the state in the pack with the greatest hash.
        """
        # Ten characters of the hash, two digits each, are more than enough for the packs of one millisecond.
        digits = "".join(f"{ord(character) - 32:02d}" for character in hash[:10])
        return f"{at:015d}{digits:0<20}{number:0>40}"

    def settle_source(self, source: Source, settle: Callable[[Layout], Source]) -> Source:  # noqa: ARG002 - see Form
        """Settle the events of the packs."""
        return settle(self._layout)

    def find_key_range(self, start: datetime, end: datetime) -> tuple[str, str]:
        """Return the range of the packs and of the events that are alone."""
        return find_key_range(start, end, self.span)

    def make_puts(
        self, batch: Batch, numbers: Sequence[int], table: str, compressor: Compressor, shrink: Shrink
    ) -> Puts:
        """Make packs. An event that is too large for a pack is alone."""
        # Imported only when packs are made, as in open_item.
        from tidetable.packs import pack_batch

        is_whole = len(numbers) == len(batch.times)
        columns = batch if is_whole else batch.pick(numbers)
        made = pack_batch(columns, self._layout, compressor)
        puts = [Put(table, item) for item, _, _ in made.packs]
        members = [rows if is_whole else pick_values(numbers, rows) for _, _, rows in made.packs]
        pks = [address for _, address, rows in made.packs for _ in rows]
        sks = pick_values(made.places, [row for _, _, rows in made.packs for row in rows])
        found = Puts(puts, members, pks, sks, packs={put.slot for put in puts})
        if made.alone:
            lonely = pick_values(numbers, sorted(made.alone))
            found = found.join(self._alone.make_puts(replace(batch, large=lonely), lonely, table, compressor, shrink))
        if len(found.sks) + len(found.too_large) == len(numbers):
            return found
        identities = zip(columns.series, made.places, strict=True)
        return found.add_copies(dict(zip(numbers, identities, strict=True)))

    def measure(self, event: Event, at: int) -> int:
        """Count the bytes of the event alone."""
        return self._alone.measure(event, at)

    def count_events(self, page: Page) -> int:
        """Count the events in the items of a page. DynamoDB counts packs."""
        return sum(int(item.get("n", 1)) if isinstance(item, dict) else 1 for item in page.columns.contents)


class Opened(NamedTuple):
    """The events of an item. ``hash`` is empty for an event that is alone: then ``item`` is its item.

    ``at`` is the time when the events were accepted, ``ats`` are these times if they differ.
    """

    columns: FieldColumns
    at: int
    hash: str
    ats: Sequence[int] | None = None
    item: Item | None = None

    def list_ats(self) -> Sequence[int]:
        """List the time when each event was accepted."""
        return [self.at] * len(self.columns) if self.ats is None else self.ats

    def cut(self, start: int, end: int) -> Opened:
        """Return the events from ``start`` up to ``end``."""
        ats = None if self.ats is None else self.ats[start:end]
        return self._replace(columns=self.columns.cut(start, end), ats=ats)

    def where(self, flags: Flags) -> Opened:
        """Return the events whose flag is true."""
        ats = None if self.ats is None else list(compress(self.ats, flags))
        return self._replace(columns=self.columns.where(flags), ats=ats)


# Returns the data of a pack's events as texts. Raises ValueError for a damaged column.
Render = Callable[["PartialPack"], Sequence[str]]


def render_json(pack: PartialPack) -> Sequence[str]:
    return pack.texts


def open_item(
    item: Item,
    fields: Sequence[str],
    layout: Layout,
    compressor: Compressor,
    series: Sequence[str] = (),
    render: Render = render_json,
) -> Opened | None:
    """Open an item as columns of these fields; None for a damaged pack. Whole data is as ``render`` returns it.

    With ``series``, a pack without events of these series has none.
    """
    from tidetable.packs import DamagedPack  # imported only for packs, as most cold starts do not need it
    from tidetable.packs.partial import PartialPack

    at = int(item.get("at", 0))
    if not is_pack(item):
        time, series, id = layout.parse_names(item["pk"], item["sk"])
        return Opened(FieldColumns([time], [series], {}, lambda: [id]), at, "", item=item)
    name = parse_sort_key(item["sk"])
    if name is None:
        return None
    try:
        pack = PartialPack(compressor.expand(bytes(item["pack"])), int(item.get("format", 0)))
        if series and not pack.has_any(series):
            return Opened(FieldColumns([], [], {path: [] for path in fields}, list), at, name.hash)
        if KINDS in fields and not pack.has_columns:
            fields = (DATA,)
        read = {DATA: render, KINDS: PartialPack.list_kinds}
        values = {path: read[path](pack) if path in read else pack.read_field(path) for path in fields}
    except (DamagedPack, ValueError):
        return None
    return Opened(FieldColumns(pack.times, pack.series, values, lambda: pack.ids), at, name.hash, pack.ats)


def settle(opened: Sequence[Opened]) -> list[Opened]:
    """Return the events of a unit, each once: in the copy that was accepted last; if several were accepted at the same
    time, in the copy of the pack with the greatest hash.
    """
    settled = list(opened)
    for cluster in _find_clusters(opened):
        if len(cluster) > 1:
            _settle_cluster(settled, cluster)
    return settled


def _find_clusters(opened: Sequence[Opened]) -> Iterator[list[int]]:
    """Find the items whose times overlap. Only they can have copies of one event."""

    def find_start(number: int) -> str:
        return opened[number].columns.times[0]

    order = sorted((number for number in range(len(opened)) if opened[number].columns.times), key=find_start)
    cluster: list[int] = []
    last = ""
    for number in order:
        times = opened[number].columns.times
        if cluster and times[0] > last:
            yield cluster
            cluster = []
        cluster.append(number)
        last = max(last, times[-1])
    yield cluster


def _settle_cluster(opened: list[Opened], cluster: Sequence[int]) -> None:
    # Times and series are at hand; ids may cost a hash each. So ids are compared only where two items have an event of
    # the same time and series.
    marks = {number: list(map(add, opened[number].columns.times, opened[number].columns.series)) for number in cluster}
    seen: set[str] = set()
    doubtful: set[str] = set()
    for of_item in marks.values():
        own = set(of_item)
        doubtful |= own & seen
        seen |= own
    if not doubtful:
        return
    best: dict[tuple[str, str], tuple[int, str, int, int]] = {}
    lost: dict[int, set[int]] = {}
    for number, of_item in marks.items():
        item = opened[number]
        for place, mark in enumerate(of_item):
            if mark not in doubtful:
                continue
            identity = mark, item.columns.ids[place]
            copy = item.at if item.ats is None else item.ats[place], item.hash, number, place
            loser = copy
            if identity not in best or best[identity] < copy:
                loser, best[identity] = best.get(identity, copy), copy
            if loser != best[identity]:
                lost.setdefault(loser[2], set()).add(loser[3])
    for number, places in lost.items():
        flags: Flags = [place not in places for place in range(len(marks[number]))]
        opened[number] = opened[number].where(flags)
