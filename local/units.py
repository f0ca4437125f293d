"""Let the emulator count read units by the bytes that a request read, as DynamoDB does.

Without this, it counts each read as one of a small item: a query of 11,000 events took 2 units instead of 512.
"""

from __future__ import annotations

import threading
from typing import Any

from ministack.services import dynamodb

# DynamoDB charges reads by blocks of 4 KB, half a unit each, or a whole unit if they are strongly consistent.
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
_BLOCK = 4096
_read = threading.local()


def count_read_units() -> None:
    """Replace the two functions of the emulator that divide reads into pages and count their units."""
    paginate, add_units = dynamodb._paginate_evaluated_items, dynamodb._add_consumed_capacity  # noqa: SLF001

    def paginate_measured(items: Any, limit: Any, table: Any, index_name: Any = None) -> tuple[list[Any], bool]:
        page, has_more = paginate(items, limit, table, index_name)
        _read.size = sum(_measure_item(item, table, index_name) for item in page)
        return page, has_more

    def add_measured_units(result: Any, data: Any, table_name: str, write: bool = False, **more: Any) -> None:
        add_units(result, data, table_name, write=write, **more)
        if not write and "ConsumedCapacity" in result:
            _multiply_units(result["ConsumedCapacity"], max(1, -(-_measure_read(data, table_name) // _BLOCK)))

    dynamodb._paginate_evaluated_items = paginate_measured  # noqa: SLF001
    dynamodb._add_consumed_capacity = add_measured_units  # noqa: SLF001


def _measure_item(item: Any, table: Any, index_name: str | None) -> int:
    """Measure the bytes of an item, or of its entry in an index."""
    entry = dynamodb._apply_index_projection(item, table, index_name) if index_name else item  # noqa: SLF001
    return int(dynamodb._item_size_bytes(entry))  # noqa: SLF001


def _measure_read(data: Any, table_name: str) -> int:
    """Measure the bytes that a request read before its filter and its projection."""
    if "Key" not in data:
        return int(_read.size)
    table = dynamodb._tables[table_name]  # noqa: SLF001
    item = dynamodb._get_item_by_key(table, data["Key"])  # noqa: SLF001
    return _measure_item(item, table, None) if item else 0


def _multiply_units(capacity: dict[str, Any], factor: int) -> None:
    """Multiply the units of a request, and those of its table and indexes."""
    for name, value in capacity.items():
        if name == "CapacityUnits":
            capacity[name] = value * factor
        elif isinstance(value, dict):
            _multiply_units(value, factor)
