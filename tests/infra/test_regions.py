"""What the template has in each kind of Region: nothing that the Region refuses, and warnings about what needs a licence."""

from __future__ import annotations

import aws_cdk as cdk
import pytest

from infra import UsageError
from tests.infra.synth import BOTH, LIMITED, SIGNED, TRACED, Template, app, located, template

TLS_12 = ("SecurityPolicy_TLS13_1_2_2021_06", "BASIC")
TLS_13 = ("SecurityPolicy_TLS13_1_3_2025_09", "BASIC")
DEFAULT_OF_AWS = (None, None)
SNAPSHOTS = ("snap_start = false", "snap_start = true")


def list_policies(made: Template) -> list[tuple[str | None, str | None]]:
    """The security policy and the endpoint access mode of each API."""
    apis = made.all("AWS::ApiGateway::RestApi").values()
    return [(api.get("SecurityPolicy"), api.get("EndpointAccessMode")) for api in apis]


def write_tls(version: str) -> tuple[str, str]:
    return 'tls = "1.2" ', f'tls = "{version}" '


def test_each_address_takes_tls_1_2_and_newer() -> None:
    assert list_policies(template("dev")) == [TLS_12]
    assert list_policies(template("dev", BOTH)) == [TLS_12, TLS_12]


def test_another_least_version_can_be_chosen() -> None:
    assert list_policies(template("dev", BOTH, write_tls("1.3"))) == [TLS_13, TLS_13]
    assert list_policies(template("dev", *LIMITED)) == [DEFAULT_OF_AWS]


@pytest.mark.parametrize(
    ("region", "policy"),
    [
        ("eu-central-1", TLS_12),
        ("cn-north-1", TLS_12),
        ("us-gov-west-1", DEFAULT_OF_AWS),
        ("eusc-de-east-1", DEFAULT_OF_AWS),
    ],
)
def test_a_region_without_security_policies_gets_none(region: str, policy: tuple[str | None, str | None]) -> None:
    assert list_policies(located(region)) == [policy]


def make_app(region: str, *changes: tuple[str, str]) -> cdk.Stack:
    return app("dev", *changes, env=cdk.Environment(account="123456789012", region=region))[1]


@pytest.mark.parametrize(
    ("region", "change", "message"),
    [
        ("cn-north-1", SNAPSHOTS, r"api\.snap_start: cn-north-1 has no SnapStart"),
        ("cn-northwest-1", TRACED, r"observability\.tracing: cn-northwest-1 has no X-Ray"),
        ("us-gov-east-1", SNAPSHOTS, r"api\.snap_start: us-gov-east-1 has no SnapStart"),
        ("us-gov-west-1", write_tls("1.3"), r"api\.tls: us-gov-west-1 has no TLS policies"),
        ("ap-east-2", SNAPSHOTS, r"api\.snap_start: ap-east-2 has no SnapStart"),
        ("eusc-de-east-1", SNAPSHOTS, r"api\.snap_start: eusc-de-east-1 has no SnapStart"),
    ],
)
def test_what_cannot_work_in_the_region_is_refused(region: str, change: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=rf"^1 problem in the configuration:\n  - {message}"):
        make_app(region, change)


def list_warnings(made: Template) -> list[str]:
    return [message for message in made.messages if "tidetable:region" in message]


def test_in_china_the_synth_warns_that_keys_need_a_licence() -> None:
    keyed, others = list_warnings(located("cn-north-1"))
    assert keyed.startswith("api.auth: in cn-north-1, requests with keys get 403 until the account has an ICP licence")
    assert "/v1/health, /console" in others
    (others,) = list_warnings(located("cn-north-1", SIGNED))
    assert "/v1/health, /console" in others
    assert list_warnings(located("us-gov-west-1")) == []
