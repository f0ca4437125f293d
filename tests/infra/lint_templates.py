"""cfn-lint, which knows every property of CloudFormation's resources, over the templates of all kinds of configuration.

`make check` runs these tests, as they are a lint. `make test` does not collect a file with this name: CI runs both commands.
"""

from __future__ import annotations

import json

import pytest

from tests.infra.lint import problems
from tests.infra.synth import BOTH, COPIED, EVERYTHING, ROOT, Template, template

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/tidetable.toml"))


def test_the_example_as_shipped() -> None:
    assert problems(template("dev")) == []


def test_keys_and_signatures_side_by_side() -> None:
    assert problems(template("dev", BOTH, ("snap_start = false", "snap_start = true")), checked=template("dev")) == []


def test_everything_on() -> None:
    assert problems(template("dev", *EVERYTHING), checked=template("dev")) == []


def test_copies_in_other_regions() -> None:
    assert problems(template("dev", COPIED), checked=template("dev")) == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example: str) -> None:
    made = template("dev", file=ROOT / "examples" / example / "tidetable.toml")
    assert problems(made, checked=template("dev")) == []


def test_a_property_that_does_not_exist_and_a_value_out_of_range_are_found() -> None:
    document = json.loads(json.dumps(template("dev").document))
    queue = next(resource for resource in document["Resources"].values() if resource["Type"] == "AWS::SQS::Queue")
    queue["Properties"] |= {"MessageRetentionPeriod": 1_209_601, "Colour": "blue"}
    rules = {line.split()[0] for line in problems(Template(document), checked=template("dev"))}
    assert rules == {"E3002", "E3034"}


def test_all_examples_are_looked_at() -> None:
    assert {"jobs", "orders", "scores", "telemetry"} <= set(EXAMPLES)
