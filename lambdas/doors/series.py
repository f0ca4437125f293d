"""The texts of series: different series never have the same text.

A text joins names and values by separators. A separator within a name or a value gets a backslash in front, so that
usual texts stay as they are. Backslashes are doubled only where they stand directly before a separator, or at the end
of a name or value: ``C:\\temp`` stays ``C:\\temp``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from tidetable.layout import MAX_NAME_BYTES, escape

_PLACE = re.compile(r"\{([^{}]+)\}")
# A name that is too long keeps this many characters of its beginning, to be readable. A character may take four bytes.
_KEPT_CHARACTERS, _DIGITS = 90, 32
_SHORTENED_LENGTH = _KEPT_CHARACTERS + 1 + _DIGITS
_SHORTENED = re.compile(rf".{{{_KEPT_CHARACTERS}}}~[0-9a-f]{{{_DIGITS}}}", re.DOTALL)


class Separators:
    """The separators that end a name or a value."""

    def __init__(self, separators: str) -> None:
        # A separator, or the end, with all backslashes in front of it. The search begins at the first backslash only,
        # so that many backslashes cost no more than other characters.
        self._find = re.compile(rf"[{re.escape(separators)}]|\\\Z").search
        self._pattern = re.compile(rf"(?<!\\)(\\*)([{re.escape(separators)}]|\Z)")

    def escape(self, text: str) -> str:
        """Return the text with a backslash in front of each separator, and twice as many backslashes before them."""
        return self._pattern.sub(_double_backslashes, text) if self._find(text) else text


_MEASUREMENT, _TAG = Separators(","), Separators(",=")


def fit_name(name: str) -> str:
    """Return the name; if it is too long for a key, return its beginning and a hash of the whole name.

    A name that looks like such a result is hashed, too, so that no name is the result of another name.
    """
    fits = len(name) <= MAX_NAME_BYTES // 4 or len(escape(name).encode()) <= MAX_NAME_BYTES
    if fits and not (len(name) == _SHORTENED_LENGTH and _SHORTENED.fullmatch(name)):
        return name
    return f"{name[:_KEPT_CHARACTERS]}~{sha256(name.encode()).hexdigest()[:_DIGITS]}"


def join_tags(measurement: str, tags: Sequence[tuple[str, str]]) -> str:
    """Return a measurement and its tags as text, such as ``air,floor=2,room=attic``."""
    text = ",".join([measurement, *[f"{name}={value}" for name, value in tags]])
    equals = len(tags) + measurement.count("=")
    if "\\" not in text and text.count(",") == len(tags) and text.count("=") == equals:
        return text  # nearly always: every separator is between names and values
    escaped = [f"{_TAG.escape(name)}={_TAG.escape(value)}" for name, value in tags]
    return ",".join([_MEASUREMENT.escape(measurement), *escaped])


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Replace the names in braces in a template such as ``{measurement}/{host}``; ValueError names a missing value.

    The text after a place ends the place's value. A value that would end too early is escaped; the last value never is.
    """
    first, *rest = _PLACE.split(template)
    filled = [first]
    for position in range(0, len(rest), 2):
        name, following = rest[position], rest[position + 1]
        if name not in values:
            raise ValueError(f"series: there is no {name[:64]!r} to fill the template {template!r} with")
        is_last = position + 2 == len(rest)
        filled += [values[name] if is_last else _end_value(values[name], following), following]
    return "".join(filled)


def _end_value(value: str, following: str) -> str:
    """Escape a value such that the text ``following`` ends it, and nothing before that text does."""
    mark = following[0]
    is_clear = (value + following).find(following) == len(value)
    if is_clear and f"\\{mark}" not in value and not value.endswith("\\"):
        return value
    return Separators(mark).escape(value)


def _double_backslashes(match: re.Match[str]) -> str:
    return match[1] * 2 + (f"\\{match[2]}" if match[2] else "")
