"""The messages that wake workers, as functions receive them from their queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers._observe import logger
from tidetable.work.claim import ItemName
from tidetable.work.message import read_message


class Woken(NamedTuple):
    """The item of a message, and the name of the worker that the message wakes."""

    name: ItemName
    owner: str


def read_woken(record: Mapping[str, Any], context: LambdaContext) -> Woken | None:
    """Read the message of a queue's record. None, with a line in the log, if nobody can read it: it becomes a dead letter."""
    try:
        name = read_message(record["body"])
    except msgspec.DecodeError as error:
        logger.error("message not read", reason=str(error), message_id=record["messageId"])
        return None
    return Woken(name, f"{context.aws_request_id} {record['messageId']}")


def answer_queue(*refused: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a queue: the messages of the records in ``refused`` come again, and are dead letters in the end."""
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in refused]}
