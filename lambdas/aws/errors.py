"""The errors of boto3, and the code and message of a refusal of AWS.

Refusals are distinguished by their code, not by ``client.exceptions.X``: botocore builds those classes at the first use
of a client and without a lock. So two threads may get different classes for one refusal, and then the ``except`` of one
thread does not catch it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aws.dynamodb.codes import NOT_FOUND
from tidetable.errors import Outage, StoreUnavailable, TableMissing


def list_aws_errors() -> tuple[type[Exception], ...]:
    """Return the classes of boto3's errors (a refusal, no answer). It imports botocore only after a failure."""
    from botocore.exceptions import BotoCoreError, ClientError

    return ClientError, BotoCoreError


def read_error_code(error: Exception) -> str:
    """Read the refusal's code; empty if it has no code."""
    return _read_error(error, "Code")


def read_error_message(error: Exception) -> str:
    """Read the refusal's message; empty if it has no message."""
    return _read_error(error, "Message")


def _read_error(error: Exception, field: str) -> str:
    # If there was no answer, "response" is absent or None.
    response = getattr(error, "response", None)
    text: str = response.get("Error", {}).get(field, "") if isinstance(response, dict) else ""
    return text


@contextmanager
def ignore_refusal(*codes: str) -> Iterator[None]:
    """End the block without an error if AWS refuses a request with one of these codes; other errors pass unchanged."""
    try:
        yield
    except list_aws_errors() as error:
        if read_error_code(error) not in codes:
            raise


@contextmanager
def require_answer(code: str, service: str) -> Iterator[None]:
    """Turn every error of AWS into StoreUnavailable, which says that the service did not answer."""
    try:
        yield
    except list_aws_errors() as error:
        raise StoreUnavailable(Outage.OTHER, f"{service} did not answer: {error}", code) from error


@contextmanager
def name_missing_table(table: str) -> Iterator[None]:
    """Turn DynamoDB's "not found" into TableMissing of this table; other errors pass unchanged."""
    try:
        yield
    except list_aws_errors() as error:
        if read_error_code(error) == NOT_FOUND:
            raise TableMissing(table) from error
        raise
