"""The event, and the JSON values that it carries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

# JSON as decoded: objects and arrays, text, booleans, null; numbers as int or Decimal, never float, so none loses a digit.
JsonObject: TypeAlias = dict[str, Any]
# An item as DynamoDB holds it: attribute names to native values. Only the adapters know the wire's type letters.
Item: TypeAlias = dict[str, Any]


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened: to which series, when (aware, UTC), under which id, with what data."""

    series: str
    time: datetime
    id: str
    data: JsonObject
