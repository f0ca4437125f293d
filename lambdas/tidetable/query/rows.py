"""Rows: the events of an answer, before they become JSON text.

Plain events come as columns, with their data as JSON text. Their JSON is put together for all of them at once, without
a loop of Python over the events. Any other event is a ``Row``: its text is made when it is first needed. Both have the
same JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from json.encoder import encode_basestring as quote_name
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.exact_json import decode_json, encode_json
from tidetable.layout import encode_ref_head, encode_ref_tails, is_plain
from tidetable.ports import EventVersion
from tidetable.query.model import EVERYTHING, Position, Projection
from tidetable.times import from_micros, from_text, to_text

# The bytes that an event takes in an answer in addition to its data and its names.
_FRAME_BYTES = 400
# The number of an event's pieces: the text before the event, then its values and the texts between them, up to the end
# of its ref. One more piece is the text after the last event.
_PIECES = 10
_START = '{"series":"'
# The bytes around the values of a plain event in an answer: 49 characters, of which 18 are quotes, and the frame of a
# sort key in a ref, which is rounded up to whole groups of Base64.
_PLAIN_FRAME_BYTES = 49 + 18 + 8


class _JoinedKeys(NamedTuple):
    """Sort keys joined by ``#``, and the heads of refs by partition key.

    The keys are ``plain`` if none of them needs an escape in JSON: this is checked for all at once.
    """

    text: str
    heads: Mapping[str, str]
    plain: bool


class Row(msgspec.Struct, gc=False):
    """An event that is not plain, or that is shown with only some of its fields.

    A ``partial`` row has data that is stored elsewhere and not read yet. An ``incomplete`` row has lost data.
    ``earlier`` are the event's earlier versions, the latest first. ``left_out`` counts the oldest versions that no
    answer can hold. ``json`` is the text of the shown data; it is made at the first use.
    """

    entry: Entry
    item: Item
    projection: Projection = EVERYTHING
    version: EventVersion | None = None
    earlier: tuple[Row, ...] = ()
    partial: bool = False
    incomplete: bool = False
    left_out: int = 0
    json: str | None = None

    @classmethod
    def of(cls, item: Item, entry: Entry, projection: Projection) -> Row:
        """Make the row of an item of a period table."""
        version = projection.read_version(item, entry.layout)
        return cls(entry, item, projection, version, partial=projection.is_partial(item))

    @property
    def sk(self) -> str:
        """The sort key of the event's newest version."""
        return self.entry.layout.name_newest(self.item["sk"])

    @property
    def names(self) -> tuple[str, str, str]:
        """The event's time as text, its series and its id."""
        return self.entry.layout.read_names(self.item)

    def write_text(self) -> str:
        """Write the shown data as JSON."""
        if self.json is None:
            self.json = encode_json(self.projection.show_data(self.item.get("data", {}))).decode()
        return self.json

    def complete(self, item: Item, *, incomplete: bool) -> None:
        """Replace the row's item by a complete one; ``incomplete`` says that some of its data is missing."""
        self.item, self.partial, self.incomplete, self.json = item, False, incomplete, None

    def measure_size(self) -> int:
        """Estimate the greatest number of bytes that the event takes in an answer, with its earlier versions."""
        return sum(row.measure_own_size() for row in (self, *self.earlier))

    def measure_own_size(self) -> int:
        """Estimate the greatest number of bytes that the event takes without its earlier versions.

        Its names count twice, because the ref contains them.
        """
        outside = self.projection.measure_outside(self.item) if self.partial else 0
        _, series, id = self.names
        names = count_escaped_bytes(series) + count_escaped_bytes(id)
        # If data is stored elsewhere, only its length is known: each of its characters may be a quote, which takes two
        # bytes.
        return count_escaped_bytes(self.write_text()) + 2 * outside + 3 * names + _FRAME_BYTES

    def write_members(self) -> str:
        """Return the members of the event's JSON that a plain event does not have, each with a comma before it."""
        members: dict[str, Any] = {}
        if self.version is not None:
            accepted = to_text(from_micros(self.version.at * 1000))
            members |= {"version": self.version.number, "newest": self.version.newest, "accepted": accepted}
        if self.incomplete:
            members["incomplete"] = True
        if self.left_out:
            members["versions_left_out"] = self.left_out
        return f",{encode_json(members).decode()[1:-1]}" if members else ""


class Rows(msgspec.Struct):
    """Plain events of a period in order, as columns; ``contents`` are their data as JSON text."""

    entry: Entry
    pks: Sequence[str]
    sks: Sequence[str]
    contents: Sequence[Any]
    _keys: _JoinedKeys | None = None
    _text: str | None = None

    @classmethod
    def of_rows(cls, rows: Sequence[Row], entry: Entry) -> Rows:
        """Make the columns of events that are not plain."""
        return _RowColumns(entry, [row.item["pk"] for row in rows], [row.sk for row in rows], rows)

    def __len__(self) -> int:
        return len(self.sks)

    @property
    def rows(self) -> Sequence[Row]:
        """The events as rows; empty if they are plain events."""
        return ()

    @property
    def counts(self) -> Sequence[int]:
        """For each event: 1 and the number of its earlier versions."""
        return [1] * len(self.sks)

    @property
    def count(self) -> int:
        """The number of events; each earlier version counts as an event."""
        return len(self.sks)

    def cut_to(self, number: int) -> Rows:
        """Return the first ``number`` events."""
        if number >= len(self.sks):
            return self
        return type(self)(self.entry, self.pks[:number], self.sks[:number], self.contents[:number])

    # The first events, at most that many with their earlier versions. An event is never separated from its versions.
    take_first = cut_to

    def make_position(self, index: int) -> Position:
        time, series, id = self.entry.layout.parse_names(self.pks[index], self.sks[index])
        return Position(from_text(time), series, id)

    def bound_size(self) -> int:
        """Return a number of bytes that all events together surely do not exceed in an answer, without writing them."""
        data, keys = "".join(self.contents), self._join_keys()
        if not (data.isascii() and keys.text.isascii() and keys.plain):
            return self.measure_size()
        # Names are in the keys. A ref has a head and, in Base64, the sort key with its frame.
        heads = max(map(len, keys.heads.values()), default=0)
        series = max(map(len, keys.heads), default=0) if self.entry.layout.partition_by == "series" else 0
        names = len(self.sks) * (_PLAIN_FRAME_BYTES + series + heads) + len(keys.text) * 7 // 3
        return names + count_escaped_bytes(data)

    def measure_size(self) -> int:
        """Return the greatest number of bytes that all events together take in an answer."""
        return count_escaped_bytes(self.join_texts())

    def measure_sizes(self) -> list[int]:
        """Return, for each event, the greatest number of bytes that it takes in an answer."""
        return [count_escaped_bytes(text) + 1 for text in self.list_texts()]

    def list_texts(self) -> list[str]:
        """Return the events as JSON objects, each newest version before its earlier versions. Rows must be complete."""
        pieces, next_start = self.list_pieces(), "," + _START
        return [
            "".join([_START, *pieces[start + 1 : start + _PIECES], pieces[start + _PIECES].removesuffix(next_start)])
            for start in range(0, len(pieces) - 1, _PIECES)
        ]

    def join_texts(self) -> str:
        """Return the objects of ``list_texts``, with commas between them, as one text, which is made once."""
        if self._text is None:
            self._text = "".join(self.list_pieces())
        return self._text

    def list_pieces(self) -> list[str]:
        """Make the pieces of text that together are the JSON of the events, with commas between them.

        There is no loop of Python over the events: whole columns are assigned at once.
        """
        sks, count, keys = self.sks, len(self.sks), self._join_keys()
        if not count:
            return []
        times, series, ids = self.entry.layout.parse_columns(self.pks, sks, keys.text)
        if not keys.plain:
            series, ids = [[quote_name(name)[1:-1] for name in names] for names in (series, ids)]
        pieces = ['"},' + _START, "", '","time":"', "", '","id":"', "", '","data":', "", "", ""] * count
        pieces[0] = _START
        pieces.append('"}')
        pieces[1::_PIECES] = series
        pieces[3::_PIECES] = times
        pieces[5::_PIECES] = ids
        pieces[7::_PIECES] = self.contents
        pieces[8::_PIECES] = map(keys.heads.__getitem__, self.pks)
        pieces[9::_PIECES] = encode_ref_tails(sks, plain=keys.plain and keys.text.isascii())
        return pieces

    def _join_keys(self) -> _JoinedKeys:
        if self._keys is None:
            text, entry, label = "#".join(self.sks), self.entry, self.entry.period.label
            heads = {pk: f',"ref":"{encode_ref_head(entry.stream, label, pk)}' for pk in set(self.pks)}
            self._keys = _JoinedKeys(text, heads, is_plain(text) and is_plain("".join(heads)))
        return self._keys


class _RowColumns(Rows):
    """Events that are not plain; ``contents`` are their rows."""

    @property
    def rows(self) -> Sequence[Row]:
        return self.contents

    @property
    def counts(self) -> Sequence[int]:
        return [1 + len(row.earlier) for row in self.rows]

    @property
    def count(self) -> int:
        return sum(self.counts)

    def take_first(self, count: int) -> Rows:
        return self.cut_to(sum(total <= count for total in accumulate(self.counts)))

    def bound_size(self) -> int:
        return self.measure_size()

    def measure_size(self) -> int:
        return sum(self.measure_sizes())

    def measure_sizes(self) -> list[int]:
        return [row.measure_size() for row in self.rows]

    def list_pieces(self) -> list[str]:
        rows = [version for row in self.rows for version in (row, *row.earlier)]
        pks, sks = [row.item["pk"] for row in rows], [row.sk for row in rows]
        texts = [row.write_text() for row in rows]
        pieces = Rows(self.entry, pks, sks, texts).list_pieces()
        for number, row in enumerate(rows, 1):
            pieces[number * _PIECES] = f'"{row.write_members()}{pieces[number * _PIECES][1:]}'
        return pieces


def count_escaped_bytes(text: str) -> int:
    """Count the bytes that a text takes in an answer: Lambda escapes the text again when it sends it to the gateway."""
    size = (len(text) if text.isascii() else len(text.encode())) + text.count('"')
    return size + text.count("\\") if "\\" in text else size


def show_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Show rows in the form of the API: each event's newest version, then its earlier versions."""
    return [decode_json(text) for row in rows for text in Rows.of_rows([row], row.entry).list_texts()]
