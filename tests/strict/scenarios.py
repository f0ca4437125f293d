"""The scenarios of the rules, with the expected result where a rule is in force."""

from collections.abc import Callable
from typing import Any

from strict import Rule
from tests.strict.console import Console

Scenario = Callable[[Console], Any]
SCENARIOS: dict[Rule, tuple[Scenario, Any]] = {}


def shows(rule: Rule, expected: Any) -> Callable[[Scenario], Scenario]:
    """A scenario whose result is expected only where the rule is in force."""

    def register(scenario: Scenario) -> Scenario:
        SCENARIOS[rule] = scenario, expected
        return scenario

    return register
