"""The records of work items, in the catalog's table over the lean client.

``pk`` is ``work#KIND`` and ``sk`` the name of the item, so one Query lists the items of a kind. The record of a recurring
item stays, because its generation must only grow. The pauses of all kinds are one partition, ``pause``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aws.dynamodb.catalog_table import NEW, CatalogTable
from tidetable.events import Item
from tidetable.times import from_text, to_text
from tidetable.work.claim import Claim, Pause, WorkItem

_PAUSES = "pause"
# This text sorts after every name that it follows.
_BEHIND = "~"
_NAMES = {"#until": "until", "#owner": "owner", "#generation": "generation"}
_TIMES = "until", "sent", "waiting"
_SENT = {"#sent": "sent", "#waiting": "waiting"}


class LeanWork(CatalogTable):
    """The records of work items, for the functions that work."""

    def claim(
        self, kind: str, name: str, owner: str, now: datetime, until: datetime, *, added: bool = False
    ) -> Claim | None:
        """Send a conditional UpdateItem, which answers the new record.

        It may be sent again: the owner of a claim may claim its item once more.
        """
        values = {":until": to_text(until), ":now": to_text(now), ":owner": owner, ":one": 1}
        condition = "attribute_not_exists(#until) OR #until <= :now OR #owner = :owner"
        if added:
            condition = f"attribute_exists(pk) AND attribute_not_exists(done) AND ({condition})"
        record = self._change_item(
            Key=_make_key(kind, name),
            UpdateExpression="SET #until = :until, #owner = :owner REMOVE #sent, #waiting ADD #generation :one",
            ConditionExpression=condition,
            ExpressionAttributeNames=_NAMES | _SENT,
            ExpressionAttributeValues=values,
        )
        if record is None:
            return None
        return Claim(kind, name, int(record["generation"]), until, record.get("memo", ""))

    def renew(self, claim: Claim, until: datetime) -> bool:
        return self._change(
            "UpdateItem",
            ConditionExpression="#generation = :generation AND attribute_exists(#until)",
            Key=_make_key(claim.kind, claim.name),
            UpdateExpression="SET #until = :until",
            ExpressionAttributeNames={"#generation": "generation", "#until": "until"},
            ExpressionAttributeValues={":generation": claim.generation, ":until": to_text(until)},
        )

    def release(self, claim: Claim, memo: str, *, done: bool = False, problem: str = "") -> None:
        values: Item = {":generation": claim.generation, ":memo": memo}
        sets, removes = "SET memo = :memo", "REMOVE #until, #owner"
        if done:
            sets += ", done = :generation"
        if problem:
            sets, values[":problem"] = f"{sets}, problem = :problem", problem
        else:
            removes += ", problem"
        self._change(
            "UpdateItem",
            ConditionExpression="#generation = :generation",
            Key=_make_key(claim.kind, claim.name),
            UpdateExpression=f"{sets} {removes}",
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues=values,
        )

    def mark_sent(self, item: WorkItem, now: datetime, until: datetime, *, added: bool = False) -> None:
        # A record without claims has no generation.
        condition = "#generation = :generation" if item.generation else "attribute_not_exists(#generation)"
        values = {":sent": to_text(until), ":waiting": to_text(item.waiting or now)}
        self._change(
            "UpdateItem",
            ConditionExpression=f"attribute_exists(pk) AND {condition}" if added else condition,
            Key=_make_key(item.kind, item.name),
            UpdateExpression="SET #sent = :sent, #waiting = :waiting",
            ExpressionAttributeNames={"#generation": "generation"} | _SENT,
            ExpressionAttributeValues=values | ({":generation": item.generation} if item.generation else {}),
        )

    def add(self, kind: str, name: str, memo: str) -> bool:
        return self._put_if(NEW, {**_make_key(kind, name), "memo": memo})

    def list_items(self, kind: str, prefix: str = "") -> Sequence[WorkItem]:
        """Send a strongly consistent Query."""
        items = self._query(_make_key(kind, "")["pk"], prefix or "0", prefix + _BEHIND, consistent=True)
        return [_read_record(kind, item) for item in items]

    def remove(self, kind: str, name: str) -> None:
        self._delete(_make_key(kind, name))

    def list_pauses(self) -> frozenset[Pause]:
        keys = [item["sk"].partition("#") for item in self._query(_PAUSES, "0", "~", consistent=True)]
        return frozenset(Pause(kind, stream) for kind, _, stream in keys)

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        key = {"pk": _PAUSES, "sk": f"{pause.kind}#{pause.stream}"}
        self._put(key) if on else self._delete(key)


def _make_key(kind: str, name: str) -> Item:
    return {"pk": f"work#{kind}", "sk": name}


def _read_record(kind: str, item: Item) -> WorkItem:
    """Read a record. If it is broken, its item has no memo, and the reason as its problem: the others are read."""
    try:
        until, sent, waiting = (from_text(item[name]) if name in item else None for name in _TIMES)
        done, generation = int(item.get("done", 0)), int(item.get("generation", 0))
    except (TypeError, ValueError) as error:
        return WorkItem(kind, item["sk"], problem=f"its record cannot be read: {error}")
    memo, problem = item.get("memo", ""), item.get("problem", "")
    return WorkItem(kind, item["sk"], memo, until, done, generation, sent, waiting, problem)
