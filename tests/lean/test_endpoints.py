"""DynamoDB's endpoints: each Region's, with the variables for IPv6 and FIPS, as botocore resolves them."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import EndpointVariantError
from botocore.session import get_session

from aws.http.client import LeanClient
from aws.http.endpoints import find_endpoint, read_endpoint

DUAL, FIPS = "AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"


def list_regions() -> list[str]:
    """Every Region of botocore's own list."""
    listed = json.loads(files("botocore").joinpath("data/partitions.json").read_text())["partitions"]
    return sorted(
        {name for one in listed for name in one["regions"] if not name.endswith("-global")} | {"eusc-de-east-1"}
    )


@cache
def share_session() -> Any:
    """A session, which reads botocore's description of DynamoDB once."""
    return get_session()


def resolve(region: str, *, dual: bool, fips: bool) -> str | None:
    """The endpoint of botocore's own client; None if there is none."""
    config = Config(use_dualstack_endpoint=dual, use_fips_endpoint=fips)
    try:
        client = share_session().create_client(
            "dynamodb", region_name=region, aws_access_key_id="a", aws_secret_access_key="b", config=config
        )
    except EndpointVariantError:
        return None
    resolver = client._ruleset_resolver
    operation = client.meta.service_model.operation_model("ListTables")
    url: str = resolver.construct_endpoint(
        operation_model=operation, call_args={}, request_context={"client_config": client.meta.config}
    ).url
    return url


@pytest.mark.parametrize("region", list_regions())
def test_an_endpoint_is_the_one_of_botocore(region: str) -> None:
    for dual, fips in ((False, False), (False, True), (True, False), (True, True)):
        expected = resolve(region, dual=dual, fips=fips)
        if expected is None:
            with pytest.raises(ValueError, match=f"no dual-stack endpoint in {region}; unset it"):
                find_endpoint(region, dual=dual, fips=fips)
        else:
            assert find_endpoint(region, dual=dual, fips=fips) == expected


@pytest.mark.parametrize(
    ("region", "variables", "endpoint"),
    [
        ("eu-west-1", {}, "https://dynamodb.eu-west-1.amazonaws.com"),
        ("eu-west-1", {DUAL: "true"}, "https://dynamodb.eu-west-1.api.aws"),
        ("eu-west-1", {DUAL: "True", FIPS: "false"}, "https://dynamodb.eu-west-1.api.aws"),
        ("us-east-1", {FIPS: "TRUE"}, "https://dynamodb-fips.us-east-1.amazonaws.com"),
        ("us-east-1", {FIPS: "true", DUAL: "true"}, "https://dynamodb-fips.us-east-1.api.aws"),
        ("us-east-1", {FIPS: "", DUAL: "no"}, "https://dynamodb.us-east-1.amazonaws.com"),
        ("us-gov-west-1", {FIPS: "true"}, "https://dynamodb.us-gov-west-1.amazonaws.com"),
        ("us-gov-west-1", {FIPS: "true", DUAL: "true"}, "https://dynamodb-fips.us-gov-west-1.api.aws"),
        ("cn-north-1", {DUAL: "true"}, "https://dynamodb.cn-north-1.api.amazonwebservices.com.cn"),
        ("eusc-de-east-1", {DUAL: "true"}, "https://dynamodb.eusc-de-east-1.api.amazonwebservices.eu"),
        ("us-east-1", {"AWS_ENDPOINT_URL": "http://localhost:4566", DUAL: "true"}, "http://localhost:4566"),
        (
            "us-east-1",
            {"AWS_ENDPOINT_URL_DYNAMODB": "http://db:8000", "AWS_ENDPOINT_URL": "http://localhost:4566", FIPS: "true"},
            "http://db:8000",
        ),
    ],
)
def test_the_variables_of_awss_own_clients_choose_the_endpoint(
    region: str, variables: dict[str, str], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_endpoint(variables, region) == endpoint
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", DUAL, FIPS):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"AWS_REGION": region, **variables}.items():
        monkeypatch.setenv(name, value)
    client = LeanClient.of_process()
    assert f"\r\nHost: {endpoint.partition('//')[2]}\r\n" in client._head.decode()
