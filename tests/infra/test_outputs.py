"""The outputs: the value of each, written out. The command line finds a stage by them."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra.synth import Template

# Each value is a reference, which is shown as the logical id of its target without the hash.
OUTPUTS = {
    "ApiUrl": "ApiRest",
    "Version": "0.1.0.dev0",
    "ConsoleUrl": "ApiRest",
    "ApiId": "ApiRest",
    "ApiKeyId": "ApiRestKey",
    "ApiUsagePlan": "ApiRestPlan",
    "ArchiveBucket": "StorageArchive",
    "ArchiveDatabase": "tidetable_dev",
    "CatalogTable": "StorageCatalog",
    "LifecycleFunction": "LifecycleFunction",
    "ArchiverFunction": "LifecycleArchiver",
    "RestorerFunction": "LifecycleRestorer",
    "SweeperFunction": "LifecycleSweeper",
    "LakeFunction": "LifecycleLake",
    "OverflowQueueUrl": "IngestOverflow",
    "DeadLetterQueueUrl": "IngestDeadLetters",
    "FeedFunction": "FeedFunction",
    "FeedDeadLetterQueueUrl": "FeedDeadLetters",
    "WorkDeadLetterQueueUrl": "WorkDeadLetters",
    "ArchivesQueueUrl": "WorkArchives",
    "RestoresQueueUrl": "WorkRestores",
    "FilesQueueUrl": "WorkFiles",
    "LakeQueueUrl": "WorkLake",
    "IngestLogs": "IngestFunctionLogs",
    "QueryLogs": "QueryFunctionLogs",
}
OF_EVERYTHING = {"DoorsLogs": "DoorsFunctionLogs", "RefresherFunction": "RollupsFunction", "LightQueueUrl": "WorkLight"}
# The CDK adds the address of each API.
BY_CDK = "ApiRestEndpoint"


def _name_target(value: Any) -> str:
    if isinstance(value, str):
        return value
    found = re.search(r'"(?:Ref|Fn::GetAtt)": \[?"([A-Za-z0-9]+?)[0-9A-F]{8}"', json.dumps(value))
    assert found is not None, value
    return found[1]


def _read_outputs(made: Template) -> dict[str, str]:
    outputs = made.document["Outputs"].items()
    return {name: _name_target(one["Value"]) for name, one in outputs if not name.startswith(BY_CDK)}


def test_an_output_names_this(dev: Template, rolled: Template) -> None:
    assert _read_outputs(dev) == OUTPUTS
    assert _read_outputs(rolled) == OUTPUTS | OF_EVERYTHING
    assert dev.document["Outputs"]["ConsoleUrl"]["Value"]["Fn::Join"][1][-1].endswith("/console")
    assert "reader" not in dev.document["Description"]
