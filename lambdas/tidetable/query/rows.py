"""Rows: events on their way to an answer, and their JSON.

Plain events come as columns, their data as JSON text, and are put together without a step of Python for each. Any other event
is a ``Row``, whose text is made when it is first needed. Both become JSON in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, repeat
from json.encoder import encode_basestring as quote_name
from typing import Any

import msgspec

from tidetable.catalog import Entry
from tidetable.events import Event, Item
from tidetable.exact import decode_json, encode_json
from tidetable.keys import encode_ref_head, encode_ref_tails, is_plain
from tidetable.keys.layout import NEWEST
from tidetable.large.forms import strip_version
from tidetable.large.whole import is_partial, measure_outside
from tidetable.ports import Columns, Version
from tidetable.query.model import Position, Projection
from tidetable.times import from_micros, from_text, to_text

# What an event takes in an answer besides its data and its names.
_FRAME_BYTES = 400
# An event's pieces: what stands before it, then its values with what stands between them, up to the end of its ref.
_PIECES = 10
_FIRST, _NEXT, _END = '{"series":"', '"},{"series":"', '"}'


class Row(msgspec.Struct, gc=False):
    """An event that is more than a plain one, or of which only some fields are shown.

    ``partial`` rows have data elsewhere, ``incomplete`` rows have lost some. ``earlier`` are the event's earlier versions,
    latest first, but for the oldest that were ``left_out`` because no answer holds them all. ``json`` is the text of the data
    that is shown, once it was needed.
    """

    entry: Entry
    item: Item
    version: Version | None = None
    earlier: tuple[Row, ...] = ()
    partial: bool = False
    incomplete: bool = False
    left_out: int = 0
    json: str | None = None

    @classmethod
    def of(cls, item: Item, entry: Entry, projection: Projection) -> Row:
        """The row of an item of a period table."""
        version = read_version(item) if entry.layout.versioned and projection.versions else None
        return cls(entry, item, version, partial=is_partial(item, cold=projection.wants_cold))

    @property
    def sk(self) -> str:
        """The sort key of the event's newest version."""
        sk: str = self.item["sk"]
        return NEWEST + strip_version(sk) if self.entry.layout.versioned else sk

    @property
    def names(self) -> tuple[str, str, str]:
        """The text of its time, its series and its id."""
        return self.entry.layout.names_of(self.item)

    def text(self, projection: Projection) -> str:
        """The data that is shown, as JSON."""
        if self.json is None:
            self.json = encode_json(projection.show(self.item.get("data", {}))).decode()
        return self.json

    def complete(self, item: Item, *, incomplete: bool) -> None:
        """Take the item with all of its data; ``incomplete`` says that some of it is missing."""
        self.item, self.partial, self.incomplete, self.json = item, False, incomplete, None

    def size(self, projection: Projection) -> int:
        """How many bytes it takes in an answer, at the most, with its earlier versions."""
        return self.measure_own_size(projection) + sum(row.measure_own_size(projection) for row in self.earlier)

    def measure_own_size(self, projection: Projection) -> int:
        """How many bytes it takes without its earlier versions; names are there twice, once within the ref."""
        outside = measure_outside(self.item, cold=projection.wants_cold) if self.partial else 0
        _, series, id = self.names
        names = count_escaped_bytes(series) + count_escaped_bytes(id)
        # Of what is elsewhere only the length is known: every character of it may be a quote.
        return count_escaped_bytes(self.text(projection)) + 2 * outside + 3 * names + _FRAME_BYTES

    def cut_earlier(self, projection: Projection, maximum: int) -> None:
        """Leave out the oldest versions until the others fit into so many bytes."""
        sizes = accumulate(
            [self.measure_own_size(projection), *(row.measure_own_size(projection) for row in self.earlier)]
        )
        count = max(sum(size <= maximum for size in sizes) - 1, 0)
        self.left_out += len(self.earlier) - count
        self.earlier = self.earlier[:count]

    def members(self) -> str:
        """The members of its JSON that plain events do not have, each with a comma before it."""
        members: dict[str, Any] = {}
        if self.version is not None:
            accepted = to_text(from_micros(self.version.at * 1000))
            members |= {"version": self.version.number, "newest": self.version.newest, "accepted": accepted}
        if self.incomplete:
            members["incomplete"] = True
        if self.left_out:
            members["versions_left_out"] = self.left_out
        return f",{encode_json(members).decode()[1:-1]}" if members else ""


def read_version(item: Item) -> Version:
    """Which version of its event an item is, in a table that keeps them."""
    return Version(int(item.get("version", 1)), int(item.get("at", 0)), newest=item["sk"].startswith("v0#"))


class Rows(msgspec.Struct):
    """Events of a period in order, as columns; ``contents`` are all JSON text (of plain events), or all rows."""

    entry: Entry
    projection: Projection
    pks: Sequence[str]
    sks: Sequence[str]
    contents: Sequence[str] | Sequence[Row]
    _texts: EventTexts | None = None

    @classmethod
    def of(cls, columns: Columns, entry: Entry, projection: Projection) -> Rows:
        """The rows of events whose contents are all text, or all items."""
        contents: Any = columns.contents
        if contents and not isinstance(contents[0], str):
            return cls.of_rows([Row.of(item, entry, projection) for item in contents], entry, projection)
        return cls(entry, projection, columns.pks, columns.sks, contents)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], entry: Entry, projection: Projection) -> Rows:
        return cls(entry, projection, [row.item["pk"] for row in rows], [row.sk for row in rows], rows)

    def __len__(self) -> int:
        return len(self.sks)

    @property
    def rows(self) -> Sequence[Row]:
        """The events that are rows, none if they are plain."""
        return () if self.plain else self.contents  # type: ignore[return-value]

    @property
    def plain(self) -> bool:
        return bool(self.contents) and isinstance(self.contents[0], str)

    @property
    def counts(self) -> Sequence[int]:
        """How many events each of them is, with its earlier versions."""
        return [1] * len(self) if self.plain else [1 + len(row.earlier) for row in self.rows]

    @property
    def count(self) -> int:
        """How many events there are, each earlier version counted."""
        return len(self) if self.plain else sum(self.counts)

    def first(self, number: int) -> Rows:
        """So many of them, from the first on."""
        if number >= len(self):
            return self
        contents: Any = self.contents[:number]
        return Rows(self.entry, self.projection, self.pks[:number], self.sks[:number], contents)

    def take_first(self, count: int) -> Rows:
        """As many of them as are at most so many events, none parted from its earlier versions."""
        return self.first(count if self.plain else sum(total <= count for total in accumulate(self.counts)))

    def position(self, index: int) -> Position:
        time, series, id = self.entry.layout.names(self.pks[index], self.sks[index])
        return Position(from_text(time), series, id)

    def size(self) -> int:
        """How many bytes they take in an answer, at the most."""
        return count_escaped_bytes(self.texts.joined) if self.plain else sum(self.sizes())

    def sizes(self) -> list[int]:
        """How many bytes each of them takes in an answer, at the most."""
        if self.plain:
            return [count_escaped_bytes(text) + 1 for text in self.texts.split_pieces()]
        return [row.size(self.projection) for row in self.rows]

    @property
    def texts(self) -> EventTexts:
        """Their JSON, each event's newest version before its earlier ones. Rows must be complete."""
        if self._texts is None:
            self._texts = self._make_texts()
        return self._texts

    def _make_texts(self) -> EventTexts:
        if self.plain or not self.contents:
            return EventTexts(_make_pieces(self.entry, self.pks, self.sks, self.contents), {})  # type: ignore[arg-type]
        rows = [version for row in self.rows for version in (row, *row.earlier)]
        pks, sks = [row.item["pk"] for row in rows], [row.sk for row in rows]
        texts = [row.text(self.projection) for row in rows]
        members = {number: more for number, row in enumerate(rows) if (more := row.members())}
        return EventTexts(_make_pieces(self.entry, pks, sks, texts), members)


class EventTexts(msgspec.Struct):
    """The JSON of events, in pieces; ``members`` are what some of them have after their refs, by their numbers."""

    pieces: list[str]
    members: Mapping[int, str]
    _joined: str | None = None

    @property
    def joined(self) -> str:
        if self._joined is None and self.members:
            self._joined = ",".join(self.split_pieces())
        elif self._joined is None:
            self._joined = "".join([_FIRST, *self.pieces[1:], _END]) if self.pieces else ""
        return self._joined

    def split_pieces(self) -> list[str]:
        pieces, members = self.pieces, self.members
        return [
            "".join([_FIRST, *pieces[start + 1 : start + _PIECES], '"', members.get(start // _PIECES, ""), "}"])
            for start in range(0, len(pieces), _PIECES)
        ]


def _make_pieces(entry: Entry, pks: Sequence[str], sks: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The texts that make events' JSON, one after the other, but for the end of the last.

    Nothing of it is done for each event by Python itself: columns are set side by side.
    """
    layout, count = entry.layout, len(sks)
    heads = {pk: f',"ref":"{encode_ref_head(entry.stream, entry.period.label, pk)}' for pk in set(pks)}
    # Most keys say their names as they are, and most names are JSON as they are: that is looked at for all at once.
    whole = "#".join(sks)
    keys_plain = is_plain(whole)
    pieces = ["]"] * (_PIECES * count)
    if layout.partition_by == "time" and not layout.versioned and "%" not in whole:
        names = whole.split("#") if count else []
        times, series, ids = names[0::3], names[1::3], names[2::3]
    else:
        named = list(map(layout.names, pks, sks))
        times, series, ids = ([name[column] for name in named] for column in range(3))
    if not (keys_plain and is_plain("".join(heads))):
        series, ids = [[quote_name(name)[1:-1] for name in names] for names in (series, ids)]
    pieces[0::_PIECES] = [_NEXT] * count
    pieces[1::_PIECES] = series
    pieces[2::_PIECES] = ['","time":"'] * count
    pieces[3::_PIECES] = times
    pieces[4::_PIECES] = ['","id":"'] * count
    pieces[5::_PIECES] = ids
    pieces[6::_PIECES] = ['","data":'] * count
    pieces[7::_PIECES] = texts
    pieces[8::_PIECES] = map(heads.__getitem__, pks)
    pieces[9::_PIECES] = encode_ref_tails(sks, plain=keys_plain and whole.isascii())
    return pieces


def count_escaped_bytes(text: str) -> int:
    """What text takes in an answer: on the way to the gateway it is escaped once more."""
    size = (len(text) if text.isascii() else len(text.encode())) + text.count('"')
    return size + text.count("\\") if "\\" in text else size


def make_archive_rows(events: Sequence[Event], versions: Sequence[Version] | None, entry: Entry) -> list[Row]:
    """The rows of a page of an archive, in which an event's newest version comes before its earlier ones."""
    groups: list[list[Row]] = []
    for event, version in zip(events, versions or repeat(None), strict=False):
        pk, sk = entry.layout.make_key(event)
        row = Row(entry, {"pk": pk, "sk": sk, "data": event.data}, version)
        if not groups or version is None or version.newest:
            groups.append([row])
        else:
            groups[-1].append(row)
    for newest, *earlier in groups:
        newest.earlier = tuple(earlier)
        # Versions are counted from 1 without a hole: what a page of the archive had no room for is the oldest.
        oldest = (earlier or [newest])[-1].version
        newest.left_out = 0 if oldest is None else oldest.number - 1
    return [group[0] for group in groups]


def show_rows(rows: Sequence[Row], projection: Projection) -> list[dict[str, Any]]:
    """Rows as the API shows them; each event's newest version, then its earlier ones."""
    return [
        decode_json(text) for row in rows for text in Rows.of_rows([row], row.entry, projection).texts.split_pieces()
    ]
