"""API Gateway's own keys: a deployment takes the text of the first key from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from aws.errors import read_error_code

# A right that the same deployment attached is in force some seconds later, and everywhere in IAM after about a minute:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html#troubleshoot_general_eventual-consistency
_ATTEMPTS, _PAUSE_SECONDS = 15, 6.0
_DENIED = frozenset({"AccessDeniedException", "AccessDenied"})


class GatewayKeys:
    """The keys of API Gateway in this account and Region."""

    def __init__(self, client: Callable[[], Any], sleep: Callable[[float], None]) -> None:
        self._client = client
        self._sleep = sleep

    def read_value(self, id: str) -> str:
        """Read the text of a key. Wait while the right to read it is not in force yet."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return str(self._client().get_api_key(apiKey=id, includeValue=True)["value"])
            except ClientError as error:
                if read_error_code(error) not in _DENIED or attempt == _ATTEMPTS:
                    raise
            self._sleep(_PAUSE_SECONDS)
        raise AssertionError("unreachable")
