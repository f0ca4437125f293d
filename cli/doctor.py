"""The command that looks for what is wrong with this machine, the account and a stage."""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any

import boto3
import httpx
import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.text import Text

from cli import clock
from cli.account import read_stack
from cli.common import app, make_grid, out, print_json
from cli.connection import find_emulated_address
from cli.doctoring import (
    Cloud,
    Finding,
    Machine,
    check_account,
    check_endpoints,
    check_file,
    check_machine,
    check_quotas,
    check_stage,
)
from cli.options import DEFAULT, AsJson, ConfigFile, Connection

_COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}


@app.command()
def doctor(
    connection: Connection,
    config: ConfigFile = DEFAULT,
    stage: Annotated[
        str | None, typer.Option(help="A deployed stage to look at, too.", envvar="TIDETABLE_STAGE")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="This machine only: call no account.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong: versions, credentials, quotas, clock, endpoints, a stage. Exit code 1 if something is.

    The report has no secret: paste it into a report of a bug.
    """
    machine = Machine()
    findings = [*check_machine(machine)]
    configured, finding = check_file(config)
    findings.append(finding)
    if not local:
        endpoint = connection.endpoint
        try:
            session = boto3.Session(profile_name=connection.profile, region_name=connection.region)
        except BotoCoreError as error:
            findings.append(Finding("account", "problem", str(error), "check --profile and the AWS configuration"))
        else:
            cloud = Cloud(
                cache(partial(session.client, endpoint_url=endpoint)), session.region_name or "", clock.read_clock
            )
            account = [*check_account(cloud, endpoint)]
            findings += account
            # Also without an answer of the account: a firewall may be the reason.
            findings += check_endpoints(cloud, machine) if cloud.region else ()
            if all(found.state != "problem" or found.check == "clock" for found in account):
                findings += check_quotas(cloud, configured, endpoint) if configured is not None else ()
                findings += _look_at_stage(stage, cloud, endpoint) if stage else ()
    if as_json:
        print_json([found._asdict() for found in findings])
    else:
        _print_findings(findings)
    if any(found.state == "problem" for found in findings):
        raise typer.Exit(1)


def _look_at_stage(stage: str, cloud: Cloud, endpoint: str | None) -> list[Finding]:
    try:
        outputs, status = read_stack(cloud.make_client("cloudformation"), stage)
        found = f"the stack is {status} and has no API"
    except (BotoCoreError, ClientError) as error:
        outputs, found = {}, str(error)
    if "ApiUrl" not in outputs:
        return [Finding(f"stage {stage}", "problem", found, f"deploy it: make deploy STAGE={stage}")]
    url = find_emulated_address(endpoint, outputs["ApiUrl"]) if endpoint else outputs["ApiUrl"].rstrip("/")
    return [*check_stage(stage, outputs, lambda: _ask_health(url))]


def _ask_health(url: str) -> dict[str, Any]:
    """Ask the API for its health; OSError or ValueError says what came instead."""
    try:
        answer = httpx.get(f"{url}/v1/health", timeout=10)
    except httpx.HTTPError as error:
        raise OSError(f"{url} gave no answer: {error}") from error
    if answer.status_code != httpx.codes.OK:
        raise OSError(f"{url}/v1/health answered {answer.status_code}")
    document: dict[str, Any] = answer.json()
    return document


def _print_findings(findings: list[Finding]) -> None:
    grid = make_grid("check", "state", "found", "what to do")
    for found in findings:
        grid.add_row(found.check, Text(found.state, style=_COLOURS[found.state]), Text(found.found), Text(found.advice))
    out.print(grid)
