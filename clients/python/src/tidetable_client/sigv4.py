"""Sign requests with AWS credentials, for stages with ``auth = "iam"``. This needs the extra ``sigv4`` (botocore)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx


class SigV4(httpx.Auth):
    """Signature Version 4 for API Gateway.

    Each attempt is signed anew, because a signature is valid for five minutes.
    """

    requires_request_body = True

    def __init__(self, region: str | None = None, credentials: Any = None) -> None:
        try:
            from botocore.auth import SigV4Auth
            from botocore.awsrequest import AWSRequest
            from botocore.session import Session
        except ImportError as error:
            raise ValueError("sigv4=True needs botocore: pip install 'tidetable-client[sigv4]'") from error
        session = Session()
        self._sign, self._request = SigV4Auth, AWSRequest
        self._region = region or session.get_config_variable("region")
        usable: Any = credentials or session.get_credentials()
        if usable is None:
            raise ValueError("there are no AWS credentials: set them in the environment, or configure a profile")
        self._credentials = usable

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the headers of the signature."""
        address = str(request.url)
        signed = self._request(method=request.method, url=address, data=request.content)
        for name in ("content-type", "host"):
            if name in request.headers:
                signed.headers[name] = request.headers[name]
        credentials = self._credentials
        if hasattr(credentials, "get_frozen_credentials"):
            credentials = credentials.get_frozen_credentials()  # renewed if they are about to expire
        self._sign(credentials, "execute-api", _find_region(address) or self._region or _refuse_region()).add_auth(
            signed
        )
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in signed.headers:
                request.headers[name] = signed.headers[name]
        yield request


def _find_region(address: str) -> str | None:
    """Find the Region in an address of API Gateway, <id>.execute-api.<region>.amazonaws.com; None for any other
    address.

    This Region overrides every setting: the gateway refuses a signature for another Region.
    """
    parts = (urlsplit(address).hostname or "").split(".")
    if len(parts) > 3 and parts[1] == "execute-api":
        return parts[2]
    return None


def _refuse_region() -> NoReturn:
    raise ValueError("no Region is known: use region=..., or set AWS_REGION")
