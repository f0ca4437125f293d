"""Conditions on an event: on fields of its ``data``, and on its series and id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any, Literal, NamedTuple

from tidetable.events import JsonObject
from tidetable.layout import find_value, render_number
from tidetable.values import MAX_DIGITS, count_digits

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "prefix"]
OPERATORS: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "in", "prefix")
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}
_NUMBER = re.compile(r"[+-]?(\d{1,130}(\.\d{0,130})?|\.\d{1,130})([eE][+-]?\d{1,3})?", re.ASCII)


class Condition(NamedTuple):
    """A field, an operator, and the values to compare with, as text.

    The type of the field's value decides how it is compared: text with the condition's values as text, a number with
    these values as numbers, a boolean with ``true`` and ``false``. An absent value, null, a list or an object meets no
    condition, not even ``ne``.
    """

    field: str
    operator: Operator
    values: tuple[str, ...]

    @property
    def top(self) -> str:
        """The name of the top-level field of data that the condition reads."""
        return self.field.partition(".")[0]

    @property
    def equals(self) -> bool:
        """True if the condition lists the values that a field may have."""
        return self.operator in ("eq", "in")

    def texts(self) -> list[str]:
        """Return the values in the spellings of an index's key: unchanged and, for numbers, also in the usual form."""
        texts = [text for value in self.values for text in (value, *map(render_number, read_numbers(value)))]
        return list(dict.fromkeys(texts))

    def holds(self, data: JsonObject) -> bool:
        value = find_value(data, self.field)
        if isinstance(value, bool):
            texts = ("true" if value else "false") in self.values
            return texts if self.equals else not texts if self.operator == "ne" else False
        if isinstance(value, str):
            return self._compare(value, list(self.values))
        if isinstance(value, int | Decimal):
            return self._compare(value, [number for text in self.values for number in read_numbers(text)])
        return False

    def _compare(self, value: Any, others: list[Any]) -> bool:
        match self.operator:
            case "eq" | "in":
                return value in others
            case "ne":
                return value not in others
            case "prefix":
                return isinstance(value, str) and value.startswith(self.values[0])
            case operator:
                return any(_ORDERED[operator](value, other) for other in others)


# The parameters of the API that set these conditions, in the order of the fields of ``NameConditions``.
NAMES = ("series", "id", "series:prefix", "id:prefix")


class NameConditions(NamedTuple):
    """Conditions on an event's series and id: each name must be in its list, and begin with its prefix.

    An empty list or prefix does not restrict anything.
    """

    series: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    series_prefix: str = ""
    id_prefix: str = ""

    def hold(self, series: str, id: str) -> bool:
        """True if an event with this series and id meets the conditions."""
        return (
            (not self.series or series in self.series)
            and (not self.ids or id in self.ids)
            and series.startswith(self.series_prefix)
            and id.startswith(self.id_prefix)
        )

    @property
    def parameters(self) -> list[str]:
        """The parameters of the API that have set these conditions."""
        named = zip(NAMES, self, strict=True)
        return [name for name, value in named if value]


ANY = NameConditions()


def read_numbers(text: str) -> list[Decimal]:
    """Return a list with the number that a text spells; an empty list if no event may have this number."""
    if not _NUMBER.fullmatch(text):
        return []
    number = Decimal(text)
    return [number] if count_digits(number) <= MAX_DIGITS and (not number or -130 <= number.adjusted() <= 125) else []
