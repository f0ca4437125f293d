"""The command that gives advice from measurements."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

import typer

from bill.prices import describe_prices
from cli import clock, measure
from cli.advising import Advice, Finding
from cli.advising import advise as judge
from cli.billing import describe_date
from cli.common import app, choose_streams, find_account, out, print_json, run_task, say
from cli.completion import complete_stream
from cli.measure_units import LONGEST
from cli.options import DEFAULT, AsJson, ConfigFile, Target
from tidetable.config import load


@app.command()
def advise(
    target: Target,
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.", autocompletion=complete_stream)] = None,
    days: Annotated[int, typer.Option(help="The number of days to judge.", min=1, max=LONGEST.days)] = 14,
    as_json: AsJson = False,
) -> None:
    """Give advice from measurements about shards, buckets, periods, packs, capacity and indexes.

    Each finding has its figures and its saving. The command changes nothing: a finding prints the lines of
    tidetable.toml that replace those of the same keys. A saving is an estimate for one change alone, by AWS's list
    prices: apply one change, and ask again after a week.
    """
    configured = load(config)
    streams = {name: policy for name, policy in configured.streams.items() if not policy.source}
    policies = choose_streams(streams, stream).values()
    account, now = find_account(target), clock.read_clock()
    sources = measure.open_sources(account, target.endpoint)
    advice = []
    for policy in policies:
        history = run_task(
            f"reading the measurements of {policy.name}",
            lambda policy=policy: measure.measure_history(account, sources, policy, now, timedelta(days=days)),
        )
        advice.append(judge(history))
    if as_json:
        print_json({"advice": [own.document() for own in advice], "prices": describe_prices()})
        return
    for line, style in (pair for own in advice for pair in write_lines(own)):
        # Not wrapped, because users copy the lines.
        out.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    say(describe_date())


def write_lines(advice: Advice) -> Iterator[tuple[str, str | None]]:
    """Write the advice as lines of text, each with its style."""
    summary = f"{len(advice.findings)} to change" if advice.findings else "nothing to change"
    yield f"{advice.stream}: {summary}, by {advice.days:.1f} days", "bold"
    for number, finding in enumerate(advice.findings, 1):
        yield "", None
        yield f"  {number}. {finding.text}: {_describe_saving(finding)} (confidence: {finding.confidence})", "green"
        for line in finding.evidence:
            yield f"     - {line}", None
        yield "", None
        for line in finding.toml.splitlines():
            yield f"         {line}", None
    for line in advice.missing:
        yield f"  missing: {line}", "yellow"
    yield "", None


def _describe_saving(finding: Finding) -> str:
    if finding.saving is None:
        return "against throttling"
    word = "saves" if finding.saving >= 0 else "costs"
    return f"{word} ${abs(finding.saving):,.2f} per month"
