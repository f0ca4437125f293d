"""The root certificates of Amazon Trust Services, by which clients trust the certificates of AWS's endpoints.

``roots.pem`` has the five roots of https://www.amazontrust.com/repository/. AWS says that a client must trust all five. In a
cold start, they load in less than 1 ms; a whole bundle takes 20 ms (docs/decisions/0017).
"""

from __future__ import annotations

import ssl
from pathlib import Path

from aws.http.endpoints import DOMAIN, DUAL_DOMAIN

ROOTS_FILE = Path(__file__).with_name("roots.pem")


def make_context(host: str, authorities: str | None) -> ssl.SSLContext:
    """Make the context that verifies certificates: by the given file, else by Amazon's own roots for AWS's endpoints, else
    by the system's roots. ValueError if the file cannot be used.
    """
    if authorities is not None:
        try:
            return ssl.create_default_context(cafile=authorities)
        except OSError as error:
            raise ValueError(f"AWS_CA_BUNDLE: {authorities} is not a file of certificates: {error}") from error
    if host.endswith((f".{DOMAIN}", f".{DUAL_DOMAIN}")):
        return ssl.create_default_context(cafile=ROOTS_FILE)
    return ssl.create_default_context()
