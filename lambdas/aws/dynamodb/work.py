"""The records of work items, in the catalog's table over the lean client.

``pk`` is ``work#KIND`` and ``sk`` the stream. A record stays, because its generation must only grow. The pauses of all
kinds are one partition, ``pause``, so one Query reads them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from aws.dynamodb.catalog import CatalogTable
from aws.dynamodb.reads import ROUNDS, is_made, read_all
from aws.dynamodb.wire import encode_item
from aws.http.client import ServiceRequest
from tidetable.events import Item
from tidetable.times import to_text
from tidetable.work.claim import Claim, Pause

_PAUSES = "pause"


class _Generation(msgspec.Struct):
    N: str


class _Attributes(msgspec.Struct):
    generation: _Generation


class _Updated(msgspec.Struct):
    Attributes: _Attributes


_UPDATED = msgspec.json.Decoder(_Updated).decode


class LeanWork(CatalogTable):
    """The records of work items, for the functions that work."""

    def claim(self, kind: str, stream: str, owner: str, now: datetime, until: datetime) -> Claim | None:
        """Send a conditional UpdateItem, which answers the new generation.

        It may be sent again: the owner of a claim may claim its item once more.
        """
        values = {":until": to_text(until), ":now": to_text(now), ":owner": owner, ":one": 1}
        change = {
            "TableName": self._table,
            "Key": msgspec.Raw(encode_item(_make_key(kind, stream)).encode()),
            "UpdateExpression": "SET #until = :until, #owner = :owner ADD #generation :one",
            "ConditionExpression": "attribute_not_exists(#until) OR #until <= :now OR #owner = :owner",
            "ExpressionAttributeNames": {"#until": "until", "#owner": "owner", "#generation": "generation"},
            "ExpressionAttributeValues": msgspec.Raw(encode_item(values).encode()),
            "ReturnValues": "ALL_NEW",
        }
        (reply,) = read_all(self._client, [ServiceRequest("UpdateItem", msgspec.json.encode(change), _UPDATED)], ROUNDS)
        if not is_made(reply, self._table):
            return None
        return Claim(kind, stream, int(reply.Attributes.generation.N), until)

    def release(self, claim: Claim) -> bool:
        return self._change(
            "UpdateItem",
            ConditionExpression="#generation = :generation",
            Key=_make_key(claim.kind, claim.stream),
            UpdateExpression="REMOVE #until, #owner",
            ExpressionAttributeNames={"#until": "until", "#owner": "owner", "#generation": "generation"},
            ExpressionAttributeValues={":generation": claim.generation},
        )

    def list_pauses(self) -> frozenset[Pause]:
        return frozenset(Pause(*item["sk"].split("#", 1)) for item in self._query(_PAUSES, "0", "~", consistent=True))

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        key = {"pk": _PAUSES, "sk": f"{pause.kind}#{pause.stream}"}
        self._put(key) if on else self._delete(key)


def _make_key(kind: str, stream: str) -> Item:
    return {"pk": f"work#{kind}", "sk": stream}
