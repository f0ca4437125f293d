"""DynamoDB's endpoints: the host names of Regions, and the variables by which AWS's own clients choose among them."""

from __future__ import annotations

from collections.abc import Mapping

# The domains of a Region's endpoints with IPv4 and with both IPv4 and IPv6, by the beginning of the Region's name. The
# second is empty if AWS has no such endpoints. A Region of an AWS partition that is not listed here needs the variable
# AWS_ENDPOINT_URL_DYNAMODB.
# https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
DOMAIN, DUAL_DOMAIN = "amazonaws.com", "api.aws"
_DOMAINS = {
    "cn-": ("amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    "eusc-": ("amazonaws.eu", "api.amazonwebservices.eu"),
    "us-iso-": ("c2s.ic.gov", "api.aws.ic.gov"),
    "us-isob-": ("sc2s.sgov.gov", "api.aws.scloud"),
    "us-isof-": ("csp.hci.ic.gov", ""),
    "eu-isoe-": ("cloud.adc-e.uk", ""),
}
# GovCloud's endpoint for IPv4 is a FIPS endpoint itself.
_FIPS_ITSELF = "us-gov-"


def read_endpoint(environment: Mapping[str, str], region: str) -> str:
    """Read the endpoint from the environment, as AWS's own clients do: a whole address goes before the switches."""
    return (
        environment.get("AWS_ENDPOINT_URL_DYNAMODB")
        or environment.get("AWS_ENDPOINT_URL")
        or find_endpoint(
            region,
            dual=_is_on(environment, "AWS_USE_DUALSTACK_ENDPOINT"),
            fips=_is_on(environment, "AWS_USE_FIPS_ENDPOINT"),
        )
    )


def find_endpoint(region: str, *, dual: bool = False, fips: bool = False) -> str:
    """Find DynamoDB's endpoint in a Region, which depends on the Region's AWS partition.

    ``dual`` is for subnets that have IPv6 only, ``fips`` for validated cryptography. ValueError if AWS has no such
    endpoint.
    """
    plain, both = next((found for start, found in _DOMAINS.items() if region.startswith(start)), (DOMAIN, DUAL_DOMAIN))
    if dual and not both:
        raise ValueError(f"AWS_USE_DUALSTACK_ENDPOINT: DynamoDB has no dual-stack endpoint in {region}; unset it")
    service = "dynamodb-fips" if fips and (dual or not region.startswith(_FIPS_ITSELF)) else "dynamodb"
    return f"https://{service}.{region}.{both if dual else plain}"


def _is_on(environment: Mapping[str, str], variable: str) -> bool:
    return environment.get(variable, "").lower() == "true"
