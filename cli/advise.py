"""The command that advises by what was measured."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from cli import clock, measure
from cli.advising import Advice, Finding
from cli.advising import advise as judge
from cli.common import (
    DEFAULT,
    USAGE,
    AsJson,
    ConfigFile,
    Endpoint,
    Profile,
    Region,
    Stage,
    app,
    fail,
    find_account,
    out,
    print_json,
    read_config,
    run_task,
)
from cli.measure_units import LONGEST


@app.command()
def advise(
    stage: Stage = "dev",
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.")] = None,
    days: Annotated[int, typer.Option(help="Judge so many days.", min=1, max=LONGEST.days)] = 14,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Advise by what was measured: shards, buckets, periods, packs, capacity, indexes, each with its figures and its
    saving.

    Changes nothing: each finding prints the lines of tidetable.toml that replace those of the same keys. Savings are estimates
    by AWS's list prices, for one change alone: apply one, and ask again after a week.
    """
    configured = read_config(config)
    streams = {name: policy for name, policy in configured.streams.items() if not policy.source}
    if stream is not None and stream not in streams:
        fail(f"there is no stream {stream!r}; there are {', '.join(streams)}", USAGE)
    account, now = find_account(stage, endpoint, profile, region), clock.read_clock()
    sources = measure.open_sources(account, endpoint)
    chosen = [policy for name, policy in streams.items() if stream in (None, name)]
    advice = []
    for policy in chosen:
        history = run_task(
            f"reading what was measured of {policy.name}",
            lambda policy=policy: measure.measure(account, sources, policy, now, timedelta(days=days)),
        )
        advice.append(judge(history))
    if as_json:
        print_json([own.document() for own in advice])
        return
    for own in advice:
        _print(own)


def _print(advice: Advice) -> None:
    found = f"{len(advice.findings)} to change" if advice.findings else "nothing to change"
    _say(f"{advice.stream}: {found}, by {advice.days:.1f} days", style="bold")
    for number, finding in enumerate(advice.findings, 1):
        _say(f"\n  {number}. {finding.text}: {_price(finding)} (confidence: {finding.confidence})", style="green")
        for line in finding.evidence:
            _say(f"     - {line}")
        _say("")
        for line in finding.toml.splitlines():
            _say(f"         {line}")
    for line in advice.missing:
        _say(f"  missing: {line}", style="yellow")
    _say("")


def _price(finding: Finding) -> str:
    if finding.saving is None:
        return "against throttling"
    word = "saves" if finding.saving >= 0 else "costs"
    return f"{word} ${abs(finding.saving):,.2f} per month"


def _say(text: str, style: str | None = None) -> None:
    # Not wrapped: the lines are to be copied.
    out.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
