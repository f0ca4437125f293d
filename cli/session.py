"""The lean client of the command line: with boto3's endpoint, Region and certificates, and the session's credentials."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from aws.http.client import LeanClient
from aws.http.credentials import Credentials, NoCredentials
from aws.http.proxies import find_proxy


class SessionCredentials:
    """The credentials of a session of boto3: of the environment, a profile, a role or a sign-in. boto3 renews them."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def get(self) -> Credentials:
        """Return the present credentials; NoCredentials says why there are none."""
        try:
            found = self._session.get_credentials()
            if found is None:
                raise NoCredentials("there are no AWS credentials: set them in the environment, or add --profile")
            return Credentials(*found.get_frozen_credentials()[:3])
        # botocore raises RuntimeError for credentials that are still expired after they were refreshed.
        except (BotoCoreError, ClientError, RuntimeError) as error:
            raise NoCredentials(str(error)) from error


def make_lean_client(session: Any, dynamodb: Any) -> LeanClient:
    """Make the client with the settings of boto3's client ``dynamodb``, which the same session has made.

    boto3 finds the endpoint: by an address, the profile, or its switches for FIPS and dual stack. ValueError names a
    proxy or a file of certificates that cannot be used.
    """
    endpoint = dynamodb.meta.endpoint_url
    authorities = session._session.get_config_variable("ca_bundle")  # noqa: SLF001 - boto3 has no other way to read it
    credentials = SessionCredentials(session)
    return LeanClient(
        endpoint, dynamodb.meta.region_name, credentials, proxy=find_proxy(endpoint), authorities=authorities
    )
