"""Notices on the account's default event bus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tidetable.lifecycle.report import Notice

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE = "tidetable"
# AWS: PutEvents takes ten entries.
_BATCH = 10


class EventBus:
    """EventBridge through boto3."""

    def __init__(self, client: EventBridgeClient) -> None:
        self._client = client

    def publish(self, notices: Sequence[Notice]) -> int:
        """Publish notices and return the number of lost notices: an action does not fail because its notice was lost."""
        losses = 0
        for start in range(0, len(notices), _BATCH):
            batch = notices[start : start + _BATCH]
            entries: list[Any] = [
                {"Source": SOURCE, "DetailType": notice.kind, "Detail": json.dumps(notice.detail), "Resources": []}
                for notice in batch
            ]
            try:
                losses += self._client.put_events(Entries=entries)["FailedEntryCount"]
            except (ClientError, BotoCoreError):
                losses += len(batch)
        return losses
