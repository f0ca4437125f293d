"""Ids that ingest derived from an event's content. A part does not keep them, and readers compute them again.

Every computed id is compared with the event's own id when a part is written, and an id that differs is kept. So the
rule needs to be right only for most events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product, repeat

import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.data_columns import Column
from aws.archive.render import concatenate, escape_json, join_pieces, quote_name
from tidetable.archive.manifest import IdRule

_DIGITS = 32
_PATTERN, _PLAIN = r"[0-9a-f]{32}", r"-?\d+(\.\d+)?"
_TEXT = pa.string()
# The rule is found by so many events; the first of them decide whether a rule is looked for at all.
_SAMPLE, _FIRST = 64, 8
# Numbers that are sent with more zeros than this keep their ids. With more fields than _FREE, all have the same digits.
_MOST_DIGITS, _FREE = 3, 3
Fields = Mapping[str, tuple[Column, pa.Array]]


def find_rule(ids: pa.Array, times: pa.Array, series: pa.Array, fields: Fields) -> IdRule | None:
    """Find the rule by which most ids of a sample of complete events are computed; None if no id is."""
    names = {name: column.letter == "N" for name, (column, _) in fields.items()}
    columns = [texts.slice(0, _SAMPLE).to_pylist() for texts in _render(fields).values()]
    keys = [array.slice(0, _SAMPLE).to_pylist() for array in (ids, escape_json(series), times)]
    rows = zip(*columns, strict=True) if columns else repeat(())
    sample = list(zip(zip(*keys, strict=True), rows, strict=False))
    sample = [(key, row) for key, row in sample if re.fullmatch(_PATTERN, key[0])]

    def count_matches(rule: IdRule, count: int) -> int:
        return sum(_derive_id(rule, names, key, row) == key[0] for key, row in sample[:count])

    found = [rule for rule in _list_rules([name for name in names if names[name]]) if count_matches(rule, _FIRST)]
    return max(found, key=lambda rule: count_matches(rule, _SAMPLE), default=None)


def _list_rules(numbers: Sequence[str]) -> Iterator[IdRule]:
    choices = range(_MOST_DIGITS + 1)
    every = product(choices, repeat=len(numbers)) if len(numbers) <= _FREE else ([n] * len(numbers) for n in choices)
    for digits in every:
        least = {name: count for name, count in zip(numbers, digits, strict=True) if count}
        for timed in (True, False):
            yield IdRule(timed=timed, digits=least)


def _derive_id(rule: IdRule, names: Mapping[str, bool], key: Sequence[str], row: Sequence[str | None]) -> str:
    """Compute one id, as ``derive_ids`` does."""
    values = []
    for (name, is_number), text in zip(names.items(), row, strict=True):
        if text is not None:
            if is_number and re.fullmatch(_PLAIN, text):
                whole, _, fraction = text.partition(".")
                fraction = fraction.ljust(rule.digits.get(name, 0), "0")
                text = f"{whole}.{fraction}" if fraction else whole
            values.append(f"{quote_name(name)}:{text}")
    time = f'"{key[2]}"' if rule.timed else "null"
    return sha256(f'["{key[1]}",{time},{{{",".join(values)}}}]'.encode()).hexdigest()[:_DIGITS]


def derive_ids(rule: IdRule, times: pa.Array, series: pa.Array, fields: Fields) -> pa.Array:
    """Compute the ids of events whose data is completely in columns. ``times`` and the fields' values are texts."""
    pieces = [
        concatenate(f"{quote_name(name)}:", _add_zeros(texts, rule.digits.get(name, 0)))
        for name, texts in _render(fields).items()
    ]
    time = concatenate('"', times, '"') if rule.timed else "null"
    data = join_pieces(pieces, len(series))
    texts = concatenate('["', escape_json(series), '",', time, ",{", data, "}]").cast(pa.binary()).to_pylist()
    return pa.array([sha256(text).hexdigest()[:_DIGITS] for text in texts], _TEXT)


def _render(fields: Fields) -> dict[str, pa.Array]:
    """Render the values of fields as JSON."""
    return {
        name: concatenate('"', escape_json(texts), '"') if column.letter == "S" else texts.cast(_TEXT)
        for name, (column, texts) in fields.items()
    }


def _add_zeros(numbers: pa.Array, digits: int) -> pa.Array:
    """Write numbers with at least so many digits after the point."""
    if digits:
        numbers = pc.replace_substring_regex(numbers, r"^(-?\d+)$", rf"\1.{'0' * digits}")
    for count in range(1, digits):
        numbers = pc.replace_substring_regex(numbers, rf"^(-?\d+\.\d{{{count}}})$", rf"\1{'0' * (digits - count)}")
    return numbers
