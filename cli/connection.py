"""The API of a stage, for the commands that send and read events."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli.account import name_stack, read_stack
from cli.common import fail
from cli.options import ApiTarget, Target
from tidetable_client import Client, Policy


def open_client(target: ApiTarget, policy: Policy | None = None, **options: Any) -> Client:
    """Open a client for the address and key of the options or, without them, for a deployed stage.

    End the command if there is no such stage.
    """
    url, key = target.url, target.key
    if not url:
        url, first_key = find_api(target)
        key = key or first_key
    if not (key or target.sigv4):
        fail('there is no key: use --key or TIDETABLE_KEY, or --sigv4 for a stage with auth = "iam"')
    try:
        key = None if target.sigv4 else key
        return Client(url, key, sigv4=target.sigv4, region=target.region, policy=policy, **options)
    except ValueError as error:
        fail(str(error))


def find_api(target: Target) -> tuple[str, str | None]:
    """Find the address of a stage's API, and the stage's first key, which is None if the stage has no keys."""
    stage, endpoint = target.stage, target.endpoint
    try:
        session = boto3.Session(profile_name=target.profile, region_name=target.region)
        outputs, status = read_stack(session.client("cloudformation", endpoint_url=endpoint), stage)
        key = None
        if "ApiKeyId" in outputs:
            gateway = session.client("apigateway", endpoint_url=endpoint)
            key = gateway.get_api_key(apiKey=outputs["ApiKeyId"], includeValue=True)["value"]
    except (ClientError, BotoCoreError) as error:
        why = str(error).rstrip(".")
        fail(
            f"the API of stage {stage!r} could not be found: {why}. Use --url and --key, or TIDETABLE_URL and TIDETABLE_KEY"
        )
    url = outputs.get("ApiUrl")
    if url is None:
        fail(
            f"the stack {name_stack(stage)} is {status} and has no API: it is not a deployed"
            " stage, or its first deployment is not done. Use --url and --key"
        )
    return (find_emulated_address(endpoint, url) if endpoint else url), key


def find_emulated_address(endpoint: str, url: str) -> str:
    """Convert an address of the API for an emulator.

    An emulator serves https://<id>.…/<stage>/<path> under a path of its own address.
    """
    parts = urlsplit(url)
    name = (parts.hostname or "").split(".")[0]
    stage, _, path = parts.path.strip("/").partition("/")
    return f"{endpoint.rstrip('/')}/restapis/{name}/{stage}/_user_request_/{path}".rstrip("/")
