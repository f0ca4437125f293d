"""Keys as columns: time, series, id and suffix. Every key of an item can be calculated from them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.render import concatenate, may_contain
from tidetable.errors import ArchiveFailed
from tidetable.layout import Index, Layout
from tidetable.ports import EventVersion

# The version number in the key of the newest version.
NEWEST_VERSION = 0
_TIME = 27
_TIME_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#"
# More bytes than a key has, and more than there are shards.
_LONGEST, _SHARDS = 1 << 20, 1 << 16
_VERSIONED = r"^v(?P<version>[0-9]{1,9})#(?P<rest>(?s:.*))$"
_TEXT = pa.string()
_ZONE = pa.timestamp("us", tz="UTC")


class KeyColumns:
    """The keys of a period's items, by its layout.

    A ranking's partition key is a column if its sort key is ``derived`` from the data; otherwise both keys stay among
    the other attributes. A replica has no keys of its own.
    """

    def __init__(self, layout: Layout, derived: Iterable[Index]) -> None:
        self._layout = layout
        self._indexes = tuple(index for index in layout.indexes if index.timely)
        self._ranking_pks = tuple(index.pk for index in derived if index.ranks)
        timely = {name for index in self._indexes for name in (index.pk, index.sk)}
        self.index_names = frozenset({*timely, *self._ranking_pks})

    def index_columns(self, wire: Mapping[str, pa.Array], stored: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the partition keys in indexes; ArchiveFailed for a sort key there that is not the item's own."""
        count = len(wire["pk"])
        columns = {}
        for index in self._indexes:
            pk, sk = (stored.get(name, pa.nulls(count, _TEXT)) for name in (index.pk, index.sk))
            plain = self._split(wire["pk"], wire["sk"])[1]
            expected = pc.if_else(pk.is_valid(), self._make_full_sort_key(wire["pk"], plain), pa.scalar(None, _TEXT))
            if not sk.equals(expected):
                raise ArchiveFailed(f"the table holds an item whose key in the index {index.name} is not an event's")
            columns[index.pk] = pk
        return columns | {name: stored.get(name, pa.nulls(count, _TEXT)) for name in self._ranking_pks}

    def columns(self, arrays: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the columns that replace the items' keys; ArchiveFailed for a key that they do not describe.

        All ids are in the column ``id``.
        """
        pk = arrays["pk"]
        version, sk = self._split(pk, arrays["sk"])
        _refuse_others(pc.match_substring_regex(sk, _TIME_PATTERN), pk, sk)
        # Slices of bytes cost a fraction of slices of text, and the beginning of every sort key is ASCII now.
        raw = sk.cast(pa.binary())
        texts = pc.binary_slice(raw, 0, _TIME - 1).cast(_TEXT)
        names = pc.binary_slice(raw, _TIME + 1, _LONGEST).cast(_TEXT)
        # A table has fewer partitions than items, so the partition keys' texts are processed once per partition.
        encoded = pk.dictionary_encode()
        pks, pk_numbers = encoded.dictionary, encoded.indices
        has_suffix = pc.match_substring_regex(pks, "#[0-9]{1,4}$")
        _refuse_others(has_suffix.take(pk_numbers), pk, sk)
        shards = pc.cast(pc.replace_substring_regex(pks, "(?s)^.*#", ""), pa.int16())
        try:
            time = pc.cast(pc.cast(texts, pa.timestamp("us")), _ZONE)
        except pa.ArrowInvalid as error:
            raise ArchiveFailed(f"the table holds an item that is not an event: {error}") from error
        if self._layout.partition_by == "time":
            _refuse_others(pc.match_substring(names, "#"), pk, sk)
            pairs = pc.split_pattern(names, "#", max_splits=1)
            series, id = (_unescape_names(pc.list_element(pairs, index)) for index in range(2))
        else:
            series = _unescape_names(pc.replace_substring_regex(pks, "#[0-9]+$", "")).take(pk_numbers)
            id = _unescape_names(names)
        columns = {"time": time, "series": series, "id": id, "id_hex": pa.nulls(len(id), pa.binary())}
        columns["shard"] = shards.take(pk_numbers)
        if version is not None:
            columns["version"] = version
        columns |= {name: arrays[name] for name in (*(index.pk for index in self._indexes), *self._ranking_pks)}
        if version is not None or may_contain(names, b"%") or may_contain(pks, b"%"):
            restored = self.restore(columns)
            same = pc.and_(pc.equal(restored["pk"], pk), pc.equal(restored["sk"], arrays["sk"]))
        else:
            # Without escapes, a sort key is the text of its parts; only the partition keys may be others.
            same = pc.equal(self._make_partition_keys(time.cast(pa.timestamp("us")), series, columns["shard"]), pk)
        _refuse_others(same, pk, arrays["sk"])
        return columns

    def _make_partition_keys(self, time: pa.Array, series: pa.Array, shards: pa.Array) -> pa.Array:
        """Make partition keys; ``series`` are escaped. Each different key of a bucket is rendered once."""
        if self._layout.partition_by == "series":
            return concatenate(series, shards.cast(_TEXT), separator="#")
        size = self._layout.bucket * 1_000_000
        buckets = pc.divide(time.cast(pa.int64()), size)
        encoded = pc.add(pc.multiply(buckets, _SHARDS), shards.cast(pa.int64())).dictionary_encode()
        starts = pc.divide(pc.subtract(encoded.dictionary, _mod(encoded.dictionary)), _SHARDS)
        heads = render_times(pc.multiply(starts, size).cast(pa.timestamp("us")))
        return concatenate(heads, _mod(encoded.dictionary).cast(_TEXT), separator="#").take(encoded.indices)

    def _split(self, pk: pa.Array, sk: pa.Array) -> tuple[pa.Array | None, pa.Array]:
        """Split sort keys into the version, if the layout keeps versions, and the rest."""
        if not self._layout.versioned:
            return None, sk
        match = pc.extract_regex(sk, _VERSIONED)
        _refuse_others(match.is_valid(), pk, sk)
        return pc.cast(match.field("version"), pa.int32()), match.field("rest")

    def restore(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Calculate the keys from the columns, by attribute name. Their ``id`` has every id."""
        time = columns["time"].cast(pa.timestamp("us"))
        series, id = _escape_names(columns["series"]), _escape_names(columns["id"])
        stamp = render_times(time)
        names = (series, id) if self._layout.partition_by == "time" else (id,)
        sk = concatenate(stamp, *names, separator="#")
        if self._layout.versioned:
            sk = concatenate("v", columns["version"].cast(_TEXT), "#", sk)
        keys = {"pk": self._make_partition_keys(time, series, columns["shard"]), "sk": sk}
        for index in self._indexes:
            pk = columns[index.pk]
            long = concatenate(stamp, series, id, separator="#")
            keys[index.pk] = pk
            keys[index.sk] = pc.if_else(pk.is_valid(), long, pa.scalar(None, _TEXT))
        return keys | {name: columns[name] for name in self._ranking_pks}

    def _make_full_sort_key(self, pk: pa.Array, sk: pa.Array) -> pa.Array:
        if self._layout.partition_by == "time":
            return sk
        series = pc.replace_substring_regex(pk, "#[0-9]+$", "")
        return concatenate(
            pc.utf8_slice_codeunits(sk, 0, _TIME), series, pc.utf8_slice_codeunits(sk, _TIME + 1), separator="#"
        )


def _mod(numbers: pa.Array) -> pa.Array:
    """Return the last digits of numbers that were multiplied by ``_SHARDS``."""
    return pc.bit_wise_and(numbers, _SHARDS - 1)


def render_times(time: pa.Array) -> pa.Array:
    # Arrow's cast of a timestamp to text costs a tenth of its strftime.
    return concatenate(pc.replace_substring(pc.cast(time, _TEXT), " ", "T"), "Z")


def make_places(table: pa.Table) -> pa.Array:
    """Make the texts by which events of one time are ordered: series and id, as in sort keys."""
    names = (table.column(name).combine_chunks() for name in ("series", "id"))
    return concatenate(*map(_escape_names, names), separator="#")


def _escape_names(names: pa.Array) -> pa.Array:
    if not may_contain(names, b"%#"):
        return names
    return pc.replace_substring(pc.replace_substring(names, "%", "%25"), "#", "%23")


def _unescape_names(names: pa.Array) -> pa.Array:
    if not may_contain(names, b"%"):
        return names
    return pc.replace_substring(pc.replace_substring(names, "%23", "#"), "%25", "%")


def encode_ids(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Encode ids as text or, if all ids are hexadecimal digits of one length, as bytes. Nulls stay null in both.

    Bytes have half the size of digits. zstd does not compress digits to that size.
    """
    count = len(ids)
    sizes = pc.min_max(pc.utf8_length(ids)).as_py()
    length = sizes["min"] or 0
    if length != sizes["max"] or length < 16 or length % 2:
        return ids, pa.nulls(count, pa.binary())
    kept = ids.drop_null()
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(kept)], kept), "")[0].as_py()
    try:
        raw = bytes.fromhex(joined)
    except ValueError:
        raw = b""
    if raw.hex() != joined:
        return ids, pa.nulls(count, pa.binary())
    encoded = _cut_texts(raw, length // 2, len(kept), pa.binary())
    if ids.null_count:
        encoded = pc.replace_with_mask(pa.nulls(count, pa.binary()), ids.is_valid(), encoded)
    return pa.nulls(count, _TEXT), encoded


def read_ids(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Read the ids that are kept as text, whichever column holds them; null for ids that are computed."""
    packed = columns["id_hex"]
    if packed.null_count == len(packed):
        return columns["id"]
    kept = packed.drop_null()
    sizes = pc.min_max(pc.binary_length(kept)).as_py()
    if sizes["min"] == sizes["max"]:
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(kept)], kept), b"")[0].as_py()
        ids = _cut_texts(joined.hex().encode(), 2 * sizes["min"], len(kept), _TEXT)
    else:
        # Each run of a part has ids of one length.
        ids = pa.array([id.hex() for id in kept.to_pylist()], _TEXT)
    return pc.replace_with_mask(columns["id"], packed.is_valid(), ids) if packed.null_count else ids


def _cut_texts(joined: bytes, length: int, count: int, kind: pa.DataType) -> pa.Array:
    """Cut bytes into values of one length."""
    offsets = pa.py_buffer(array("i", range(0, (count + 1) * length, length)).tobytes())
    return pa.Array.from_buffers(kind, count, [None, offsets, pa.py_buffer(joined)])


def list_version_columns(layout: Layout) -> list[str]:
    """List the column with the number of a row's version, if the layout keeps versions; see ``NEWEST_VERSION``."""
    return ["version"] if layout.versioned else []


def read_versions(layout: Layout, columns: Mapping[str, pa.Array], at: pa.Array) -> list[EventVersion] | None:
    """Read each row's version, if the layout keeps versions; the newest version's number is in its attributes.

    ``at`` are the times when the versions were accepted, as text.
    """
    if not layout.versioned:
        return None
    versions = []
    for number, attributes, accepted in zip(
        *(column.to_pylist() for column in (columns["version"], columns["attributes"], at)), strict=True
    ):
        stored = msgspec.json.decode(attributes or "{}").get("version", {}).get("N", number)
        versions.append(EventVersion(int(stored), int(accepted or 0), number == NEWEST_VERSION))
    return versions


def _refuse_others(fine: pa.Array, pk: pa.Array, sk: pa.Array) -> None:
    """Raise ArchiveFailed for the first key that is not ``fine``: only events may be archived as events."""
    if pc.all(fine).as_py() is False:
        row = pc.index(fine, pa.scalar(value=False)).as_py()
        raise ArchiveFailed(f"the table holds an item that is not an event: {pk[row].as_py()!r}, {sk[row].as_py()!r}")
