"""The advice on simulated histories is the right one, which is known."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.advise import write_lines
from cli.advising import advise
from cli.advising.finding import Finding
from cli.advising.history import History
from tests.worlds.advised import BY_KIND, BY_SERIES, CASES, stream
from tests.worlds.histories import Traffic, daily, live, steady
from tidetable.config import parse


@cache
def simulate_history(name: str) -> History:
    """The history of a case. Several tests look at it."""
    case = CASES[name]
    return live(case.text, case.traffic, case.days)


@cache
def find_advice(name: str) -> Sequence[Finding]:
    return advise(simulate_history(name)).findings


@pytest.mark.parametrize("name", CASES)
def test_the_advice_is_right(name: str) -> None:
    lines = {finding.rule: tomllib.loads(finding.toml)["streams"]["s"] for finding in find_advice(name)}
    assert lines == CASES[name].right


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.right])
def test_the_lines_of_each_finding_make_a_valid_configuration(name: str) -> None:
    """With the lines the stream is parsed, and judged again by the same history, the same lines are not advised."""
    case = CASES[name]
    history = simulate_history(name)
    for finding in find_advice(name):
        document = merged(tomllib.loads(case.text), tomllib.loads(finding.toml))
        changed = parse(dump(document))
        assert changed.streams["s"] != history.stream
        again = advise(replace(history, stream=changed.streams["s"])).findings
        assert finding.toml not in [other.toml for other in again]


def saving(name: str, rule: str) -> float:
    (found,) = (own for own in find_advice(name) if own.rule == rule)
    assert found.saving is not None
    return found.saving


def test_a_saving_is_what_the_bill_would_lose() -> None:
    """By hand, of the largest amounts: units x $0.00065 x 730 hours, or $0.625 and $0.125 per million units."""
    seconds = 730 * 3600
    # 1,200 units for a day and a quarter of an hour, a late table, two tables ahead; 52.5 units per second on demand.
    before = (1200 * (1 + 0.25 / 24) + 3 + 7) * 0.00065 * 730
    assert saving("a provisioned stream with one busy hour costs less on demand", "mode") == pytest.approx(
        before - 52.5 * seconds * 0.625 / 1e6, rel=0.03
    )
    # 6.875 events per second, each a unit of the index and 500 bytes of it for eight days and a half.
    units, stored = 6.875 * seconds * 0.625 / 1e6, 6.875 * 86_400 * 500 * 8 / 1e9 * 0.25
    assert saving("an index that nobody reads", "unused_index") == pytest.approx(units + stored, rel=0.03)
    # Four queries per second read 16 ranges in place of one, at half a unit each.
    ranges = 4 * 15 * 0.5 * seconds * 0.125 / 1e6
    name = "sixteen shards for a hundred events per second, queried four times per second"
    assert saving(name, "shards") == pytest.approx(ranges, rel=0.01)


def test_the_example_of_the_page_is_what_the_command_prints() -> None:
    case = CASES["a provisioned stream with one busy hour costs less on demand"]
    text = case.text.replace("streams.s", "streams.orders")
    lines = [line for line, _ in write_lines(advise(live(text, case.traffic)))]
    page = (Path(__file__).parents[2] / "docs" / "operate" / "advice.md").read_text()
    assert "\n".join(f"    {line}" if line else "" for line in lines).rstrip() in page


def test_without_logs_it_is_said_what_is_not_judged() -> None:
    history = live(stream(BY_SERIES), Traffic(daily(10, 2600, 12), hot=0.5, shares_known=False, uses=None))
    advice = advise(replace(history, writing=None, missing=("the logs were not read",)))
    assert [finding.rule for finding in advice.findings] == ["shards"]
    assert advice.missing == (
        "the queries' conditions are not known: no advice about indexes, buckets and fewer shards",
        "the events per request are not known: no advice about packs",
        (
            "the heaviest partition keys are not known: turn on Contributor Insights for the newest table, in the mode"
            " ACCESSED_AND_THROTTLED_KEYS, for a day"
        ),
        "the logs were not read",
    )


def test_a_stream_without_events_is_not_judged() -> None:
    advice = advise(live(stream(tail=BY_KIND), Traffic(steady(0))))
    assert advice.findings == ()
    assert advice.missing == ("no table of the stream was written to: there is nothing to judge",)


def dump(document: dict[str, Any]) -> str:
    """A configuration as TOML, all tables inline."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{key} = {text(inner)}" for key, inner in value.items()) + " }"
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        return f'"{value}"' if isinstance(value, str) else str(value).lower()

    return "\n".join(f"{key} = {text(value)}" for key, value in document.items())


def merged(document: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A configuration with changed lines; lists replace lists."""
    both = {name: document.get(name) for name in (*document, *change)}
    return {
        name: merged(old or {}, change[name]) if isinstance(change.get(name), dict) else change.get(name, old)
        for name, old in both.items()
    }
