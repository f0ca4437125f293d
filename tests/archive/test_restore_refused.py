"""A restore of an event that DynamoDB refuses for ever."""

from typing import Any

import pytest

from strict.refusals import Refusal
from tests.worlds.restores import LABEL, TABLE, delete_first_tables
from tidetable.errors import ArchiveFailed


def test_an_event_that_dynamodb_refuses_ends_the_restore_with_the_reason() -> None:
    """The next run would be refused, too: it must not say that the time was too short."""
    stage = delete_first_tables()
    call = stage.dynamo.call

    def refuse(operation: str, payload: Any) -> Any:
        if operation == "BatchWriteItem" or (operation == "PutItem" and payload["TableName"] == TABLE):
            raise Refusal("ValidationException", "the reason of the service")
        return call(operation, payload)

    stage.dynamo.call = refuse  # type: ignore[method-assign]
    with pytest.raises(ArchiveFailed, match=r"DynamoDB refuses an event of .*: ValidationException: the reason"):
        stage.restore("s", LABEL)
