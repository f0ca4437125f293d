"""Scan a table without parsing the pages: botocore's parser would cost more than the whole rest of an export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import local
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
from botocore.exceptions import ClientError

from aws.archive.unpack_packs import SettledScan, open_time_scan
from aws.dynamodb.codes import THROTTLED
from aws.errors import name_missing_table, read_error_code
from aws.large.pages import cut_page
from tidetable.archive.ports import RawPage, Source, TimeRange
from tidetable.errors import ArchiveFailed, TableThrottled
from tidetable.layout import Layout

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_OK = 200


class _Consumed(msgspec.Struct):
    CapacityUnits: float = 0.0


class _Answer(msgspec.Struct):
    Items: msgspec.Raw
    Count: int
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Consumed | None = None


_DECODE = msgspec.json.Decoder(_Answer).decode


class RawScan:
    """Scans through boto3, which signs, sends and retries. This class keeps the answer's body before boto3 parses it."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client
        self._answer = local()
        for operation in ("Scan", "Query"):
            client.meta.events.register(f"before-parse.dynamodb.{operation}", self._keep_body)

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Read a page by a strongly consistent Scan, so that it has the last write before the fence.

        If the items' data outside of the table is too large for the memory, the page ends earlier than DynamoDB's page.
        """
        return cut_page(self._read(self._client.scan, table, after, limit, Segment=segment, TotalSegments=segments))

    def partition(
        self,
        table: str,
        pk: str,
        *,
        low: str | None,
        high: str | None = None,
        after: Mapping[str, Any] | None,
        limit: int | None,
    ) -> RawPage:
        """Read the items of one partition key from the sort key ``low`` to ``high``, by a strongly consistent Query."""
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if high is not None:
            condition, values = (
                condition + " AND sk BETWEEN :low AND :high",
                values | {":low": {"S": low or ""}, ":high": {"S": high}},
            )
        elif low is not None:
            condition, values = condition + " AND sk >= :low", values | {":low": {"S": low}}
        options: Any = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values}
        return self._read(self._client.query, table, after, limit, **options)

    def settled(self, layout: Layout) -> SettledScan:
        """Return a scan of the table that reads every event once, also the events in packs."""
        return SettledScan(self, layout)

    def between(self, layout: Layout, range: TimeRange) -> Source:
        """Return a source of the events of a range of time."""
        return open_time_scan(self, layout, range)

    def _read(
        self,
        operation: Callable[..., Any],
        table: str,
        after: Mapping[str, Any] | None,
        limit: int | None,
        **options: Any,
    ) -> RawPage:
        if after is not None:
            options["ExclusiveStartKey"] = after
        if limit is not None:
            options["Limit"] = limit
        # The catalog's queries may use the same client, and they need its parser.
        self._answer.keeps_body = True
        try:
            with name_missing_table(table):
                operation(TableName=table, ConsistentRead=True, ReturnConsumedCapacity="TOTAL", **options)
        except ClientError as error:
            if read_error_code(error) in THROTTLED:
                raise TableThrottled(table) from error
            raise
        finally:
            self._answer.keeps_body = False
        answer = _DECODE(self._answer.body)
        units = answer.ConsumedCapacity.CapacityUnits if answer.ConsumedCapacity is not None else 0.0
        return RawPage(bytes(answer.Items), answer.Count, units, answer.LastEvaluatedKey)

    def _keep_body(self, response_dict: dict[str, Any], **_: Any) -> None:
        """Keep the body and give the parser an empty body; a refusal stays unchanged."""
        if response_dict["status_code"] != _OK or not getattr(self._answer, "keeps_body", False):
            return
        body = response_dict["body"]
        checksum = response_dict["headers"].get("x-amz-crc32")
        if checksum is not None and int(checksum) != crc32(body):
            raise ArchiveFailed("a page of the scan was damaged on its way")
        self._answer.body = body
        response_dict["body"] = b"{}"
