"""Event source mappings through boto3: what Lambda is asked, and what its refusals mean."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.mappings import LambdaMappings
from tidetable.errors import TableRefused
from tidetable.ports.feeds import FeedSettings, StreamMapping

SOURCE = "arn:aws:dynamodb:eu-central-1:123456789012:table/tidetable-t.s.2026-03-01/stream/2026-03-01T00:00:00.000"
MAPPING = StreamMapping("id", SOURCE, "Enabled", FeedSettings(100, 1))


class Client:
    """Lambda's client: two pages of mappings, and a refusal if there is a code."""

    def __init__(self, code: str = "", message: str = "because") -> None:
        self.code = code
        self.message = message
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_event_source_mappings"
        return self

    def paginate(self, **parameters: Any) -> Any:
        self.sent.append(("list", parameters))
        mapping = {"UUID": "1", "EventSourceArn": SOURCE, "State": "Enabled", "BatchSize": 7}
        yield {"EventSourceMappings": [mapping | {"MaximumBatchingWindowInSeconds": 3, "ParallelizationFactor": 2}]}
        yield {"EventSourceMappings": [{"UUID": "2", "State": "Creating"}]}

    def __getattr__(self, operation: str) -> Any:
        def call(**parameters: Any) -> None:
            self.sent.append((operation, parameters))
            if self.code:
                raise ClientError({"Error": {"Code": self.code, "Message": self.message}}, operation)

        return call


def mappings(client: Any) -> LambdaMappings:
    return LambdaMappings(lambda: client, "feed")


def test_the_mappings_of_the_function_are_listed_page_by_page() -> None:
    client = Client()
    assert mappings(client).list() == [
        StreamMapping("1", SOURCE, "Enabled", FeedSettings(7, 3, 2)),
        StreamMapping("2", "", "Creating", FeedSettings(0, 0)),
    ]
    assert client.sent == [("list", {"FunctionName": "feed"})]


@pytest.mark.parametrize(
    ("source", "table"),
    [
        (SOURCE, "tidetable-t.s.2026-03-01"),
        ("", ""),
        ("arn:aws:sqs:eu-central-1:123456789012:queue", ""),
        ("arn:aws:kinesis:eu-central-1:123456789012:stream/a/consumer/b", ""),
    ],
)
def test_a_mapping_says_its_table(source: str, table: str) -> None:
    assert StreamMapping("1", source, "Enabled", FeedSettings(7, 3)).table == table


def test_a_mapping_reads_from_the_oldest_record_and_tries_until_records_expire() -> None:
    client = Client()
    assert mappings(client).create(SOURCE, FeedSettings(50, 2, 3))
    assert client.sent == [
        (
            "create_event_source_mapping",
            {
                "EventSourceArn": SOURCE,
                "FunctionName": "feed",
                "Enabled": True,
                "StartingPosition": "TRIM_HORIZON",
                "BisectBatchOnFunctionError": True,
                "MaximumRetryAttempts": -1,
                "MaximumRecordAgeInSeconds": -1,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "FilterCriteria": {"Filters": [{"Pattern": '{"eventName":["INSERT","MODIFY"]}'}]},
                "BatchSize": 50,
                "MaximumBatchingWindowInSeconds": 2,
                "ParallelizationFactor": 3,
            },
        )
    ]


def test_a_stream_that_is_mapped_already_is_no_error() -> None:
    assert not mappings(Client("ResourceConflictException")).create(SOURCE, FeedSettings(50, 2))


def test_an_update_also_enables() -> None:
    client = Client()
    mappings(client).update(MAPPING, FeedSettings(7, 0))
    settings = {"UUID": "id", "Enabled": True, "BatchSize": 7, "MaximumBatchingWindowInSeconds": 0}
    settings["ParallelizationFactor"] = 1
    assert client.sent == [("update_event_source_mapping", settings)]


def test_a_mapping_that_is_gone_need_not_be_deleted() -> None:
    client = Client("ResourceNotFoundException")
    mappings(client).delete(MAPPING)
    assert client.sent == [("delete_event_source_mapping", {"UUID": "id"})]


@pytest.mark.parametrize("change", ["create", "update", "delete"])
@pytest.mark.parametrize(
    ("code", "transient"),
    [
        ("ResourceInUseException", True),
        ("TooManyRequestsException", True),
        ("ServiceException", True),
        ("InvalidParameterValueException", False),
        ("AccessDeniedException", False),
    ],
)
def test_refusals_that_pass_are_told_from_those_that_stay(change: str, code: str, transient: bool) -> None:
    made = mappings(Client(code))
    calls: dict[str, Any] = {
        "create": lambda: made.create(SOURCE, FeedSettings(1, 1)),
        "update": lambda: made.update(MAPPING, FeedSettings(1, 1)),
        "delete": lambda: made.delete(MAPPING),
    }
    with pytest.raises(TableRefused, match=f"{code}: because") as refused:
        calls[change]()
    assert refused.value.transient is transient


@pytest.mark.parametrize(
    ("message", "transient"),
    [
        (
            f"Cannot access stream {SOURCE}. Please ensure the role can perform the GetRecords, GetShardIterator, …",
            True,
        ),
        ("The role defined for the function cannot be assumed by Lambda.", True),
        (f"Stream not found: {SOURCE}", False),
        ("Batch size must not be greater than 10000. Cannot access stream", False),
    ],
)
def test_a_right_that_has_not_arrived_yet_is_told_from_a_wrong_parameter(message: str, transient: bool) -> None:
    """Both have one code: in the deploy that adds the first feed, the policy of the role is some seconds old."""
    made = mappings(Client("InvalidParameterValueException", message))
    with pytest.raises(TableRefused) as refused:
        made.create(SOURCE, FeedSettings(1, 1))
    assert refused.value.transient is transient
    made = mappings(Client("AccessDeniedException", message))
    with pytest.raises(TableRefused) as refused:
        made.create(SOURCE, FeedSettings(1, 1))
    assert not refused.value.transient, "a right of the lifecycle itself"


def test_any_other_error_rises() -> None:
    with pytest.raises(ClientError):
        mappings(Client("ResourceNotFoundException")).create(SOURCE, FeedSettings(1, 1))
    with pytest.raises(ClientError):
        mappings(Client("ResourceConflictException")).delete(MAPPING)
