"""A deployed stage is never replaced: its resources keep their logical ids and types, and its outputs their names.

CloudFormation deletes a resource whose logical id is gone and makes another: a queue with its messages, an API with its
address. logical_ids.json has those of the stages that are deployed. New resources need not be in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.infra.synth import BOTH, DOORS, NOTIFYING, ROLLED_UP, STORED_BY_KEY, TRACED, template

DEPLOYED: dict[str, Any] = json.loads(Path(__file__).with_name("logical_ids.json").read_text())
KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "as shipped": (),
    "everything": (
        *ROLLED_UP,
        *DOORS,
        BOTH,
        TRACED,
        NOTIFYING,
        STORED_BY_KEY,
        ("snap_start = false", "snap_start = true"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_resource_and_output_of_a_deployed_stage_is_still_there(kind: str) -> None:
    made = template("dev", *KINDS[kind])
    before = {(id, type) for type, ids in DEPLOYED[kind]["resources"].items() for id in ids}
    now = {(id, resource["Type"]) for id, resource in made.resources.items()}
    assert before - now == set()
    assert set(DEPLOYED[kind]["outputs"]) - set(made.document["Outputs"]) == set()


def test_the_list_is_of_whole_stages() -> None:
    counts = {kind: sum(map(len, DEPLOYED[kind]["resources"].values())) for kind in KINDS}
    assert counts == {"as shipped": 167, "everything": 307}
    assert DEPLOYED["as shipped"]["resources"]["AWS::DynamoDB::Table"] == [
        "StorageCatalogBA94E8E8",
        "StorageRollups7265698E",
    ]
