"""The last periods of series in the table of the rollups' state, over the lean client.

The record is in the stream's own partition, under ``sk = covered``. A slot is an item of its own partition:
``pk = last#STREAM#SIDE#SLOT``. It has the generation that wrote it, and its content as bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aws.dynamodb.reads import ROUNDS, decode_answer, is_made, make_range_body, read_all
from aws.dynamodb.series_index import Attribute, Found, LeanNotes, decode_found, make_key
from aws.http.client import ServiceRequest
from tidetable.ports import LastPeriods
from tidetable.times import EPOCH, from_text, to_text

# The sort key of the record. It sorts before the edges, so one Query reads both. Versions that do not know the record do
# not read it.
LAST = "covered"
_NUMBERS = ("version", "generation", "side", "slots", "series")
_SPANS = msgspec.json.Decoder(list[tuple[str, str]]).decode


class LeanLastPeriods(LeanNotes):
    """The records of last periods, and their slots."""

    def put_last(self, stream: str, last: LastPeriods, expected: LastPeriods | None) -> bool:
        """Put the record by a conditional PutItem, which is sent once."""
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
        if expected is not None:
            condition = {
                "ConditionExpression": "#version = :version",
                "ExpressionAttributeNames": {"#version": "version"},
                "ExpressionAttributeValues": {":version": {"N": str(expected.version)}},
            }
        item = make_key(stream, LAST) | _make_last_item(last)
        body = msgspec.json.encode({"TableName": self._table, "Item": item, **condition})
        (reply,) = self._client.call_all([ServiceRequest("PutItem", body)])
        return is_made(reply, self._table)

    def put_slots(self, stream: str, last: LastPeriods, first: int, contents: Sequence[bytes]) -> None:
        """Send one PutItem per slot, several under way at once. A PutItem may be repeated."""
        requests = []
        for number, content in enumerate(contents, first):
            key = make_key(_name_slot(stream, last, number), LAST)
            item = {"generation": {"N": str(last.generation)}, "pairs": {"B": b64encode(content).decode()}}
            body = {"TableName": self._table, "Item": key | item}
            requests.append(ServiceRequest("PutItem", msgspec.json.encode(body)))
        for reply in read_all(self._client, requests, ROUNDS):
            is_made(reply, self._table)

    def read_slots(self, stream: str, last: LastPeriods, numbers: Sequence[int]) -> Sequence[bytes] | None:
        """Send one strongly consistent Query per slot, several under way at once.

        The functions that answer queries have no right to GetItem in this table.
        """
        names = [_name_slot(stream, last, number) for number in numbers]
        bodies = [make_range_body(self._table, name, LAST, LAST, consistent=True) for name in names]
        requests = [ServiceRequest("Query", msgspec.json.encode(body), decode_found) for body in bodies]
        contents = []
        for reply in read_all(self._client, requests):
            page: Found = decode_answer(reply, self._table)
            if not page.Items or int(page.Items[0]["generation"].N) != last.generation:
                return None
            contents.append(page.Items[0]["pairs"].B)
        return contents


def _name_slot(stream: str, last: LastPeriods, number: int) -> str:
    return f"last#{stream}#{last.side}#{number}"


def _make_last_item(last: LastPeriods) -> dict[str, dict[str, str]]:
    covered = [[to_text(start), to_text(end)] for start, end in last.covered]
    texts = {name: to_text(getattr(last, name)) for name in ("since", "due", "held")}
    texts["covered"] = msgspec.json.encode(covered).decode()
    numbers = {name: {"N": str(getattr(last, name))} for name in _NUMBERS}
    return {name: {"S": text} for name, text in texts.items()} | numbers


def read_last_item(item: Mapping[str, Attribute]) -> LastPeriods:
    """Read the record of last periods."""
    covered = tuple((from_text(start), from_text(end)) for start, end in _SPANS(item["covered"].S))
    version, generation, side, slots, series = (int(item[name].N) for name in _NUMBERS)
    # A record of an earlier deployment has no ``held``.
    held = from_text(item["held"].S) if "held" in item else EPOCH
    since, due = from_text(item["since"].S), from_text(item["due"].S)
    return LastPeriods(covered, since, due, version, generation, side, slots, series, held)
