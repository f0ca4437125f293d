"""Every rule, in force and left out: each scenario must end differently without its rule."""

from pathlib import Path

import pytest

import tests.strict.batches
import tests.strict.changes
import tests.strict.copies
import tests.strict.local
import tests.strict.requests
import tests.strict.throughput  # noqa: F401
from strict import Rule
from tests.strict.console import Console, outcome
from tests.strict.scenarios import SCENARIOS


@pytest.mark.parametrize("rule", list(Rule))
def test_the_rule_is_enforced(rule: Rule) -> None:
    scenario, expected = SCENARIOS[rule]
    assert scenario(Console()) == expected


@pytest.mark.parametrize("rule", list(Rule))
def test_without_the_rule_the_scenario_ends_differently(rule: Rule) -> None:
    scenario, expected = SCENARIOS[rule]
    assert scenario(Console(without={rule})) != expected


def test_a_large_batch_of_binary_values_is_weighed_as_it_is_sent() -> None:
    console = Console()
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})
    bodies = [{"pk": {"S": f"{n:02}"}, "sk": {"S": "1"}, "b": {"B": bytes(390_000)}} for n in range(25)]
    assert outcome(lambda: console.batch(bodies)) == "done"


def test_every_rule_names_its_source() -> None:
    text = (Path(__file__).parents[2] / "docs" / "inside" / "aws.md").read_text()
    sections = {part.partition("\n")[0].strip(): part for part in text.split("\n### ")[1:]}
    assert set(sections) == {rule.value for rule in Rule}
    for rule, section in sections.items():
        assert "Source: " in " ".join(section.split()), f"{rule} has no source"
