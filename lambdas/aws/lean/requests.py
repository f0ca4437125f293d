"""The data plane's requests, as DynamoDB takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec

from aws.guards import guarded
from aws.wire import item_text
from tidetable.ports import Guard, Guarded, Put

# AWS: BatchWriteItem takes 25 puts and 16 MB.
_BATCH = 25


def put_text(one: Guarded) -> str:
    """A put of a transaction."""
    return f'{{"Put":{{"TableName":{quoted(one.put.table)},"Item":{item_text(one.put.item)}{_guard_text(one)}}}}}'


def put_body(put: Put, guard: Guard) -> bytes:
    """PutItem on a condition; a refusal shows what is there instead."""
    options = '"ReturnConsumedCapacity":"TOTAL","ReturnValuesOnConditionCheckFailure":"ALL_OLD"'
    text = _guard_text(Guarded(put, guard))
    return f'{{"TableName":{quoted(put.table)},"Item":{item_text(put.item)}{text},{options}}}'.encode()


def _guard_text(one: Guarded) -> str:
    members = guarded(one)
    values = members.pop("ExpressionAttributeValues", None)
    text = "".join(f",{quoted(name)}:{msgspec.json.encode(member).decode()}" for name, member in members.items())
    return text + (f',"ExpressionAttributeValues":{item_text(values)}' if values is not None else "")


def batch_body(batch: list[Put]) -> bytes:
    """BatchWriteItem of puts of one table."""
    puts = ",".join([f'{{"PutRequest":{{"Item":{item_text(put.item)}}}}}' for put in batch])
    return f'{{"RequestItems":{{{quoted(batch[0].table)}:[{puts}]}},"ReturnConsumedCapacity":"TOTAL"}}'.encode()


def batches_of(puts: Sequence[Put]) -> Iterator[list[Put]]:
    """Batches of one table each, in turn over the tables and, within one, over its partitions.

    A request is often in the order of its series or times; written in that order, each batch would hit one partition.
    """
    by_table: defaultdict[str, defaultdict[str, list[Put]]] = defaultdict(lambda: defaultdict(list))
    for put in puts:
        by_table[put.table][put.item["pk"]].append(put)
    queues = [_interleaved(list(partitions.values())) for partitions in by_table.values()]
    batches = [[queue[start : start + _BATCH] for start in range(0, len(queue), _BATCH)] for queue in queues]
    yield from _interleaved(batches)


def _interleaved(queues: list[list[Any]]) -> list[Any]:
    """One of each queue in turn, until all are empty."""
    if len(queues) == 1:
        return queues[0]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]
