"""The body of a pack: its events as columns. The same events always make the same bytes.

A body is MessagePack, an array of the fields of ``PackBody`` in their order. Times are text; their common beginning and
end are stored once. The fields of data are columns of JSON, a line per value. docs/decisions/0050 has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from tidetable.errors import TidetableError
from tidetable.events import JsonObject
from tidetable.exact_json import canonical_lines
from tidetable.packs.ids import DERIVE, DIGITS, HEXADECIMAL, QUOTE, TEXT, UUIDS, format_uuid, pack_ids
from tidetable.packs.numbers import settle_lines
from tidetable.times import TEXT_LENGTH

# Bodies of the format 1 have no ``zeros``.
FORMATS = (1, 2)
FORMAT = FORMATS[-1]
# If events have more shapes (sets of field names) than this, they are kept as rows.
_MOST_SHAPES = 8
_ENDS = ("000000Z", "000Z")
# A byte counts the zeros of a number.
_MOST_ZEROS = 255


class DamagedPack(TidetableError):
    """The body of a pack cannot be read."""


class PackColumns(NamedTuple):
    """Events as columns, in the order of their places: the time as text, the series, the id, and canonical JSON of the
    data.

    ``ats`` has the time when each event was accepted, in epoch milliseconds; it is None if all were accepted at the
    same time.
    """

    times: Sequence[str]
    series: Sequence[str]
    ids: Sequence[str]
    texts: Sequence[str]
    ats: Sequence[int] | None = None


class PackBody(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The fields of a body. ``shapes`` are lists of the field names of events, None for events that are kept as rows.

    ``columns`` are in the order of the shapes and of their names. ``zeros`` are empty, or as many: how many zeros each
    number of a column was sent with at the end of its fraction, a byte per line. Only derived ids need them.
    """

    before: str
    times: str
    after: str
    series: list[str]
    which_series: list[int]
    ids: int
    id_bytes: bytes
    id_texts: list[str]
    others: list[int]
    shapes: list[list[str] | None]
    which_shape: list[int]
    columns: list[bytes]
    ats: list[int]
    zeros: list[bytes] = []


_ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(PackBody).decode


def encode_body(
    times: Sequence[str],
    series: Sequence[str],
    ids: Sequence[str],
    datas: Sequence[JsonObject],
    ats: Sequence[int] | None = None,
    *,
    fields: Mapping[str, Sequence[Any]] | None = None,
) -> bytes:
    """Encode events as the body of a pack. The times are in order, as ``times.to_text`` writes them.

    ``fields`` are the fields of a batch, if it has them.
    """
    count = len(times)
    names = sorted(set(series))
    numbers = {name: number for number, name in enumerate(names)}
    after = next((end for end in _ENDS if all(map(str.endswith, times, repeat(end)))), "Z")
    before = _find_common_start(times[0][: TEXT_LENGTH - len(after)], times[-1])
    if fields is None:
        shapes, shape_numbers = _find_shapes(datas)
        lists = _list_columns(shapes, shape_numbers, datas)
    else:
        shapes, shape_numbers, lists = [sorted(fields)], [], [values for _, values in sorted(fields.items())]
    sent = list(map(canonical_lines, lists))
    settled = [
        settle_lines(text, values, usual=fields is not None)[:-1] for text, values in zip(sent, lists, strict=True)
    ]
    zeros: list[bytes] = []

    def write_sent() -> list[str]:
        zeros.extend(map(_count_zeros, settled, [text[:-1] for text in sent]))
        return decode_texts(shapes, shape_numbers, list(map(_write_zeros, settled, zeros)), count)

    kind, id_bytes, id_texts, others = pack_ids(times, series, ids, write_sent)
    return _ENCODE(
        PackBody(
            before,
            "\n".join(map(itemgetter(slice(len(before), TEXT_LENGTH - len(after))), times)),
            after,
            names,
            [] if len(names) == 1 else list(map(numbers.__getitem__, series)),
            kind,
            id_bytes,
            id_texts,
            others,
            shapes,
            shape_numbers,
            settled,
            [] if ats is None else list(ats),
            zeros if kind in DERIVE and any(zeros) else [],
        )
    )


def decode_body(body: bytes, format: int = FORMAT) -> PackColumns:
    """Decode the events of a body that ``encode_body`` wrote; DamagedPack for any other bytes."""
    if format not in FORMATS:
        raise DamagedPack(
            f"it is of the format {format}, this reads the format {FORMAT}; deploy the version that wrote it"
        )
    try:
        decoded = DECODE(body)
        times = read_times(decoded)
        count = len(times)
        series_numbers = decoded.which_series
        series = [decoded.series[number] for number in series_numbers] if series_numbers else decoded.series * count
        texts = decode_texts(decoded.shapes, decoded.which_shape, decoded.columns, count)
        ids = unpack_ids(decoded, times, series, texts)
    except (msgspec.DecodeError, ValueError, IndexError, TypeError, StopIteration) as error:
        raise DamagedPack(f"its body cannot be read: {error}") from error
    columns = PackColumns(times, series, ids, texts, decoded.ats or None)
    if any(len(column) != count for column in columns if column is not None):
        raise DamagedPack("its columns differ in length")
    return columns


def read_times(body: PackBody) -> list[str]:
    """Return the times of a body's events, with their common beginning and end."""
    # They are put between the times of all events at once.
    between = f"{body.after}\n{body.before}"
    times = body.times.replace("\n", between)
    return f"{body.before}{times}{body.after}".split("\n")


def _list_columns(
    shapes: Sequence[Sequence[str] | None], shape_numbers: Sequence[int], datas: Sequence[JsonObject]
) -> list[Sequence[Any]]:
    """List the values of each shape's fields, or its rows."""
    lists: list[Sequence[Any]] = []
    for number, shape in enumerate(shapes):
        rows = list(compress(datas, map(number.__eq__, shape_numbers))) if shape_numbers else datas
        lists += [rows] if shape is None else [[row[name] for row in rows] for name in shape]
    return lists


def _count_zeros(column: bytes, sent: bytes) -> bytes:
    """Count the zeros that each number of a column was sent with at the end of its fraction; empty if it has none."""
    if column == sent:
        return b""
    zeros = bytearray()
    for line, text in zip(column.split(b"\n"), sent.split(b"\n"), strict=True):
        count = len(text) - len(line) - (b"." not in line)
        zeros.append(count if 0 < count <= _MOST_ZEROS and _add_zeros(line, count) == text else 0)
    return bytes(zeros) if any(zeros) else b""


def _write_zeros(column: bytes, zeros: bytes) -> bytes:
    """Write the zeros at the end of the numbers of a column again."""
    if not zeros:
        return column
    lines = zip(column.split(b"\n"), zeros, strict=True)
    return b"\n".join([_add_zeros(line, count) if count else line for line, count in lines])


def _add_zeros(line: bytes, count: int) -> bytes:
    return line + (b"0" if b"." in line else b".0") + b"0" * (count - 1)


def _find_common_start(first: str, last: str) -> str:
    """Find the common beginning of two texts. In a sorted list, all texts between them begin in the same way."""
    length = next(
        (position for position, (character, other) in enumerate(zip(first, last, strict=False)) if character != other),
        len(first),
    )
    return first[:length]


def _find_shapes(datas: Sequence[JsonObject]) -> tuple[list[list[str] | None], list[int]]:
    """Find the shapes of events, and the number of each event's shape.

    A shape is a sorted list of field names, or None for rows. If all events have one shape, the list of numbers is
    empty.
    """
    orders = {names: sorted(names) for names in set(map(tuple, datas))}
    shapes: list[list[str] | None] = []
    for shape in sorted(orders.values()):
        if not shapes or shapes[-1] != shape:
            shapes.append(shape)
    if len(shapes) == 1:
        return shapes, []
    if len(shapes) > min(_MOST_SHAPES, len(datas) // 2):
        return [None], []
    numbers = {names: shapes.index(order) for names, order in orders.items()}
    return shapes, [numbers[names] for names in map(tuple, datas)]


def split_lines(column: bytes) -> list[str]:
    """Split a column into its values, each as JSON."""
    return column.decode().split("\n")


def decode_texts(
    shapes: Sequence[Sequence[str] | None],
    shape_numbers: Sequence[int],
    columns: Sequence[bytes],
    count: int,
    split: Callable[[bytes], Sequence[str]] = split_lines,
    around: str = "{%s}",
) -> list[str]:
    """Decode the JSON of each event's data: the values that ``split`` returns for each column, with ``around`` around."""
    each_column = iter(columns)
    rows = [
        _decode_rows(shape, each_column, shape_numbers.count(number) if shape_numbers else count, split, around)
        for number, shape in enumerate(shapes)
    ]
    if not shape_numbers:
        return list(rows[0])
    following = [iter(shape_rows) for shape_rows in rows]
    return [next(following[number]) for number in shape_numbers]


def _decode_rows(
    shape: Sequence[str] | None,
    columns: Iterator[bytes],
    count: int,
    split: Callable[[bytes], Sequence[str]],
    around: str,
) -> Sequence[str]:
    """Decode the JSON of the events of one shape."""
    if shape is None:
        return split(next(columns))
    if not shape:
        return [around % ""] * count
    values = [split(next(columns)) for _ in shape]
    if len(set(map(len, values))) > 1:
        raise ValueError("its columns differ in length")
    before, after = around.split("%s")
    parts: list[Iterable[str]] = []
    for name, column in zip(shape, values, strict=True):
        parts += [repeat(f"{before}{QUOTE(name).decode()}:"), column]
        before = ","
    return list(map("".join, zip(*parts, repeat(after), strict=False)))


def unpack_ids(body: PackBody, times: Sequence[str], series: Sequence[str], texts: Sequence[str]) -> list[str]:
    if body.zeros:
        written = [_write_zeros(*column) for column in zip(body.columns, body.zeros, strict=True)]
        texts = decode_texts(body.shapes, body.which_shape, written, len(times))
    if body.ids == TEXT:
        return body.id_texts
    together = body.id_bytes.hex()
    digits = [together[start : start + DIGITS] for start in range(0, len(together), DIGITS)]
    if body.ids in DERIVE:
        ids = list(map(DERIVE[body.ids], series, times, texts))
        for number, id in zip(body.others, digits, strict=True):
            ids[number] = id
        return ids
    if body.ids == UUIDS:
        return list(map(format_uuid, digits))
    if body.ids == HEXADECIMAL:
        return digits
    raise ValueError(f"ids of the unknown kind {body.ids}")
