"""Write a part: items become typed columns, in sorted row groups (``part_file``). Ids that follow from content are left out.

Values that no column can store exactly are kept as DynamoDB JSON, so that an item comes back exactly as it was.
docs/use/archive.md describes the columns for readers outside of this project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from aws.archive.data_columns import Column, infer_columns
from aws.archive.derived_ids import Fields, derive_ids, find_rule
from aws.archive.index_columns import find_derived_indexes, is_derived, match_derived, name_attributes
from aws.archive.key_columns import KeyColumns, encode_ids, render_times
from aws.archive.part_file import PartFile
from aws.archive.render import (
    concatenate,
    join_pieces,
    quote_name,
    render_canonical,
    render_leaf,
    render_members,
    render_rows,
    take_letter,
    value,
)
from aws.archive.rows import NOTE, Note, add_facts, join_chunks
from aws.archive.to_arrow import MAX_LEAVES, Irregular, Shape, read_page
from aws.archive.untyped import count_untyped
from tidetable.archive.digest import ItemsDigest
from tidetable.archive.manifest import Bounds
from tidetable.errors import ArchiveFailed
from tidetable.layout import Layout

# A run is sorted and written as soon as it has so many events, or so many bytes of pages. Its arrays take about twice
# the bytes of its pages.
_RUN_EVENTS, _RUN_PAGES = 400_000, 128_000_000
# AWS's engines and Spark split files of 128 MB well.
_MOST_BYTES, _MOST_EVENTS = 128_000_000, 16_000_000
_SAMPLE = 100
_ENCODE = msgspec.json.Encoder().encode
_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_TEXT = pa.string()
_NULL = pa.scalar(None, _TEXT)
_ACCEPTED = pa.timestamp("ms", tz="UTC")
_MILLIS = r"^(0|[1-9]\d{0,14})$"
_Arrays = Mapping[str, pa.Array]


class ParquetWriter:
    """Writes one part, run by run. A page becomes Arrow arrays as soon as it is added, because its text takes more memory.

    Pages may come in any order. If they come in the order of time, each row group has its own piece of time.
    """

    def __init__(self, layout: Layout, declared: Mapping[str, str]) -> None:
        self.facts = ItemsDigest()
        self.size = 0
        self._untyped: Counter[str] = Counter()
        self._derived = find_derived_indexes(layout)
        self._keys = KeyColumns(layout, self._derived)
        self._declared = declared
        self._columns: list[Column] | None = None
        self._names: dict[str, Shape] = {}
        self._pages: list[pa.Table] = []
        self._file = PartFile(by_time=layout.partition_by == "time")
        self._note: Note | None = None
        self._run_events = self._run_from = 0

    @property
    def untyped(self) -> Mapping[str, int]:
        """The values that a declared column does not hold, by column."""
        return self._untyped

    @property
    def is_full(self) -> bool:
        """True if the part should end: it has as many bytes or events as other engines read well."""
        return self._file.size >= _MOST_BYTES or self.facts.items >= _MOST_EVENTS

    def add(self, items: bytes) -> None:
        """Add a page: through Arrow if its items have one shape, item by item otherwise."""
        self.size += len(items)
        page = read_page(items, self._names) if self._names else None
        if page is not None:
            if len(page):
                self._add(page)
        elif decoded := _PAGE(items):
            try:
                self._add(self._learn(items, decoded))
            except Irregular:
                self._add_slowly(decoded)
        if self._run_events >= _RUN_EVENTS or self.size - self._run_from >= _RUN_PAGES:
            self._write_run()

    def finish(self) -> bytes:
        """Return the bytes of the Parquet file."""
        self._write_run()
        return self._file.finish()

    def find_bounds(self) -> Bounds:
        """Describe the bounds of the part, after ``finish``."""
        bounds = self._file.find_bounds(None if self._note is None else self._note.ids)
        columns = {column.name: column.type for column in self._columns or () if column.name not in self._declared}
        return replace(bounds, columns=columns)

    def _write_run(self) -> None:
        """Convert the pages to the columns of the file, and write them."""
        if not self._pages:
            return
        table = pa.concat_tables(self._pages)
        arrays = {name: join_chunks(table.column(name)) for name in table.column_names}
        self._pages.clear()
        self._run_events, self._run_from = 0, self.size
        rest = [arrays["rest"]]
        fields: dict[str, pa.Array] = {}
        for column in self._columns or ():
            wire = arrays[f"field {column.name}"]
            fields[column.name], inexact = column.convert(wire)
            if inexact is not None:
                piece = concatenate(f"{quote_name(column.name)}:", render_leaf(column.letter, wire))
                rest.append(pc.if_else(inexact, piece, _NULL))
        declared = [column for column in self._columns or () if column.name in self._declared]
        scanned = {column.name: arrays[f"field {column.name}"] for column in declared}
        self._untyped += Counter(count_untyped(declared, scanned, fields, arrays["rest"]))
        keys = self._keys.columns(arrays)
        data = concatenate("{", join_pieces(rest, len(table)), "}")
        complete = pc.equal(data, "{}")
        wire_fields = {column.name: (column, arrays[f"field {column.name}"]) for column in self._columns or ()}
        keys["id"], keys["id_hex"] = encode_ids(self._leave_out_ids(keys, wire_fields, complete))
        stored = {
            **keys,
            "accepted_at": pc.cast(pc.cast(arrays["at"], pa.int64()), _ACCEPTED),
            **fields,
            "data": data,
            "attributes": concatenate("{", arrays["attributes"], "}"),
        }
        self._file.write(pa.table(stored).replace_schema_metadata({NOTE: _ENCODE(self._note)}))

    def _leave_out_ids(self, keys: Mapping[str, pa.Array], fields: Fields, complete: pa.Array) -> pa.Array:
        """Return the ids that the part keeps: null where the id is computed from the event. The first run finds the rule."""
        ids = keys["id"]

        def take_complete(rows: pa.Array) -> tuple[pa.Array, pa.Array, Fields]:
            taken = {name: (column, texts.take(rows)) for name, (column, texts) in fields.items()}
            return render_times(keys["time"].take(rows).cast(pa.timestamp("us"))), keys["series"].take(rows), taken

        if self._note is None:
            rows = pc.indices_nonzero(complete).slice(0, _SAMPLE)
            rule = find_rule(ids.take(rows), *take_complete(rows))
            derived = tuple(index.name for index in self._derived)
            self._note = Note({column.name: column.type for column in self._columns or ()}, derived, rule)
        if self._note.ids is None:
            return ids
        rows = pc.indices_nonzero(complete)
        computed = derive_ids(self._note.ids, *take_complete(rows))
        same = pc.equal(computed, ids.take(rows))
        return pc.replace_with_mask(ids, complete, pc.if_else(same, _NULL, ids.take(rows)))

    def _learn(self, items: bytes, decoded: list[dict[str, dict[str, Any]]]) -> pa.StructArray:
        """Read a page with items of a new shape. Usually a sample of the items shows the whole new shape."""
        names = Shape(names=self._names)
        for sample in (decoded[:_SAMPLE], decoded[_SAMPLE:]):
            for item in sample:
                names.learn({"M": item})
            if names.size > MAX_LEAVES:
                self._names.clear()
                raise Irregular("too many names")
            page = read_page(items, self._names)
            if page is not None:
                return page
        raise Irregular("Arrow cannot read the page")

    def _add(self, items: pa.StructArray) -> None:
        keys = self._keys
        names = items.type.names
        data = items.field("data") if "data" in names else None
        if data is None or data.type.get_field_index("M") < 0 or data.field("M").null_count:
            raise ArchiveFailed("the table holds an item without data, which is not an event")
        members_of_data = data.field("M")
        if self._columns is None:
            self._columns = infer_columns(self._declared, members_of_data)
        wire = {name: items.field(name).field("S") for name in ("pk", "sk")}
        wire["at"] = _read_times(items)
        items_text = render_rows(items, "{", "}")
        rest = []
        columns = {column.name: column for column in self._columns}
        for name in members_of_data.type.names:
            field = members_of_data.field(name)
            letters = field.type.names
            if name in columns:
                letters = [letter for letter in letters if letter != columns[name].letter]
            if letters:
                rest.append(concatenate(f"{quote_name(name)}:", value(field, letters)))
        indexed = {name: take_letter(items, name, "S") for name in names if name in keys.index_names}
        attributes = self._take_other_attributes(items, members_of_data, indexed)
        fields = {name: take_letter(members_of_data, name, column.letter) for name, column in columns.items()}
        texts = {"rest": join_pieces(rest, len(items)), "attributes": attributes}
        filled = {name: pc.if_else(pc.equal(text, ""), _NULL, text) for name, text in texts.items()}
        self._add_page(items_text.cast(pa.binary()).to_pylist(), wire, indexed, fields, filled)

    def _take_other_attributes(
        self, items: pa.StructArray, data: pa.StructArray, indexed: dict[str, pa.Array]
    ) -> pa.Array:
        """Render the attributes that are neither keys nor data, and that readers cannot derive.

        A key in an index that readers cannot derive is rendered too, and is set to null in ``indexed``.
        """
        names = items.type.names
        others: dict[str, pa.Array | None] = dict.fromkeys(
            name for name in names if name not in {"pk", "sk", "at", "data", *indexed}
        )
        for index in self._derived:
            derived = match_derived(index, items, data)
            for name in name_attributes(index):
                others.pop(name, None)
                if name in names and not pc.all(derived).as_py():
                    others[name] = derived
                    if name in indexed:
                        indexed[name] = pc.if_else(derived, indexed[name], _NULL)
        pieces = []
        for name in sorted(others):
            (piece,) = render_members(items, [name])
            pieces.append(piece if others[name] is None else pc.if_else(others[name], _NULL, piece))
        return join_pieces(pieces, len(items))

    def _add_slowly(self, items: list[dict[str, dict[str, Any]]]) -> None:
        """Add a page item by item."""
        if any(item.get("data", {}).keys() != {"M"} for item in items):
            raise ArchiveFailed("the table holds an item without data, which is not an event")
        if self._columns is None:
            self._columns = [Column(name, self._declared[name]) for name in sorted(self._declared)]
        wire = {name: pa.array([item[name]["S"] for item in items], _TEXT) for name in ("pk", "sk")}
        wire["at"] = pa.array([item["at"].get("N", "") if "at" in item else None for item in items], _TEXT)
        fields: dict[str, list[Any]] = {column.name: [] for column in self._columns}
        rest, attributes = [], []
        indexed: dict[str, list[str | None]] = {name: [] for name in self._keys.index_names}
        for item in items:
            odd = {name for index in self._derived if not is_derived(index, item) for name in name_attributes(index)}
            omitted = {name for index in self._derived for name in name_attributes(index)} - odd
            omitted |= {"pk", "sk", "at", "data", *(indexed.keys() - odd)}
            data = dict(item["data"]["M"])
            for column in self._columns:
                value = data.get(column.name, {})
                fields[column.name].append(value.get(column.letter))
                if column.letter in value:
                    del data[column.name]
            rest.append(_strip_braces(data))
            for name, values in indexed.items():
                values.append(None if name in odd else item.get(name, {}).get("S"))
            attributes.append(_strip_braces({name: value for name, value in item.items() if name not in omitted}))
        self._add_page(
            [render_canonical(item) for item in items],
            wire,
            {name: pa.array(values, _TEXT) for name, values in indexed.items()},
            {column.name: pa.array(fields[column.name], column.wire) for column in self._columns},
            {"rest": pa.array(rest, _TEXT), "attributes": pa.array(attributes, _TEXT)},
        )

    def _add_page(self, items: list[bytes], wire: _Arrays, indexed: _Arrays, fields: _Arrays, texts: _Arrays) -> None:
        """Add the facts and the columns of a page; ``items`` are the canonical texts of its items."""
        if pc.any(pc.invert(pc.match_substring_regex(wire["at"], _MILLIS))).as_py():
            raise ArchiveFailed("the table holds an item whose attribute at is not a time, so it is not an event")
        add_facts(self.facts, items, wire["pk"], wire["sk"])
        columns = {f"field {name}": values for name, values in fields.items()}
        self._run_events += len(items)
        self._pages.append(pa.table({**wire, **self._keys.index_columns(wire, indexed), **columns, **texts}))


def _read_times(items: pa.StructArray) -> pa.Array:
    """Read the times of acceptance as text: null if an item has no time, empty if its time is not a number."""
    if items.type.get_field_index("at") < 0:
        return pa.nulls(len(items), _TEXT)
    return pc.if_else(items.field("at").is_valid(), pc.coalesce(take_letter(items, "at", "N"), ""), _NULL)


def _strip_braces(values: Mapping[str, Any]) -> str | None:
    """Return a map's members without its braces; None if it has no members."""
    return render_canonical(values).decode()[1:-1] or None
