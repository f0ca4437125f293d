"""The record of the drain's last beat, in the table of the rollups' state: every stage has it, and the functions of the
write path may read it and put items there.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from aws.dynamodb.reads import decode_answer, make_range_body
from aws.dynamodb.series_index import decode_found, make_key
from aws.http.client import LeanClient, ServiceRequest
from tidetable.ingest.beat import BEAT
from tidetable.times import EPOCH, to_micros

_SORT = "overflow"


class LeanBeats:
    """One item: ``at`` is when the last beat was sent, in epoch milliseconds.

    Each method sends one request, once: a caller may wait, and the next beat comes in minutes.
    """

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def read(self) -> datetime | None:
        body = make_range_body(self._table, BEAT, _SORT, _SORT, consistent=True)
        (reply,) = self._client.call_all([ServiceRequest("Query", msgspec.json.encode(body), decode_found)])
        items = decode_answer(reply, self._table).Items
        return EPOCH + timedelta(milliseconds=int(items[0]["at"].N)) if items else None

    def write(self, sent: datetime) -> None:
        item = make_key(BEAT, _SORT) | {"at": {"N": str(to_micros(sent) // 1000)}}
        body = msgspec.json.encode({"TableName": self._table, "Item": item})
        decode_answer(self._client.call("PutItem", body), self._table)
