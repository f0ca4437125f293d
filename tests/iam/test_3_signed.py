"""Signed requests: a caller reaches the streams and routes that its policy names, and no others."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.emulator import REGION, ROOT
from local.stack import _find_api
from tests.iam.conftest import Stage

ACCOUNT = "000000000000"
EVENT = b'{"series": "signed", "id": "1"}'
# A request, and whether the caller of each policy of the documentation may make it.
REQUESTS = {
    ("POST", "/v1/streams/quakes/events"): "send to `quakes`",
    ("GET", "/v1/streams/quakes/events"): "read `quakes`",
    ("GET", "/v1/streams/quakes/periods"): "read `quakes`",
    ("GET", "/v1/streams"): "list the streams",
    ("POST", "/v1/streams/stations/events"): "",
    ("GET", "/v1/streams/stations/events"): "",
    ("GET", "/v1/streams/stations/periods"): "",
}
Call = Callable[[str, str], int]


def policies() -> dict[str, str]:
    """The policies of docs/operate/keys.md: what a caller may do, and the resource that says it."""
    rows = (ROOT / "docs/operate/keys.md").read_text().partition("## Signed requests")[2].splitlines()
    cells = [row.strip("| ").split(" | ") for row in rows if "arn:aws:execute-api" in row]
    return {name: resource.strip("`") for name, resource in cells}


@pytest.fixture(scope="module")
def address(stage: Stage) -> str:
    return _find_api(stage.deployed.endpoint, stage.deployed.outputs["IamApiUrl"])


@pytest.fixture(params=policies())
def caller(request: pytest.FixtureRequest, stage: Stage, address: str) -> tuple[str, Call]:
    """What a policy of the documentation allows, and a user who has nothing but this policy."""
    api = address.split("/restapis/")[1].split("/")[0]
    resource = policies()[request.param]
    for placeholder, value in (("<region>", REGION), ("<account>", ACCOUNT), ("<api>", api)):
        resource = resource.replace(placeholder, value)
    iam, name = stage.deployed.make_client("iam"), f"caller-{list(policies()).index(request.param)}"
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": resource}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    credentials = Credentials(key["AccessKeyId"], key["SecretAccessKey"])
    return request.param, lambda method, path: call(address, credentials, method, path)


def call(address: str, credentials: Credentials | None, method: str, path: str) -> int:
    """The status of a request, signed unless there are no credentials."""
    body = EVENT if method == "POST" else None
    signed = AWSRequest(method, address + path, data=body, headers={"Content-Type": "application/json"})
    if credentials is not None:
        SigV4Auth(credentials, "execute-api", REGION).add_auth(signed)
    request = urllib.request.Request(address + path, data=body, headers=dict(signed.headers), method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the emulator's
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_policy_of_the_documentation_allows_what_it_says_and_nothing_else(caller: tuple[str, Call]) -> None:
    may, send = caller
    # A query without a series may be answered by 400: it has reached the function.
    reached = {route for route in REQUESTS if send(*route) != 403}
    assert reached == {route for route, needed in REQUESTS.items() if may in (needed, "everything")}


def test_who_may_do_nothing_is_refused(stage: Stage, address: str) -> None:
    iam = stage.deployed.make_client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    nobody = Credentials(key["AccessKeyId"], key["SecretAccessKey"])
    forged = Credentials(key["AccessKeyId"], "x" * 40)
    for credentials in (nobody, forged, None):
        assert call(address, credentials, "GET", "/v1/streams") == 403


def test_a_signature_opens_nothing_at_the_address_for_keys(stage: Stage) -> None:
    root = Credentials("test", "test")
    assert call(stage.deployed.api, root, "GET", "/v1/streams") == 403
