"""Rows of a part, on their way back to the items and the events that they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.columns import Column
from aws.archive.derived import derived_indexes, derived_wire, pieces
from aws.archive.keys import Keys, ids_of
from aws.archive.render import canonical, escaped, leaf, listed, quoted, together
from aws.wire import plain
from tidetable.archive.facts import Facts
from tidetable.archive.reading import Kept
from tidetable.events import Event
from tidetable.keys import Layout
from tidetable.ports import Version

NOTE = b"tidetable"
_TEXT = pa.string()


class Note(msgspec.Struct, frozen=True):
    """What a file says of itself in its metadata: the fields of ``data`` that are columns, and their types.

    ``derived`` are the indexes of which it leaves out what follows from the data (files of the format 2: none).
    """

    columns: dict[str, str]
    derived: tuple[str, ...] = ()

    def all(self) -> list[Column]:
        """The columns in the order of their names."""
        return [Column(name, self.columns[name]) for name in sorted(self.columns)]


class Rows:
    """Rows of a part, on their way back to what they were."""

    def __init__(self, table: pa.Table, layout: Layout) -> None:
        self._note = msgspec.json.decode(table.schema.metadata[NOTE], type=Note)
        self._arrays = {name: array_of(table.column(name)) for name in table.column_names}
        self._count = len(table)
        self._layout = layout
        self._derived = derived_indexes(layout, self._note.derived)
        self._versioned = layout.versioned

    @cached_property
    def _keys(self) -> Mapping[str, pa.Array]:
        return Keys(self._layout, self._derived).restored(self._arrays)

    @cached_property
    def _fields(self) -> Mapping[str, tuple[Column, pa.Array]]:
        """The columns that are fields of data, as far as they were read."""
        found = (one for one in self._note.all() if one.name in self._arrays)
        return {one.name: (one, one.text(self._arrays[one.name])) for one in found}

    @cached_property
    def _at(self) -> pa.Array:
        return pc.cast(pc.cast(self._arrays["accepted_at"], pa.int64()), _TEXT)

    def count_into(self, facts: Facts) -> None:
        """Add the rows' facts: by columns where the columns say all, and else row by row."""
        arrays, keys = self._arrays, self._keys
        plain = pc.and_(pc.equal(arrays["data"], "{}"), arrays["attributes"].is_null())
        chosen = pc.indices_nonzero(plain)
        fields, numbers = {}, {}
        for name, (column, texts) in self._fields.items():
            held = texts.take(chosen)
            if column.letter == "N":
                numbers[name] = held
            held = escaped(held) if column.letter == "S" else held
            fields[name] = together(f"{quoted(name)}:", leaf(column.letter, held), "")
        count = len(chosen)
        said = {
            "at": together('"at":', leaf("N", self._at.take(chosen)), ""),
            "data": together('"data":{"M":{', listed(fields.values(), count), "}}", ""),
        }
        held_keys = {name: array.take(chosen) for name, array in keys.items()}
        for name, held in held_keys.items():
            said[name] = together(f'"{name}":', leaf("S", escaped(held)), "")
        for index in self._derived:
            said |= pieces(index, held_keys[index.pk], fields, lambda name: numbers.get(name, pa.nulls(count, _TEXT)))
        texts = listed([said[name] for name in sorted(said)], count)
        texts = together("{", texts, "}", "").cast(pa.binary()).to_pylist()
        others = pc.indices_nonzero(pc.invert(plain)).to_pylist()
        if others:
            rows = list(self.wire(set(others)))
            texts += [canonical(row) for row in rows]
        edges = pc.min_max(keys["sk"]).as_py()
        facts.add(texts, counted(keys["pk"]), edges["min"], edges["max"])

    def wire(self, only: set[int] | None = None) -> Iterator[dict[str, Any]]:
        """The items in DynamoDB JSON: of every row, or of these only."""
        keys = {name: array.to_pylist() for name, array in self._keys.items()}
        attributes = self._arrays["attributes"].to_pylist()
        at = self._at.to_pylist()
        for row, data in self._data(only):
            item: dict[str, Any] = {
                name: {"S": values[row]} for name, values in keys.items() if values[row] is not None
            }
            if at[row] is not None:
                item["at"] = {"N": at[row]}
            item["data"] = {"M": data}
            for index in self._derived:
                if index.pk in item:
                    item |= derived_wire(index, data) or {}
            if attributes[row] is not None:
                item |= msgspec.json.decode(attributes[row])
            yield item

    def events(self) -> Iterator[Kept]:
        """The events in the order of their sort keys."""
        versions = self._versions()
        times, series = (self._arrays[name].to_pylist() for name in ("time", "series"))
        ids = ids_of(self._arrays).to_pylist()
        for row, data in self._data(None):
            values = {name: plain(value) for name, value in data.items()}
            event = Event(series[row], times[row].astimezone(UTC), ids[row], values)
            yield event, versions[row] if versions is not None else None

    def _versions(self) -> list[Version] | None:
        """Each row's version, if the layout keeps them; the newest says its number itself."""
        if not self._versioned:
            return None
        rows = zip(
            *(self._arrays[name].to_pylist() for name in ("version", "attributes")), self._at.to_pylist(), strict=True
        )
        return [
            Version(
                int(msgspec.json.decode(attributes or "{}").get("version", {}).get("N", number)),
                int(at or 0),
                number == 0,
            )
            for number, attributes, at in rows
        ]

    def _data(self, only: set[int] | None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row's ``data`` in DynamoDB JSON: the columns, and over them what they could not say exactly."""
        fields = [(name, column.letter, texts.to_pylist()) for name, (column, texts) in self._fields.items()]
        rest = self._arrays["data"].to_pylist()
        for row in range(self._count):
            if only is not None and row not in only:
                continue
            data: dict[str, Any] = {
                name: {letter: values[row]} for name, letter, values in fields if values[row] is not None
            }
            if rest[row] != "{}":
                data |= msgspec.json.decode(rest[row])
            yield row, data


def array_of(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def counted(pk: pa.Array) -> Counter[str]:
    """How many items each partition has."""
    return Counter({one["values"]: one["counts"] for one in pk.value_counts().to_pylist()})
