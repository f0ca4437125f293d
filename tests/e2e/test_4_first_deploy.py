"""A first deployment that fails is repeated; a stage that was destroyed is deployed again and takes back the kept resources.
On this stage, which has the demo's configuration, all steps of the demo hold.

CloudFormation is called as the CDK's command line calls it. ``TIDETABLE_EVERY_RESOURCE=1`` lets the deployment fail
after each resource instead of after a few.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from examples.earthquakes import demo
from local import Deployed, Emulator
from local.emulator import REGION, can_move_clock
from local.http import Api
from local.stack import STAGE, _run_cdk, find_stage, make_aws_client
from tests.e2e.clock import OFFSET
from tests.e2e.conftest import eventually
from tests.worlds.configs import CONFIG

NAME = f"Tidetable-{STAGE}"
ASSETS = f"cdk-hnb659fds-assets-000000000000-{REGION}"
CATALOG = f"tidetable-{STAGE}-catalog"
KEPT_BUCKETS = {f"tidetable-{STAGE}-{what}-000000000000-{REGION}" for what in ("archive", "logs")}
# The resources after which the deployment fails: the beginnings of their logical ids, in the order of creation.
SAMPLE = (
    "StorageCatalog",
    "StorageArchive",
    "IngestOverflow",
    "LifecycleTables",
    "LifecycleSchedule",
    "ApiRestDeploymentStage",
    "Dashboard",
)
# A resource that cannot be made because its name is taken, and that CloudFormation cannot import.
BROKEN = {"Type": "AWS::Events::EventBus", "Properties": {"Name": "taken"}}


class Account:
    """The emulated account, with the stack's assets published."""

    def __init__(self, emulator: Emulator) -> None:
        self.clients = {
            name: make_aws_client(emulator.endpoint, name)
            for name in ("cloudformation", "dynamodb", "s3", "sqs", "events")
        }
        self.cloudformation, self.dynamodb = self.clients["cloudformation"], self.clients["dynamodb"]
        self._endpoint = emulator.endpoint
        self.deployments = 0
        self.emulator = emulator
        config = demo.add_streams(CONFIG, emulator.folder, feed=demo.FEED, rollup=demo.ROLLUP_OF_QUAKES)
        demo.make_queue(emulator.endpoint)
        _run_cdk(emulator, "bootstrap", f"aws://000000000000/{REGION}")
        options = ("--require-approval", "never", "--method", "prepare-change-set", "-c", f"config={config}")
        _run_cdk(emulator, "deploy", *options)
        self.delete()
        file = emulator.folder / "cdk.out" / f"{NAME}.template.json"
        self.template: dict[str, Any] = json.loads(file.read_text())
        self.clients["events"].create_event_bus(Name="taken")

    def broken_after(self, id: str) -> dict[str, Any]:
        """The template with a resource that fails once another is made; it comes before the stage stands."""
        broken: dict[str, Any] = json.loads(json.dumps(self.template))
        broken["Resources"]["Broken"] = BROKEN | {"DependsOn": [id]}
        standing = next(
            resource for resource in broken["Resources"].values() if resource["Type"] == "Custom::TidetableStanding"
        )
        standing["DependsOn"] = [*standing["DependsOn"], "Broken"]
        return broken

    def create(self, template: dict[str, Any], *, importing: bool = False) -> str:
        """Deploy by a change set, as the CDK does, and return the status that the stack ends in."""
        template = self._with_new_names(template)
        self.clients["s3"].put_object(Bucket=ASSETS, Key="template.json", Body=json.dumps(template).encode())
        self.cloudformation.create_change_set(
            StackName=NAME,
            ChangeSetName="test",
            ChangeSetType="CREATE",
            TemplateURL=f"{self._endpoint}/{ASSETS}/template.json",
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            ImportExistingResources=importing,
            # The emulator would refuse the name of a bucket that is to be imported, before it imports it.
            DisableValidation=importing,
        )
        eventually(lambda: self._change_set()["Status"], lambda status: status in ("CREATE_COMPLETE", "FAILED"))
        assert self._change_set()["Status"] == "CREATE_COMPLETE", self._change_set()["StatusReason"]
        self.imported = {
            change["ResourceChange"]["LogicalResourceId"]
            for change in self._change_set()["Changes"]
            if change["ResourceChange"]["Action"] == "Import"
        }
        self.cloudformation.execute_change_set(StackName=NAME, ChangeSetName="test")
        return self._settled()

    def _with_new_names(self, template: dict[str, Any]) -> dict[str, Any]:
        """The template with unused names for its queues.

        CloudFormation generates such names itself. The emulator calculates them from the stack's name and the logical id
        (_physical_name in its cloudformation/provisioners.py), and does not check whether a queue has this name. So a
        second deployment would take over the queues of the first, and its rollback would delete them.
        """
        self.deployments += 1
        named: dict[str, Any] = json.loads(json.dumps(template))
        for id, resource in named["Resources"].items():
            if resource["Type"] == "AWS::SQS::Queue":
                resource.setdefault("Properties", {})["QueueName"] = f"{NAME}-{id}-{self.deployments}"
        return named

    def delete(self) -> None:
        """Delete the stack, if there is one."""
        self.cloudformation.delete_stack(StackName=NAME)
        eventually(self.status, lambda status: status in ("", "DELETE_FAILED"))
        assert self.status() == ""

    def status(self) -> str:
        """The stack's status; empty if there is none."""
        try:
            return str(self.cloudformation.describe_stacks(StackName=NAME)["Stacks"][0]["StackStatus"])
        except self.cloudformation.exceptions.ClientError:
            return ""

    def events(self) -> list[str]:
        """The failed events, for the messages of the tests."""
        events = self.cloudformation.describe_stack_events(StackName=NAME)["StackEvents"]
        return [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}"
            for event in events
            if "FAILED" in event["ResourceStatus"]
        ]

    def left(self) -> tuple[set[str], set[str], int]:
        """The tables, the buckets beside the CDK's own, and the number of queues without the target of the feed."""
        tables = {name for page in self.dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]}
        buckets = {bucket["Name"] for bucket in self.clients["s3"].list_buckets()["Buckets"]} - {ASSETS}
        return tables, buckets, len(self.clients["sqs"].list_queues()["QueueUrls"]) - 1

    def times(self, tables: set[str]) -> dict[str, float]:
        """When each table was made, in seconds: boto3's local times in the hour that clocks repeat equal no others."""
        described = {name: self.dynamodb.describe_table(TableName=name)["Table"] for name in tables}
        return {name: table["CreationDateTime"].timestamp() for name, table in described.items()}

    def protected(self) -> bool:
        """Whether the catalog is protected from deletion."""
        return bool(self.dynamodb.describe_table(TableName=CATALOG)["Table"]["DeletionProtectionEnabled"])

    def find_stage(self) -> Deployed:
        """The stage that stands."""
        (stack,) = self.cloudformation.describe_stacks(StackName=NAME)["Stacks"]
        return find_stage(self.emulator, {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]})

    def _change_set(self) -> Any:
        return self.cloudformation.describe_change_set(StackName=NAME, ChangeSetName="test")

    def _settled(self) -> str:
        return eventually(self.status, lambda status: not status.endswith("_IN_PROGRESS"))


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with Emulator(clock=can_move_clock()) as emulator:
        # First, as in the stage of the other tests.
        if can_move_clock():
            emulator.move_clock(OFFSET)
        yield Account(emulator)


def _in_turn(account: Account) -> list[str]:
    every = [
        id
        for id, resource in account.template["Resources"].items()
        if resource["Type"] not in ("Custom::TidetableStanding", "AWS::CDK::Metadata")
    ]
    if os.environ.get("TIDETABLE_EVERY_RESOURCE"):
        return every
    return [next(id for id in every if id.startswith(part)) for part in SAMPLE]


def test_a_first_deployment_that_fails_leaves_nothing_that_stands_in_the_way(account: Account) -> None:
    for id in _in_turn(account):
        assert account.create(account.broken_after(id)) == "ROLLBACK_COMPLETE", (id, account.events())
        assert account.left() == (set(), set(), 0), id
        account.delete()


def test_a_stage_that_was_destroyed_takes_its_catalog_its_buckets_and_its_tables_back(account: Account) -> None:
    assert account.create(account.template) == "CREATE_COMPLETE", account.events()
    tables, buckets, queues = account.left()
    assert CATALOG in tables
    assert len(tables) > 20
    assert buckets == KEPT_BUCKETS
    assert account.protected()
    made = account.times(tables)

    account.delete()
    # The tables, the buckets, the two queues of acknowledged events, and the queue of changes that a target did not take.
    assert account.left() == (tables, buckets, 3)
    assert account.protected()

    assert account.create(account.template) == "ROLLBACK_COMPLETE"
    assert account.left() == (tables, buckets, 3)
    account.delete()

    # A deployment that takes everything back and then fails leaves it unchanged.
    last = next(id for id in account.template["Resources"] if id.startswith("LifecycleTables"))
    assert account.create(account.broken_after(last), importing=True) == "ROLLBACK_COMPLETE", account.events()
    assert account.left() == (tables, buckets, 3)
    account.delete()

    assert account.create(account.template, importing=True) == "CREATE_COMPLETE", account.events()
    assert {id[:16] for id in account.imported} == {
        "StorageCatalogBA"[:16],
        "StorageArchiveEF",
        "StorageAccessLog",
        "StorageRollups72",
    }
    # The queues are new; events that wait in the old ones are sent on by hand.
    assert account.left() == (tables, buckets, queues + 3)
    assert account.times(tables) == made


def test_every_claim_of_the_demo_holds(account: Account) -> None:
    """The steps of ``make demo``: the first claim that does not hold ends them."""
    deployed = account.find_stage()
    demo.run_steps(account.emulator, deployed, Api(deployed), feeds=True, rolls=can_move_clock(), ahead=OFFSET)
