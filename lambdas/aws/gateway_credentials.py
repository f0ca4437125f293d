"""API Gateway's own keys: a deployment takes the text of the first key from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws.errors import ignore_refusal

# A right that the same deployment attached is in force some seconds later, and everywhere in IAM after about a minute:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html#troubleshoot_general_eventual-consistency
_ATTEMPTS, _PAUSE_SECONDS = 15, 6.0
_DENIED = frozenset({"AccessDeniedException", "AccessDenied"})


class GatewayCredentials:
    """The keys of API Gateway in this account and Region."""

    def __init__(self, client: Callable[[], Any], sleep: Callable[[float], None]) -> None:
        self._client = client
        self._sleep = sleep

    def read_value(self, id: str) -> str:
        """Read the text of a key. Wait while the right to read it is not in force yet."""
        for _ in range(_ATTEMPTS - 1):
            with ignore_refusal(*_DENIED):
                return self._read(id)
            self._sleep(_PAUSE_SECONDS)
        return self._read(id)

    def _read(self, id: str) -> str:
        return str(self._client().get_api_key(apiKey=id, includeValue=True)["value"])
