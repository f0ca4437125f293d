"""What a refusal of AWS says.

Refusals are told apart by their code, not by ``client.exceptions.X``: botocore builds those classes at the first use of a
client and without a lock, so that two threads may each get classes of their own, and one thread's ``except`` misses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from aws.codes import NOT_FOUND
from tidetable.errors import TableMissing


def error_code(error: ClientError) -> str:
    """The refusal's code, empty if there is none."""
    return error.response.get("Error", {}).get("Code", "")


def error_message(error: ClientError) -> str:
    """The refusal's message, empty if there is none."""
    return error.response.get("Error", {}).get("Message", "")


@contextmanager
def naming_table(table: str) -> Iterator[None]:
    """Turn DynamoDB's "not found" into TableMissing of this table; anything else passes as it is."""
    try:
        yield
    except ClientError as error:
        if error_code(error) == NOT_FOUND:
            raise TableMissing(table) from error
        raise
