"""Sends events to Tidetable without losing any, and reads them.

from tidetable_client import Client

with Client(url, key) as client:
    client.write("quakes", {"series": "ci", "data": {"mag": 4.2}})
"""

from tidetable_client.aio import AsyncClient
from tidetable_client.aio_reading import AsyncQuery
from tidetable_client.client import Client
from tidetable_client.clocks import Clock
from tidetable_client.errors import (
    ApiError,
    BufferFull,
    EventInvalid,
    Failure,
    NotFlushed,
    TidetableError,
    Unreachable,
    WriteFailed,
)
from tidetable_client.outbox import Settled
from tidetable_client.pages import Page
from tidetable_client.policy import Policy
from tidetable_client.reading import Query
from tidetable_client.untyped import UntypedWarning

__all__ = [
    "Client", "Query", "AsyncClient", "AsyncQuery", "Policy", "Page", "Settled", "Clock",
    "TidetableError", "ApiError", "Unreachable", "EventInvalid", "BufferFull", "NotFlushed", "WriteFailed", "Failure",
    "UntypedWarning",
]  # fmt: skip
