"""Event source mappings of tables' streams to the feed's function, through boto3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from aws.errors import ignore_refusal, read_error_code, read_error_message
from tidetable.errors import TableRefused
from tidetable.ports.feeds import FeedSettings, StreamMapping

# AWS: a mapping that is being changed refuses with the first code. The other refusals pass with time, too.
_TRANSIENT = frozenset({"ResourceInUseException", "TooManyRequestsException", "ServiceException"})
# Lambda refuses a wrong parameter and a missing right of the function's role with one code. A new right arrives some
# seconds after its policy. Reported: serverless/serverless#3997, alertlogic/cwe-collector#2 (first message).
_INVALID = "InvalidParameterValueException"
_MISSING_RIGHT = ("Cannot access stream", "The role defined for the function cannot be assumed")
_REFUSALS = _TRANSIENT | {_INVALID, "AccessDeniedException"}
# Deletions are not changes: events are deleted only with their whole table, and that makes no records of deletions.
_PATTERN = '{"eventName":["INSERT","MODIFY"]}'


class LambdaMappings:
    """The mappings of one function; the client is created at its first use, as most stages never need it."""

    def __init__(self, client: Callable[[], Any], function: str) -> None:
        self._client = client
        self._function = function

    def list(self) -> Sequence[StreamMapping]:
        pages = self._client().get_paginator("list_event_source_mappings").paginate(FunctionName=self._function)
        return [_read_mapping(mapping) for page in pages for mapping in page["EventSourceMappings"]]

    def create(self, source: str, settings: FeedSettings) -> bool:
        """Make a mapping without limits of retries and age.

        Lambda sends a failed batch again, whole or in halves, until its records expire. The function itself decides
        which changes become dead letters: if Lambda dropped a batch itself, its record of the batch would not contain
        the events.
        """
        with ignore_refusal("ResourceConflictException"), _translate_refusals():
            self._client().create_event_source_mapping(
                EventSourceArn=source,
                FunctionName=self._function,
                Enabled=True,
                StartingPosition="TRIM_HORIZON",
                BisectBatchOnFunctionError=True,
                MaximumRetryAttempts=-1,
                MaximumRecordAgeInSeconds=-1,
                FunctionResponseTypes=["ReportBatchItemFailures"],
                FilterCriteria={"Filters": [{"Pattern": _PATTERN}]},
                **_make_members(settings),
            )
            return True
        return False

    def update(self, mapping: StreamMapping, settings: FeedSettings) -> None:
        with _translate_refusals():
            self._client().update_event_source_mapping(UUID=mapping.id, Enabled=True, **_make_members(settings))

    def delete(self, mapping: StreamMapping) -> None:
        with ignore_refusal("ResourceNotFoundException"), _translate_refusals():
            self._client().delete_event_source_mapping(UUID=mapping.id)


def _make_members(settings: FeedSettings) -> dict[str, Any]:
    return {
        "BatchSize": settings.batch,
        "MaximumBatchingWindowInSeconds": settings.window,
        "ParallelizationFactor": settings.parallel,
    }


def _read_mapping(mapping: Any) -> StreamMapping:
    window, parallel = mapping.get("MaximumBatchingWindowInSeconds", 0), mapping.get("ParallelizationFactor", 1)
    settings = FeedSettings(mapping.get("BatchSize", 0), window, parallel)
    return StreamMapping(mapping["UUID"], mapping.get("EventSourceArn", ""), mapping["State"], settings)


@contextmanager
def _translate_refusals() -> Iterator[None]:
    """Translate Lambda's refusals into the core's error; other errors rise unchanged."""
    try:
        yield
    except ClientError as error:
        code = read_error_code(error)
        if code not in _REFUSALS:
            raise
        message = read_error_message(error)
        transient = code in _TRANSIENT or (code == _INVALID and message.startswith(_MISSING_RIGHT))
        raise TableRefused(f"{code}: {message}", transient=transient) from error
