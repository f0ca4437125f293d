"""Plain events on their way to an answer's JSON: all at once, column by column, as text from end to end."""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring as quoted

from tidetable.catalog import Entry
from tidetable.keys import is_plain, ref_head, ref_tails
from tidetable.ports import Plain
from tidetable.query.cursor import Position
from tidetable.times import from_text

# An event's pieces: what stands before it, then its values with what stands between them, up to the end of its ref.
_PIECES = 10
_FIRST, _NEXT, _END = '{"series":"', '"},{"series":"', '"}'


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Plain events, in order."""

    entry: Entry
    plain: Plain

    def __len__(self) -> int:
        return len(self.plain.sks)

    def first(self, count: int) -> PlainRows:
        """So many of them, from the first on."""
        pks, sks, texts = self.plain
        return self if count >= len(sks) else PlainRows(self.entry, Plain(pks[:count], sks[:count], texts[:count]))

    def position(self, index: int) -> Position:
        """The place of an event in the order of events."""
        time, series, id = self.entry.layout.names(self.plain.pks[index], self.plain.sks[index])
        return Position(from_text(time), series, id)

    def pieces(self, stream: str) -> list[str]:
        """The texts that make the events' JSON, one after the other, but for the end of the last.

        Nothing of it is done for each event by Python itself: columns are set side by side.
        """
        pks, sks, texts = self.plain
        layout, count = self.entry.layout, len(sks)
        heads = {pk: f',"ref":"{ref_head(stream, self.entry.period.label, pk)}' for pk in set(pks)}
        # Most keys say their names as they are, and most names are JSON as they are: that is looked at for all at once.
        whole = "#".join(sks)
        keys_plain = is_plain(whole)
        pieces = ["]"] * (_PIECES * count)
        if layout.partition_by == "time" and not layout.versioned and "%" not in whole:
            names = whole.split("#") if count else []
            times, series, ids = names[0::3], names[1::3], names[2::3]
        else:
            times, series, ids = [list(column) for column in zip(*map(layout.names, pks, sks), strict=True)] or [
                [],
                [],
                [],
            ]
        if not (keys_plain and is_plain("".join(heads))):
            series, ids = [[quoted(name)[1:-1] for name in names] for names in (series, ids)]
        pieces[0::_PIECES] = [_NEXT] * count
        pieces[1::_PIECES] = series
        pieces[2::_PIECES] = ['","time":"'] * count
        pieces[3::_PIECES] = times
        pieces[4::_PIECES] = ['","id":"'] * count
        pieces[5::_PIECES] = ids
        pieces[6::_PIECES] = ['","data":'] * count
        pieces[7::_PIECES] = texts
        pieces[8::_PIECES] = map(heads.__getitem__, pks)
        pieces[9::_PIECES] = ref_tails(sks, plain=keys_plain and whole.isascii())
        return pieces


def joined(pieces: list[str]) -> str:
    """The JSON of events with commas between them, from their pieces."""
    return "".join([_FIRST, *pieces[1:], _END]) if pieces else ""


def parted(pieces: list[str]) -> list[str]:
    """The JSON of each event, from the pieces of all."""
    return ["".join([_FIRST, *pieces[start + 1 : start + _PIECES], _END]) for start in range(0, len(pieces), _PIECES)]


def cut(pieces: list[str], count: int) -> list[str]:
    """The pieces of so many events, from the first on."""
    return pieces[: _PIECES * count]
