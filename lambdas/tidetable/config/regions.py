"""What Regions of AWS do not offer. The functions do not need this module; the synthesis and the command line do."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidetable.config.model import Config

# The partitions of AWS by the beginnings of their Regions' names. Every other Region is in "aws".
# https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "eusc-": "aws-eusc",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
    "eu-isoe-": "aws-iso-e",
}
# AWS Lambda Developer Guide, "SnapStart: supported Regions": all commercial Regions but New Zealand and Taipei.
_NO_SNAPSHOTS = ("ap-southeast-6", "ap-east-2")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a Region offers.

    ``snap_start``: snapshots of Python functions. ``tracing``: X-Ray traces of functions. ``log_levels``: JSON logs of
    functions, and with them levels. ``log_class``: the log class for infrequent access. ``security_policies``: TLS
    policies for the addresses of APIs. ``open_api``: API Gateway answers requests that AWS did not authenticate, also
    if the account has no licence.
    """

    snap_start: bool = True
    tracing: bool = True
    log_levels: bool = True
    log_class: bool = True
    security_policies: bool = True
    open_api: bool = True


# "AWS Lambda in AWS GovCloud (US)": no SnapStart for Python, no JSON logs. "Amazon API Gateway in AWS GovCloud (US)":
# no policies that begin with SecurityPolicy_. "Getting Started with AWS in China", Lambda: no SnapStart for Python, no
# X-Ray; API Gateway: a licence for unauthenticated requests, and Lambda authorizers count as unauthenticated.
# The log class is documented for commercial Regions only.
_OFFERS = {
    "aws": Offer(),
    "aws-cn": Offer(snap_start=False, tracing=False, log_class=False, open_api=False),
    "aws-us-gov": Offer(snap_start=False, log_levels=False, log_class=False, security_policies=False),
}
# The documents of the other partitions do not list these features, so a stage does without them.
_UNKNOWN = Offer(snap_start=False, log_levels=False, log_class=False, security_policies=False)


def find_partition(region: str) -> str:
    """Find the partition of a Region, such as "aws-cn"."""
    return next((name for start, name in _PARTITIONS.items() if region.startswith(start)), "aws")


def find_offer(region: str) -> Offer:
    """Find what a Region offers. An empty text is a Region that is not known: it counts as a commercial Region."""
    offer = _OFFERS.get(find_partition(region), _UNKNOWN)
    return msgspec.structs.replace(offer, snap_start=False) if region in _NO_SNAPSHOTS else offer


def check_offer(config: Config, region: str) -> Iterator[str]:
    """Yield the settings that cannot work in a Region, each with its key and its fix."""
    offer, api = find_offer(region), config.api
    if api.snap_start and not offer.snap_start:
        yield f"api.snap_start: {region} has no SnapStart for Python functions; set it to false"
    if config.observability.tracing and not offer.tracing:
        yield f"observability.tracing: {region} has no X-Ray for functions; set it to false"
    if api.tls == "1.3" and not offer.security_policies:
        yield f'api.tls: {region} has no TLS policies for the addresses of APIs, so "1.3" cannot be required; remove it'


def advise_offer(config: Config, region: str) -> Iterator[str]:
    """Yield the settings that work in a Region only under a condition, each with its key."""
    offer, api = find_offer(region), config.api
    if offer.open_api:
        return
    if api.by_key:
        yield (
            f"api.auth: in {region}, requests with keys get 403 until the account has an ICP licence for API Gateway in this"
            ' Region; only signed requests (auth = "iam") work without it: docs/start/deploy.md'
        )
    pages = ["/v1/health", *(["/console"] if api.console else [])]
    doors = config.doors
    pages += [
        *(["/ping", "/health"] if doors.influx else []),
        *(["OPTIONS of cloudevents"] if doors.cloudevents else []),
    ]
    pages += ["OPTIONS of pages of other origins (cors)"] if api.cors else []
    yield (
        f"api: in {region}, requests without credentials get 403 until the account has an ICP licence:"
        f" {', '.join(pages)}"
    )
