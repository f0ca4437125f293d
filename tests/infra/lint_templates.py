"""cfn-lint, which knows every property of CloudFormation's resources, over the templates of all kinds of configuration.

`make check` runs these tests, as they are a lint. `make test` does not collect a file with this name: CI runs both commands.
"""

from __future__ import annotations

import json

import pytest

from tests.infra.lint import REGIONS, problems
from tests.infra.synth import BOTH, COPIED, DOORS, EVERYTHING, PAGES, ROLLED_UP, ROOT, Template, located, template

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/tidetable.toml"))


def test_the_example_as_shipped() -> None:
    assert problems(template("dev")) == []


# These Regions have SnapStart.
SNAPSHOTS = ("us-east-1", "eu-central-1")


def test_keys_and_signatures_side_by_side() -> None:
    made = template("dev", BOTH, ("snap_start = false", "snap_start = true"))
    assert problems(made, *SNAPSHOTS, checked=template("dev")) == []


def test_everything_on() -> None:
    assert problems(template("dev", *EVERYTHING), *SNAPSHOTS, checked=template("dev")) == []


def test_everything_that_every_region_offers() -> None:
    offered = [change for change in EVERYTHING if change != ("snap_start = false", "snap_start = true")]
    assert problems(template("dev", *offered), checked=template("dev")) == []


@pytest.mark.parametrize("region", REGIONS[1:])
def test_a_template_with_the_names_of_a_region(region: str) -> None:
    changes = (BOTH, PAGES, *ROLLED_UP, *DOORS)
    first = json.dumps(located(REGIONS[0], *changes).document).replace(REGIONS[0], region)
    assert problems(located(region, *changes), region, checked=Template(json.loads(first))) == []


def test_a_property_that_a_region_does_not_have_is_found() -> None:
    made = template("dev", ("snap_start = false", "snap_start = true"))
    found = problems(made, *REGIONS, checked=template("dev"))
    assert {line.split()[0] for line in found} == {"E2530"}


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
