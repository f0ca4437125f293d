"""A target of a feed: keeps the newest state of each order in PostgreSQL. Changes may come twice, late and in any order.

Deploy it as a Lambda function with psycopg and the variable ``DATABASE_URL``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json import dumps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

# Of two states of an event the newer has the greater `sequence`, whenever they come. So it is harmless to apply a change
# again, and after newer changes.
UPSERT = """
INSERT INTO orders AS known (shop, time, id, sequence, customer, total, data, ref)
VALUES (%(shop)s, %(time)s, %(id)s, %(sequence)s, %(customer)s, %(total)s, %(data)s, %(ref)s)
ON CONFLICT (shop, time, id) DO UPDATE SET
    sequence = excluded.sequence, customer = excluded.customer,
    total = excluded.total, data = excluded.data, ref = excluded.ref
WHERE known.sequence < excluded.sequence
"""


def apply_changes(connection: Connection[Any], changes: Sequence[Mapping[str, Any]]) -> None:
    """Apply changes in one transaction: all of them, or after an error none, and the feed sends them again."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(UPSERT, [_row_of(change) for change in changes])


def _row_of(change: Mapping[str, Any]) -> dict[str, Any]:
    """The row of an order. Without data (larger than a target takes) its columns are null, and ``ref`` finds the event."""
    data = change["data"]
    total = (data or {}).get("total")
    return {
        "shop": change["series"],
        "time": change["time"],
        "id": change["id"],
        "sequence": change["sequence"],
        "customer": (data or {}).get("customer"),
        "total": None if total is None else Decimal(str(total)),
        "data": None if data is None else dumps(data, default=str),
        "ref": change["ref"],
    }


_connections: list[Connection[Any]] = []


def handler(event: Mapping[str, Any], _: object) -> None:
    """Apply the changes of an invocation; an error lets the feed send them again."""
    import psycopg

    if not _connections or _connections[-1].closed:
        _connections[:] = [psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)]
    apply_changes(_connections[-1], event["changes"])
