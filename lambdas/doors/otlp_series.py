"""The series of metrics and log records, and the texts by which their attributes are told apart.

A label is an attribute as text, such as ``country=fr``. Lists, maps and quoted texts end by themselves, so they need no
backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite, isnan
from operator import itemgetter
from typing import Any

from doors import otlp_types as types
from doors.otlp_values import normalize_base64, read_double, read_value, read_whole
from doors.series import Separators
from tidetable.exact_json import encode_json

_METRIC, _LABEL, _MARKED_NAME = Separators("{"), Separators(",="), Separators(",=:")
RESOURCE, SCOPE, ATTRIBUTES = "resource", "scope", "attributes"
# A name that looks like a marked name.
_LOOKS_MARKED = re.compile(rf"(?:{RESOURCE}|{SCOPE}|{ATTRIBUTES})\\*:")
# The semantic conventions of OpenTelemetry use these names for attributes of resources. Such an attribute of a point, and
# any other attribute of a resource, is marked with its level: otherwise one series could hold two sources.
_OF_RESOURCES = (
    *("browser.", "cloud.", "container.", "deployment.", "device.", "faas.", "host.", "k8s.", "os.", "process."),
    *("service.", "telemetry."),
)
# Texts that begin in this way are quoted, so that lists and maps, which begin in the same way, need no backslashes.
_QUOTED = ("[", "{", '"', 'b"')
# Attributes with this prefix identify the SDK, not the source: an update of the SDK must not begin new series.
_NOT_SERIES = "telemetry."
_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity", "-Infinity"})
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_FIRST_CHARACTERS = frozenset('[{"b-0123456789tfnNI')
_NAME = itemgetter(0)
# An attribute: its name, and the text of its value.
Pair = tuple[str, str]
# A label: the name by which labels are sorted, and the text of name and value.
Label = tuple[str, str]


def join_labels(metric: str, labels: Sequence[Label]) -> str:
    """Return the series of a metric, such as ``orders{country=fr,service.name=shop}``."""
    name = _METRIC.escape(metric)
    return f"{name}{{{show_labels(labels)}}}" if labels else name


def show_labels(labels: Iterable[Label]) -> str:
    """Return labels as text, sorted by their names."""
    return ",".join([text for _, text in sorted(labels, key=_NAME)])


class Labels:
    """Writes the labels of a request: of attributes that are ``chosen``, or of all except the SDK's own if none is.

    ``alone`` says that only the resource's attributes make labels, so that no label is marked with its level.
    """

    def __init__(self, chosen: Sequence[str], *, alone: bool = False) -> None:
        self._chosen, self._alone = chosen, alone
        # A request repeats few names. None: attributes of this name make no label.
        self._names: dict[str, dict[str, Label | None]] = {RESOURCE: {}, SCOPE: {}, ATTRIBUTES: {}}

    def write(self, pairs: Sequence[Pair], level: str) -> list[Label]:
        """Write attributes of a level as labels."""
        labels: list[Label] = []
        if self._alone and level != RESOURCE:
            return labels
        names = self._names[level]
        for name, text in pairs:
            try:
                label = names[name]
            except KeyError:
                label = names[name] = self._write_name(name, level)
            if label is None:
                continue
            if "," in text or "=" in text or text[-1:] == "\\":
                text = _escape_value(text)
            labels.append((label[0], label[1] + text))
        return labels

    def _write_name(self, name: str, level: str) -> Label | None:
        """Write a name with ``=``, marked with its level if attributes of that name usually have another level."""
        if name not in self._chosen if self._chosen else level == RESOURCE and name.startswith(_NOT_SERIES):
            return None
        written = (_MARKED_NAME if _LOOKS_MARKED.match(name) else _LABEL).escape(name)
        usual = RESOURCE if name.startswith(_OF_RESOURCES) else ATTRIBUTES
        is_marked = level != usual and not self._alone
        return (f"{level}:{name}", f"{level}:{written}=") if is_marked else (name, f"{written}=")


def _escape_value(text: str) -> str:
    return text if text.startswith(_QUOTED) else _LABEL.escape(text)


def read_pairs(attributes: Sequence[types.KeyValue]) -> tuple[list[Pair], list[tuple[str, Any]]]:
    """Return attributes with the texts of their values, sorted by name; and with their values."""
    pairs: list[Pair] = []
    values: list[tuple[str, Any]] = []
    for attribute in attributes:
        name, value = attribute.key, attribute.value
        text = None if value is None else value.string_value
        if text is not None and text[:1] not in _FIRST_CHARACTERS:  # most attributes
            pair = name, text
            pairs.append(pair)
            values.append(pair)
        else:
            pairs.append((name, identify_value(value)))
            values.append((name, read_value(value)))
    pairs.sort(key=_NAME)
    return pairs, values


def identify_value(value: types.AnyValue | None) -> str:
    """Return the text of an attribute's value. Different values have different texts, also if only their types differ.

    A text is its own text, unless it looks like a value of another type: then it is quoted. Bytes are ``b"..."``.
    """
    if value is not None and (text := value.string_value) is not None:
        return _quote(text) if _is_ambiguous(text) else text
    return _identify_other(value)


def _is_ambiguous(text: str) -> bool:
    if text[:1] not in _FIRST_CHARACTERS:
        return False
    return text.startswith(_QUOTED) or text in _WORDS or _NUMBER.fullmatch(text) is not None


def _identify_other(value: types.AnyValue | None) -> str:
    """Return the text of a value within a list or a map, and of a value that is not a text: every text is quoted."""
    if value is None:
        return "null"
    if value.string_value is not None:
        return _quote(value.string_value)
    if value.bool_value is not None:
        return "true" if value.bool_value else "false"
    if value.int_value is not None:
        return str(read_whole(value.int_value))
    if value.double_value is not None:
        return _show_double(read_double(value.double_value))
    if value.array_value is not None:
        return f"[{','.join(map(_identify_other, value.array_value.values))}]"
    if value.kvlist_value is not None:
        pairs = sorted((_quote(pair.key), _identify_other(pair.value)) for pair in value.kvlist_value.values)
        return f"{{{','.join([f'{name}:{text}' for name, text in pairs])}}}"
    return "null" if value.bytes_value is None else f"b{_quote(normalize_base64(value.bytes_value))}"


def _show_double(value: float) -> str:
    if isfinite(value):
        return encode_json(value).decode()
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _quote(text: str) -> str:
    return encode_json(text).decode()
