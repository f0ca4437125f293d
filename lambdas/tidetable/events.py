"""The event, and the JSON values that it carries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

# A decoded JSON value: object, array, text, boolean or null. Numbers are int or Decimal, never float, so they keep all
# digits.
JsonObject: TypeAlias = dict[str, Any]
# An item of DynamoDB: a map from attribute names to Python values. Only the adapters know DynamoDB's type letters.
Item: TypeAlias = dict[str, Any]


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event: its series, its time (aware, in UTC), its id and its data."""

    series: str
    time: datetime
    id: str
    data: JsonObject
