"""What `doctor` looks at: each check gives findings with a state and, if something is wrong, what to do.

The checks call nothing but the ports that they are handed, so that they can be tested without an account.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection

from tidetable.config import Config, load
from tidetable.config.demand import list_demands
from tidetable.errors import ConfigError
from tidetable.version import VERSION

State = Literal["ok", "note", "problem"]
PYTHON, NODE, OLD_NODE = (3, 11), 22, 20
# AWS refuses a signature whose time is more than five minutes away from its own
# (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html).
_MOST_SKEW, _NOTED_SKEW = 300, 5
# New accounts may have 10 concurrent executions in all; the default of older ones is 1,000.
_FEW_EXECUTIONS = 100
# AWS refuses a reservation that leaves fewer to the functions without one
# (docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html).
_UNRESERVED = 100
# The services that a deploy and the commands call.
SERVICES = ("cloudformation", "dynamodb", "s3", "lambda", "sqs", "apigateway", "cloudwatch", "logs", "sts")
# The quota "Maximum number of tables" of DynamoDB.
_TABLES = {"ServiceCode": "dynamodb", "QuotaCode": "L-F98FE922"}
_SECONDS = 3.0


class Finding(NamedTuple):
    """One line of the report. ``advice`` says what to do; it is empty if all is well."""

    check: str
    state: State
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Machine:
    """This machine: its Python, a way to run a program, and a way to reach an address."""

    python: tuple[int, int] = sys.version_info[:2]
    run: Callable[[Sequence[str]], str] = lambda words: subprocess.run(  # noqa: S603 - fixed words
        words, capture_output=True, text=True, timeout=20, check=True
    ).stdout.strip()
    reach: Callable[[str, int], None] = lambda host, port: socket.create_connection((host, port), _SECONDS).close()


def check_machine(machine: Machine) -> Iterator[Finding]:
    """Compare Python and Node.js with what the project needs."""
    yield Finding("tidetable", "ok", VERSION)
    name = ".".join(map(str, machine.python))
    needed = ".".join(map(str, PYTHON))
    if machine.python >= PYTHON:
        yield Finding("Python", "ok", name)
    else:
        yield Finding("Python", "problem", name, f"install Python {needed} or newer: make PYTHON=python3.13 setup")
    try:
        version = machine.run(["node", "--version"])
        major = int(version.removeprefix("v").partition(".")[0])
    except (OSError, ValueError, subprocess.SubprocessError):
        advice = f"install Node.js {NODE} or newer: the CDK needs it to synthesise and deploy"
        yield Finding("Node.js", "problem", "not found", advice)
        return
    if major >= NODE:
        yield Finding("Node.js", "ok", version)
    elif major >= OLD_NODE:
        yield Finding("Node.js", "note", version, f"it works, but the CDK ended its support: take Node.js {NODE}")
    else:
        yield Finding("Node.js", "problem", version, f"install Node.js {NODE} or newer")


def check_file(file: Path) -> tuple[Config | None, Finding]:
    """Load the configuration; a missing file is a note, because some commands work without it."""
    if not file.exists():
        return None, Finding("configuration", "note", f"{file} does not exist", "name your file with --config")
    try:
        config = load(file)
    except ConfigError as error:
        more = f" and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
        return None, Finding("configuration", "problem", f"{error.problems[0]}{more}", f"bin/tidetable check {file}")
    count = len(config.streams)
    return config, Finding("configuration", "ok", f"{file}: {count} stream{'s' if count != 1 else ''}")


@dataclass(frozen=True)
class Cloud:
    """An account: ``make_client`` makes boto3's client of a service, ``region`` is empty if none is known."""

    make_client: Callable[[str], Any]
    region: str
    now: Callable[[], datetime]


def check_account(cloud: Cloud, endpoint: str | None = None) -> Iterator[Finding]:
    """Ask who the caller is, and compare AWS's clock with this machine's. ``endpoint`` is the address of a local stage."""
    if not cloud.region:
        yield Finding("Region", "problem", "not known", "set AWS_REGION, or add --region")
        return
    yield Finding("Region", "ok", cloud.region)
    try:
        answer = cloud.make_client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        advice = "set credentials in the environment, add --profile, or sign in again"
        if isinstance(error, HTTPClientError | NoConnection):
            advice = "the network is in the way: see endpoints below"
        yield Finding("account", "problem", str(error), advice)
        return
    yield Finding("account", "ok", f"{answer['Account']}, as {answer['Arn']}")
    sent = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if sent:
        yield _compare_clocks((cloud.now() - parsedate_to_datetime(sent)).total_seconds(), endpoint)


def _compare_clocks(skew: float, endpoint: str | None) -> Finding:
    found = (
        f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} {f'the stage at {endpoint}' if endpoint else 'AWS'}"
    )
    if endpoint and abs(skew) > _NOTED_SKEW:
        # The demo moves the clock of its stage to the first hour of a rollup; this machine's clock is right.
        return Finding("clock", "note", found, "a local stage has a clock of its own, which `make demo` moves")
    if abs(skew) > _MOST_SKEW:
        return Finding("clock", "problem", found, "set the clock (NTP): AWS refuses signatures of more than 300 s away")
    if abs(skew) > _NOTED_SKEW:
        return Finding(
            "clock", "note", found, "set the clock (NTP): a sender with this clock has its events refused early"
        )
    return Finding("clock", "ok", f"within 5 s of {f'the stage at {endpoint}' if endpoint else 'AWS'}")


def check_quotas(cloud: Cloud, config: Config, endpoint: str | None = None) -> Iterator[Finding]:
    """Compare the quotas that the configuration needs with those of the account; a local stage at an endpoint has none."""
    if endpoint:
        yield Finding("quotas", "ok", f"the stage at {endpoint} is not an account of AWS, and has none")
        return
    needed = sum(demand.tables for demand in list_demands(config))
    yield _read_quota(
        "DynamoDB tables",
        lambda: cloud.make_client("service-quotas").get_service_quota(**_TABLES)["Quota"]["Value"],
        needed,
        f"the configuration needs up to {needed:,}",
        "ask for more in Service Quotas, or keep tables for a shorter time",
    )
    yield _check_executions(cloud, config)
    yield _read_quota(
        "requests per second of API Gateway",
        lambda: cloud.make_client("apigateway").get_account()["throttleSettings"]["rateLimit"],
        config.api.rate,
        f"[api] rate is {config.api.rate:,}",
        "lower [api] rate, or ask for more in Service Quotas",
    )


def _check_executions(cloud: Cloud, config: Config) -> Finding:
    """Compare the account's executions with those that the stage reserves, or with what a small stage needs."""
    needed, why = _FEW_EXECUTIONS, "each request takes two while it is answered"
    advice = "ask for 1,000 in Service Quotas: with so few, bursts are refused with 429 and 502"
    state: State = "note"
    if config.api.concurrency is not None:
        functions = 2 + config.api.console + config.doors.any
        needed = config.api.concurrency * functions + _UNRESERVED
        why = (
            f"[api] concurrency = {config.api.concurrency:,} of {functions} functions and the {_UNRESERVED} that AWS keeps "
            f"unreserved are {needed:,}"
        )
        advice, state = "lower [api] concurrency, or ask for more in Service Quotas: a deploy would fail", "problem"
    return _read_quota(
        "concurrent executions of Lambda",
        lambda: cloud.make_client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"],
        needed,
        why,
        advice,
        state=state,
    )


def _read_quota(
    name: str, read: Callable[[], float], needed: float, why: str, advice: str, *, state: State = "problem"
) -> Finding:
    try:
        limit = read()
    except (BotoCoreError, ClientError, KeyError) as error:
        return Finding(name, "note", f"could not be read: {error}", f"look into Service Quotas: {why}")
    if limit < needed:
        return Finding(name, state, f"{limit:,.0f}; {why}", advice)
    return Finding(name, "ok", f"{limit:,.0f}; {why}")


def check_endpoints(cloud: Cloud, machine: Machine) -> Iterator[Finding]:
    """Open a connection to the endpoint of each service."""
    refused = []
    for service in SERVICES:
        address = urlsplit(cloud.make_client(service).meta.endpoint_url)
        try:
            machine.reach(address.hostname or "", address.port or (80 if address.scheme == "http" else 443))
        except OSError as error:
            refused.append(f"{service} ({address.hostname}: {error})")
    if refused:
        advice = "allow these addresses in the proxy or firewall, or check the network"
        yield Finding("endpoints", "problem", f"not reachable: {', '.join(refused)}", advice)
    else:
        yield Finding("endpoints", "ok", f"{len(SERVICES)} services can be reached")


def check_stage(
    stage: str, outputs: Mapping[str, str], ask_health: Callable[[], Mapping[str, Any]]
) -> Iterator[Finding]:
    """Compare the deployed version with this one, and ask the API for its health."""
    deployed = outputs.get("Version", "")
    if deployed == VERSION:
        yield Finding(f"stage {stage}", "ok", f"version {deployed}")
    else:
        advice = f"deploy this version (make deploy STAGE={stage}), or use the checkout of the deployed one"
        yield Finding(f"stage {stage}", "note", f"version {deployed or 'unknown'}, here is {VERSION}", advice)
    try:
        health = ask_health()
    except (OSError, ValueError) as error:
        yield Finding(
            "API", "problem", str(error), "look at the alarms of the stage, and into the logs of the query function"
        )
        return
    yield Finding("API", "ok", f"{health.get('status')}, version {health.get('version', 'unknown')}")
