"""AWS Signature Version 4 for DynamoDB's JSON protocol: one POST to ``/``, always the same headers.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from hmac import digest

from aws.http.credentials import Credentials

_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE = "dynamodb"
CONTENT_TYPE = "application/x-amz-json-1.0"


class Signer:
    """Signs requests to one host. The key of a day is derived once."""

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._derived: tuple[tuple[str, str], bytes] | None = None

    def make_headers(self, target: str, body: bytes, now: datetime, credentials: Credentials) -> bytes:
        """Return the headers that a request needs, with the signature; every header ends with a line end."""
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        day = stamp[:8]
        token = credentials.token
        canonical = f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{stamp}\n"
        names = "content-type;host;x-amz-date"
        extra = ""
        if token is not None:
            canonical += f"x-amz-security-token:{token}\n"
            names += ";x-amz-security-token"
            extra = f"X-Amz-Security-Token: {token}\r\n"
        canonical += f"x-amz-target:{target}\n"
        names += ";x-amz-target"
        request = f"POST\n/\n\n{canonical}\n{names}\n{sha256(body).hexdigest()}"
        scope = f"{day}/{self._region}/{_SERVICE}/aws4_request"
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = digest(self._derive_key(day, credentials), text.encode(), "sha256").hex()
        return (
            f"Content-Type: {CONTENT_TYPE}\r\nX-Amz-Date: {stamp}\r\n{extra}X-Amz-Target: {target}\r\n"
            f"Authorization: {_ALGORITHM} Credential={credentials.key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}\r\n"
        ).encode()

    def _derive_key(self, day: str, credentials: Credentials) -> bytes:
        for_what = (day, credentials.secret)
        # Read once: at midnight another thread may replace the key by that of its own day.
        derived = self._derived
        if derived is None or derived[0] != for_what:
            key = f"AWS4{credentials.secret}".encode()
            for part in (day, self._region, _SERVICE, "aws4_request"):
                key = digest(key, part.encode(), "sha256")
            self._derived = derived = for_what, key
        return derived[1]
