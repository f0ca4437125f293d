"""What a stage with copies in other Regions has besides: rights, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.rights import COPIES, COPIES_TAGS
from tests.infra.synth import ALL_GOES, COPIED, Template, actions, app, checked, resources, template

LIFECYCLE = ("lifecycle", "deployment")
REGIONS = ("ap-northeast-1", "eu-west-1")
FORMER = ("former_regions = []", 'former_regions = ["eu-west-1"]')
SERVICE = "replication.dynamodb.amazonaws.com"


@pytest.fixture(scope="module")
def copied() -> Template:
    return template("dev", COPIED)


def on(made: Template, handler: str, service: str, region: str, name: str) -> set[str]:
    """The actions of a function on what is named in a Region."""
    wanted = f'":{service}:{region}:", {{"Ref": "AWS::AccountId"}}, ":{name}"'
    return {
        action
        for statement in made.statements(handler)
        if any(wanted in text for text in resources(statement))
        for action in actions(statement)
    }


@pytest.mark.parametrize("handler", LIFECYCLE)
def test_copies_are_made_in_the_named_regions_and_tagged_and_deleted_in_any(copied: Template, handler: str) -> None:
    makes, deletes = COPIES
    for region in REGIONS:
        assert on(copied, handler, "dynamodb", region, "table/tidetable-dev.*") == makes
        assert on(copied, handler, "dynamodb", region, "table/tidetable-dev-catalog") == makes
    assert on(copied, handler, "dynamodb", "*", "table/tidetable-dev.*") == deletes | COPIES_TAGS
    assert on(copied, handler, "application-autoscaling", "*", "scalable-target/*") == {
        "application-autoscaling:DeregisterScalableTarget"
    }


@pytest.mark.parametrize("handler", LIFECYCLE)
def test_copies_in_former_regions_are_deleted_and_none_is_made(handler: str) -> None:
    former = template("dev", FORMER)
    assert on(former, handler, "dynamodb", "*", "table/tidetable-dev.*") == COPIES[1] | COPIES_TAGS
    assert on(former, handler, "dynamodb", "eu-west-1", "table/tidetable-dev.*") == set()
    catalog = on(former, handler, "dynamodb", "*", "table/tidetable-dev-catalog")
    assert catalog == (COPIES[1] if handler == "deployment" else set())


def test_only_the_deployment_deletes_copies_of_the_catalog(copied: Template) -> None:
    found = {handler: on(copied, handler, "dynamodb", "*", "table/tidetable-dev-catalog") for handler in LIFECYCLE}
    assert found == {"lifecycle": set(), "deployment": COPIES[1]}


@pytest.mark.parametrize("handler", LIFECYCLE)
def test_the_first_copy_of_an_account_may_make_the_role_of_the_replication(copied: Template, handler: str) -> None:
    roles = [statement for statement in copied.statements(handler) if SERVICE in json.dumps(statement["Resource"])]
    assert [(actions(statement), statement["Condition"]) for statement in roles] == [
        ({"iam:CreateServiceLinkedRole"}, {"StringLike": {"iam:AWSServiceName": SERVICE}})
    ]
    (resource,) = resources(roles[0])
    assert f":role/aws-service-role/{SERVICE}/AWSServiceRoleForDynamoDBReplication" in resource
    catalog = {
        action
        for statement in copied.statements(handler)
        if any('"StorageCatalog' in text for text in resources(statement))
        for action in actions(statement)
    }
    entries = {f"dynamodb:{action}" for action in ("Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem")}
    assert catalog == entries | {"dynamodb:DescribeTable", "dynamodb:UpdateTable"}


def test_no_other_function_has_rights_in_other_regions(copied: Template) -> None:
    bare = template()
    changed = {
        name
        for name in copied.functions()
        if json.dumps(copied.statements(name), sort_keys=True) != json.dumps(bare.statements(name), sort_keys=True)
    }
    assert changed == set(LIFECYCLE)


def test_without_replicas_nobody_has_them() -> None:
    text = json.dumps(template().document)
    found = [word for word in (SERVICE, "TableReplica", ":dynamodb:*:", ":dynamodb:eu-west-1:") if word in text]
    assert found == []


@pytest.mark.parametrize("changes", [(), ALL_GOES])
def test_the_catalog_itself_is_the_same_with_and_without_copies(changes: Any) -> None:
    """Its copies, and the stream that they need, are the lifecycle's: the stack neither replaces it nor takes them back."""
    catalogs = [
        {name: table for name, table in made.all("AWS::DynamoDB::Table").items() if name.startswith("StorageCatalog")}
        for made in (template("dev", *changes), template("dev", COPIED, *changes))
    ]
    assert len(catalogs[0]) == 1
    assert catalogs[0] == catalogs[1]
    assert "StreamSpecification" not in next(iter(catalogs[0].values()))


@pytest.mark.parametrize("change", [COPIED, FORMER], ids=["now", "formerly"])
def test_the_rules_accept_a_stage_with_copies(change: tuple[str, str]) -> None:
    made, _ = app("dev", change)
    checked(made).synth()
