"""The scan of an export: its requests to DynamoDB, and the refusal of damaged pages."""

import json
from io import BytesIO
from typing import Any
from zlib import crc32

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError

from aws.archive.scan import RawScan
from tidetable.errors import ArchiveFailed, TableMissing, TableThrottled

PAGE = json.dumps(
    {
        "Items": [{"pk": {"S": "a#0"}}],
        "Count": 1,
        "ScannedCount": 1,
        "LastEvaluatedKey": {"pk": {"S": "a#0"}},
        "ConsumedCapacity": {"TableName": "t", "CapacityUnits": 256.0},
    }
).encode()


NO_CHECKSUM = -1


class Wire:
    """DynamoDB's answers, and the requests to it."""

    def __init__(self, body: bytes = PAGE, status: int = 200, crc: int | None = None) -> None:
        self.requests: list[Any] = []
        self.answer(body, status, crc)
        client = boto3.client(
            "dynamodb",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}),
        )
        events: Any = client.meta.events
        for operation in ("Scan", "Query"):
            events.register(f"before-send.dynamodb.{operation}", self._send)
        self.client = client
        self.scan = RawScan(client)

    def answer(self, body: bytes, status: int = 200, crc: int | None = None) -> None:
        """Answer the next requests in this way."""
        self._answer = body, status, crc32(body) if crc is None else crc

    def _send(self, request: Any, **_: Any) -> AWSResponse:
        self.requests.append(json.loads(request.body))
        body, status, crc = self._answer
        headers: Any = {} if crc == NO_CHECKSUM else {"x-amz-crc32": str(crc)}
        return AWSResponse(request.url, status, headers, _Raw(body))

    def page(self, limit: int | None = None) -> Any:
        return self.scan.page("t", segment=1, segments=4, after={"pk": {"S": "x"}}, limit=limit)


class _Raw(BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


def test_a_page_is_read_consistently_and_is_given_as_it_came() -> None:
    """The completeness of an archive rests on it: the last write before the fence must be in it."""
    wire = Wire()
    page = wire.page(limit=7)
    assert wire.requests == [
        {
            "TableName": "t",
            "ConsistentRead": True,
            "Segment": 1,
            "TotalSegments": 4,
            "ReturnConsumedCapacity": "TOTAL",
            "ExclusiveStartKey": {"pk": {"S": "x"}},
            "Limit": 7,
        }
    ]
    assert (page.items, page.count, page.units) == (b'[{"pk": {"S": "a#0"}}]', 1, 256.0)
    assert page.after == {"pk": {"S": "a#0"}}


@pytest.mark.parametrize(
    ("form", "place"),
    [("out", {"o": {"S": "large/x"}}), ("out", {"v": {"S": "f"}, "n": {"N": "5"}}), ("cold", {"v": {"S": "f"}})],
)
def test_a_page_ends_before_the_data_beside_its_items_is_too_much_for_the_memory(form: str, place: Any) -> None:
    """An item without its data is small, so a page of 1 MB may have items with gigabytes of data."""
    marker = {"M": {**place, "b": {"N": "2500000"}}}
    items = [{"pk": {"S": "a#0"}, "sk": {"S": str(n)}, form: marker, "at": {"N": "1"}} for n in range(9)]
    answer = {"Items": items, "Count": 9, "ScannedCount": 9, "ConsumedCapacity": {"CapacityUnits": 2.0}}
    page = Wire(json.dumps(answer).encode()).page()
    assert json.loads(page.items) == items[:6], "15 MB of at most 16"
    assert (page.count, page.units, page.after) == (6, 2.0, {"pk": {"S": "a#0"}, "sk": {"S": "5"}})
    answer["Items"] = items[:6]
    page = Wire(json.dumps(answer).encode()).page()
    assert (json.loads(page.items), page.after) == (items[:6], None)


@pytest.mark.parametrize(("size", "count"), [(8_000_000, 2), (8_000_001, 1)])
def test_a_page_has_16_megabytes_beside_its_items_at_the_most(size: int, count: int) -> None:
    items = [{"pk": {"S": "a#0"}, "sk": {"S": n}, "out": {"M": {"b": {"N": str(size)}}}} for n in "123"]
    assert Wire(json.dumps({"Items": items, "Count": 3}).encode()).page().count == count


def test_an_event_with_too_much_data_beside_it_is_a_page() -> None:
    items = [{"pk": {"S": "a#0"}, "sk": {"S": n}, "out": {"M": {"b": {"N": "99000000"}}}} for n in ("1", "2")]
    page = Wire(json.dumps({"Items": items, "Count": 2}).encode()).page()
    assert (json.loads(page.items), page.after) == (items[:1], {"pk": {"S": "a#0"}, "sk": {"S": "1"}})


@pytest.mark.parametrize("low", [None, "2026-03-01T00:00:00.000000Z"])
@pytest.mark.parametrize("after", [None, {"pk": {"S": "a#0"}, "sk": {"S": "x"}}])
def test_a_partition_is_read_consistently_from_a_sort_key_on(low: str | None, after: Any) -> None:
    wire = Wire()
    page = wire.scan.partition("t", "a#0", low=low, after=after, limit=None)
    condition, values = "pk = :pk", {":pk": {"S": "a#0"}}
    if low is not None:
        condition, values = "pk = :pk AND sk >= :low", values | {":low": {"S": low}}
    (request,) = wire.requests
    assert request == {
        "TableName": "t",
        "ConsistentRead": True,
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ReturnConsumedCapacity": "TOTAL",
        **({} if after is None else {"ExclusiveStartKey": after}),
    }
    assert page.items == b'[{"pk": {"S": "a#0"}}]'


def test_the_last_page_of_a_server_that_counts_no_units_and_sends_no_checksum_is_read() -> None:
    """As DynamoDB Local's is."""
    page = Wire(b'{"Items":[],"Count":0,"ScannedCount":0}', crc=NO_CHECKSUM).page()
    assert (page.items, page.count, page.units, page.after) == (b"[]", 0, 0.0, None)


def test_other_requests_of_the_same_client_are_parsed_as_ever() -> None:
    """The catalog may be read by the client of the scan."""
    wire = Wire()
    for _ in range(2):
        assert wire.client.scan(TableName="t")["Items"] == [{"pk": {"S": "a#0"}}]
        assert wire.page().items == b'[{"pk": {"S": "a#0"}}]'


def test_two_scans_of_one_client_read_their_own_pages() -> None:
    wire = Wire()
    scans = [wire.scan, RawScan(wire.client)]
    pages = [scan.page("t", segment=0, segments=1, after=None, limit=None) for scan in scans]
    assert [page.items for page in pages] == [b'[{"pk": {"S": "a#0"}}]'] * 2


def test_other_requests_are_parsed_as_ever_after_a_page_that_was_refused() -> None:
    wire = Wire(json.dumps({"__type": "x#ProvisionedThroughputExceededException"}).encode(), 400)
    with pytest.raises(TableThrottled):
        wire.page()
    wire.answer(PAGE)
    assert wire.client.scan(TableName="t")["Items"] == [{"pk": {"S": "a#0"}}]


def test_a_page_that_was_damaged_on_its_way_is_refused() -> None:
    with pytest.raises(ArchiveFailed, match="damaged on its way"):
        Wire(crc=1).page()


@pytest.mark.parametrize(
    ("code", "error"),
    [("ProvisionedThroughputExceededException", TableThrottled), ("ResourceNotFoundException", TableMissing)],
)
def test_a_refusal_is_told_by_its_kind(code: str, error: type[Exception]) -> None:
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()
    with pytest.raises(error):
        Wire(body, 400).page()


def test_a_refusal_that_waiting_does_not_mend_is_not_called_throttling() -> None:
    body = json.dumps({"__type": "com.amazon.coral.service#AccessDeniedException", "message": "no"}).encode()
    with pytest.raises(ClientError, match="AccessDenied"):
        Wire(body, 400).page()
