"""Commands of this version on a stage whose catalog a newer version wrote: none acts, and each says what to do."""

from typing import Any

import pytest

from tests.fakes.stage import CATALOG, Stage
from tests.worlds.commands import functions, run, stage

__all__ = ["functions", "stage"]

REASON = (
    "has format 3, and Tidetable 0.1.0.dev0 reads format 2: a newer version runs this stage, so deploy that version"
)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        ("archive", "s", "2026-03-15T09"),
        ("restore", "s", "2026-03-15T09"),
    ],
)
def test_a_command_refuses_to_misread_the_catalog_of_a_newer_version(stage: Stage, words: tuple[str, ...]) -> None:
    client: Any = stage.client
    for item in client.scan(TableName=CATALOG)["Items"]:
        if "state" in item:
            client.put_item(TableName=CATALOG, Item=item | {"format": {"N": "3"}, "layout": {"S": "of the future"}})
    stage.settle()
    result = run(*words)
    assert (result.exit_code, REASON in result.output) == (1, True)
