"""What each role is refused: live calls with its own credentials, on things of the stage, of another stage, and of nobody.

Written down per role is what it may do; all the rest of what is tried must be denied. Nothing that is named exists, but for the
bucket, the catalog and the queues: a call that is let through fails by that, or by its empty request.
"""

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.emulator import REGION
from tests.iam.conftest import CHANGES, PROBE, Stage

ACCOUNT = "000000000000"
OWN, FOREIGN = "tidetable-local.probe.2020-01-01", "tidetable-prod.quakes.2020-01-01"
ALIKE, CATALOG, OTHER_CATALOG = "tidetable-local2.probe.2020-01-01", "tidetable-local-catalog", "tidetable-prod-catalog"
STATE, OTHER_STATE = "tidetable-local-rollups", "tidetable-prod-rollups"
TABLES = (OWN, FOREIGN, ALIKE, CATALOG, OTHER_CATALOG, STATE, OTHER_STATE)
PREFIXES = (
    *("stream=probe/", "iceberg/", "large/stream=probe/", "overflow/", "saved/", "listings/probe/"),
    *("elsewhere/", "streams/"),
)
# Not the code: "denied" is also what the tags of a table are that is not there.
DENIED = "no identity-based policy allows"
RECONCILE = {
    *("CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "TagResource", "ListTagsOfResource"),
    "UpdateContinuousBackups",
}
ENTRIES = {"Query", "PutItem", "UpdateItem", "DeleteItem"}

# Per function: operations on the stage's tables, on the catalog, and on objects by their prefix.
MAY: dict[str, tuple[set[str], set[str], dict[str, set[str]]]] = {
    "ingest": (
        {"BatchWriteItem", "PutItem", "BatchGetItem"},
        {"Query"},
        {"large/stream=probe/": {"PutObject"}, "overflow/": {"PutObject"}, "saved/": {"PutObject"}},
    ),
    "doors": (
        {"BatchWriteItem", "PutItem", "BatchGetItem"},
        {"Query"},
        {"large/stream=probe/": {"PutObject"}, "overflow/": {"PutObject"}, "saved/": {"PutObject"}},
    ),
    "drain": (
        {"BatchWriteItem", "PutItem", "GetItem", "BatchGetItem"},
        # It updates entries of periods alone: its policy names their keys (tests/infra/test_permissions.py).
        {"Query", "ConditionCheckItem", "UpdateItem"},
        {
            "large/stream=probe/": {"PutObject"},
            "overflow/": {"PutObject", "GetObject", "ListBucket"},
            "saved/": {"PutObject", "GetObject", "DeleteObject", "ListBucket"},
        },
    ),
    "query": (
        {"Query", "GetItem", "BatchGetItem", "DescribeTable"},
        {"Query"},
        {
            "large/stream=probe/": {"GetObject", "ListBucket"},
            "listings/probe/": {"PutObject", "GetObject", "ListBucket"},
        },
    ),
    "lifecycle": (
        *(RECONCILE, ENTRIES | {"GetItem"}),
        {"overflow/": {"GetObject", "ListBucket"}, "saved/": {"PutObject"}},
    ),
    "deployment": (RECONCILE, ENTRIES | {"GetItem", "DescribeTable", "UpdateTable"}, {}),
    "archiver": (
        {"Scan", "Query", "DescribeTable", "BatchGetItem"},
        ENTRIES,
        {
            "stream=probe/": {"GetObject", "PutObject", "DeleteObject", "ListBucket"},
            "large/stream=probe/": {"GetObject", "ListBucket"},
        },
    ),
    "restorer": (
        {
            *("CreateTable", "DescribeTable", "TagResource", "ListTagsOfResource", "UpdateContinuousBackups"),
            *("BatchWriteItem", "BatchGetItem", "Scan", "Query"),
        },
        ENTRIES | {"GetItem"},
        {
            "stream=probe/": {"GetObject", "ListBucket"},
            "large/stream=probe/": {"GetObject", "PutObject", "ListBucket"},
        },
    ),
    "feed": (
        {"BatchGetItem"},
        {"Query"},
        {"large/stream=probe/": {"GetObject", "ListBucket"}},
    ),
    "archive_reader": (set(), set(), {"stream=probe/": {"GetObject"}}),
    "refresher": (
        # It reads a closed table for its series once, by Scan.
        {"Query", "GetItem", "BatchGetItem", "BatchWriteItem", "PutItem", "Scan"},
        {"Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"},
        {"large/stream=probe/": {"GetObject", "ListBucket"}},
    ),
    # Of the partition of keys alone: test_the_authorizer_reads_the_partition_of_keys_alone.
    "authorizer": (set(), {"GetItem"}, {}),
    # Of the catalog AWS lets it read periods, policies and records of work alone.
    "operations": ({"DescribeTable"}, {"Query"}, {}),
    "sweeper": (
        {"BatchGetItem"},
        {"Query", "UpdateItem"},
        {"stream=probe/": {"ListBucket"}, "large/stream=probe/": {"GetObject", "DeleteObject", "ListBucket"}},
    ),
    # Of the archive it reads manifests alone, and it can neither write nor delete there.
    "lake": (
        set(),
        {"Query", "UpdateItem", "DeleteItem"},
        {"stream=probe/": {"ListBucket"}, "iceberg/": {"GetObject", "PutObject", "DeleteObject", "ListBucket"}},
    ),
}
# Per function: operations on the table of the rollups' state.
MAY_STATE = {
    "ingest": {"Query", "PutItem", "UpdateItem"},
    "doors": {"Query", "PutItem", "UpdateItem"},
    "drain": {"Query", "PutItem", "UpdateItem"},
    "query": {"Query"},
    # Before it closes or reopens a table, it marks it as one to be read for the last periods of series (UpdateItem).
    "lifecycle": {"Query", "DeleteItem", "PutItem", "UpdateItem"},
    "deployment": {"Query", "DeleteItem", "PutItem", "UpdateItem"},
    "restorer": {"Query", "UpdateItem"},
    "refresher": {"Query", "PutItem", "UpdateItem", "DeleteItem"},
    # How far the rollups are sealed, for GET /v1/activity.
    "operations": {"Query"},
}
# Per function: which queues it may send to, and which functions it may call.
# The target of the feed is a queue and a function of this name, which are not the stage's. Nothing has the name ELSEWHERE.
ELSEWHERE = "elsewhere"
SENDS = {
    "ingest": {"OverflowQueueUrl"},
    "doors": {"OverflowQueueUrl"},
    "drain": {"DeadLetterQueueUrl", "OverflowQueueUrl"},
    # Beats of the drain.
    "lifecycle": {"OverflowQueueUrl"},
    "feed": {"FeedDeadLetterQueueUrl", CHANGES},
    "refresher": {"LightQueueUrl"},
    "sweeper": {"FilesQueueUrl"},
    "archiver": {"ArchivesQueueUrl", "LakeQueueUrl"},
    "lake": {"LakeQueueUrl"},
    "restorer": {"RestoresQueueUrl"},
}
# Per function: the queue whose messages it gets.
TAKES = {
    "drain": {"OverflowQueueUrl"},
    "refresher": {"LightQueueUrl"},
    "sweeper": {"FilesQueueUrl"},
    "archiver": {"ArchivesQueueUrl"},
    "restorer": {"RestoresQueueUrl"},
    "lake": {"LakeQueueUrl"},
}
# The functions that receive messages and delete them: those of the mappings, and the lifecycle while the drain stands still.
RECEIVES = TAKES | {"lifecycle": {"OverflowQueueUrl", "DeadLetterQueueUrl"}}
CALLS = {
    "feed": {CHANGES},
    "query": {"archive_reader"},
    "lifecycle": {"archiver"},
    "deployment": {"archiver"},
    "refresher": {"archive_reader"},
    "operations": {"lifecycle"},
}

Caller = Callable[[str], Any]


@pytest.fixture(scope="module")
def functions(stage: Stage) -> dict[str, Any]:
    """The stage's functions by the name of their handler."""
    listed = stage.deployed.make_client("lambda").list_functions(MaxItems=100)["Functions"]
    ours = [function for function in listed if str(function.get("Handler", "")).startswith("handlers.")]
    return {function["Handler"].split(".")[1]: function for function in ours}


@pytest.fixture(scope="module", params=MAY)
def role(request: pytest.FixtureRequest, stage: Stage, functions: dict[str, Any]) -> tuple[str, Caller]:
    """A function's name, and clients with the rights of its role, which the account's root may take on here."""
    name = functions[request.param]["Role"].rpartition("/")[2]
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    stage.deployed.make_client("iam").update_assume_role_policy(RoleName=name, PolicyDocument=document)
    session = stage.deployed.make_client("sts").assume_role(
        RoleArn=functions[request.param]["Role"], RoleSessionName=PROBE
    )
    held = session["Credentials"]

    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            endpoint_url=stage.deployed.endpoint,
            region_name=REGION,
            aws_access_key_id=held["AccessKeyId"],
            aws_secret_access_key=held["SecretAccessKey"],
            aws_session_token=held["SessionToken"],
            config=Config(retries={"total_max_attempts": 1}, parameter_validation=False),
        )

    return request.param, client


def let_through(call: Callable[[], Any]) -> bool:
    """Whether a call passes IAM, whatever becomes of it then."""
    try:
        call()
    except ClientError as error:
        return DENIED not in error.response["Error"]["Message"]
    return True


def on_table(client: Any, operation: str, table: str) -> Callable[[], Any]:
    """A call that names a table, and is of no use besides."""
    if operation in ("TagResource", "ListTagsOfResource"):
        method = client.tag_resource if operation == "TagResource" else client.list_tags_of_resource
        return lambda: method(ResourceArn=f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}")
    if operation in ("BatchWriteItem", "BatchGetItem"):
        method = client.batch_write_item if operation == "BatchWriteItem" else client.batch_get_item
        return lambda: method(RequestItems={table: [] if operation == "BatchWriteItem" else {"Keys": []}})
    if operation == "ConditionCheckItem":
        return lambda: client.transact_write_items(TransactItems=[{"ConditionCheck": {"TableName": table}}])
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")
    # A key that no table has: what is let through changes nothing.
    item = "Item" if operation == "PutItem" else "Key"
    more = {item: {"none": {"S": "none"}}} if operation.endswith("Item") else {}
    return lambda: getattr(client, name)(TableName=table, **more)


def test_a_role_reaches_its_own_tables_by_its_own_operations_only(stage: Stage, role: tuple[str, Caller]) -> None:
    name, client = role
    tables, catalog, _ = MAY[name]
    every = RECONCILE | ENTRIES | {"BatchWriteItem", "BatchGetItem", "GetItem", "Scan", "ConditionCheckItem"}
    dynamodb = client("dynamodb")
    # Nobody may delete the catalog, so this is tried, too: it would be seen.
    passed = {
        (operation, table)
        for operation, table in product(sorted(every), TABLES)
        if let_through(on_table(dynamodb, operation, table))
    }
    expected = {(operation, OWN) for operation in tables} | {(operation, CATALOG) for operation in catalog}
    expected |= {(operation, STATE) for operation in MAY_STATE.get(name, ())}
    assert passed == expected
    assert not let_through(dynamodb.list_tables)
    assert stage.deployed.make_client("dynamodb").describe_table(TableName=CATALOG)


def test_a_deployment_alone_reads_the_first_key_of_the_gateway_and_no_other(
    stage: Stage, role: tuple[str, Caller]
) -> None:
    name, client = role
    other = stage.deployed.make_client("apigateway").create_api_key(name="somebody-elses")["id"]
    gateway, first = client("apigateway"), stage.deployed.outputs["ApiKeyId"]
    passed = {
        (label, operation)
        for label, id in (("first", first), ("other", other))
        for operation, method in (("get", gateway.get_api_key), ("delete", gateway.delete_api_key))
        if let_through(partial(method, apiKey=id))
    }
    assert passed == ({("first", "get")} if name == "deployment" else set())
    assert not let_through(gateway.get_api_keys)


def test_a_role_reaches_objects_of_its_own_prefixes_only(stage: Stage, role: tuple[str, Caller]) -> None:
    name, client = role
    s3, own = client("s3"), stage.deployed.outputs["ArchiveBucket"]
    foreign = "somebody-elses"
    stage.deployed.make_client("s3").create_bucket(Bucket=foreign)
    passed = set()
    for bucket, prefix in product((own, foreign), PREFIXES):
        at = {"Bucket": bucket, "Key": f"{prefix}none"}
        calls: dict[str, Callable[[], Any]] = {
            "GetObject": partial(s3.get_object, **at),
            "PutObject": partial(s3.put_object, **at, Body=b""),
            "DeleteObject": partial(s3.delete_object, **at),
            "ListBucket": partial(s3.list_objects_v2, Bucket=bucket, Prefix=prefix),
        }
        passed |= {(operation, bucket, prefix) for operation, call in calls.items() if let_through(call)}
    expected = {(operation, own, prefix) for prefix, operations in MAY[name][2].items() for operation in operations}
    assert passed == expected
    # Where the sweep is, it writes down; those who may write there, too, write large values.
    writes = let_through(lambda: s3.put_object(Bucket=own, Key="large/_sweep.json", Body=b""))
    assert writes == (name in {"sweeper", "ingest", "doors", "drain", "restorer"})
    assert not let_through(lambda: s3.list_objects_v2(Bucket=own))
    assert not let_through(lambda: s3.delete_bucket(Bucket=own))


def test_a_role_reaches_its_own_queues_and_functions_only(
    stage: Stage, functions: dict[str, Any], role: tuple[str, Caller]
) -> None:
    name, client = role
    queues, outputs = client("sqs"), stage.deployed.outputs
    urls = {output: url for output, url in outputs.items() if output.endswith("QueueUrl")}
    assert len(urls) == 9
    own = stage.deployed.make_client("sqs").get_queue_url(QueueName=CHANGES)["QueueUrl"]
    urls |= {CHANGES: own, ELSEWHERE: own.replace(CHANGES, ELSEWHERE)}
    sends = {output for output, url in urls.items() if let_through(partial(queues.send_message_batch, QueueUrl=url))}
    assert sends == SENDS.get(name, set())
    takes = {output for output, url in urls.items() if let_through(partial(queues.get_queue_attributes, QueueUrl=url))}
    assert takes == TAKES.get(name, set())
    receive = partial(queues.receive_message, VisibilityTimeout=0)
    delete = partial(queues.delete_message, ReceiptHandle="none")
    for call in (receive, delete):
        assert {output for output, url in urls.items() if let_through(partial(call, QueueUrl=url))} == RECEIVES.get(
            name, set()
        )
    purges = {output for output, url in urls.items() if let_through(partial(queues.purge_queue, QueueUrl=url))}
    assert purges == set()
    lambdas = client("lambda")
    arns = {called: function["FunctionArn"] for called, function in functions.items()}
    arns |= {other: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{other}" for other in (CHANGES, ELSEWHERE)}
    calls = {
        called
        for called, arn in arns.items()
        if let_through(partial(lambdas.invoke, FunctionName=arn, InvocationType="DryRun"))
    }
    assert calls == CALLS.get(name, set())
    events = client("events")
    entry = {"Source": "probe", "DetailType": "probe", "Detail": "{}"}
    buses = {
        bus
        for bus in ("default", "other")
        if let_through(partial(events.put_events, Entries=[{**entry, "EventBusName": bus}]))
    }
    assert buses == ({"default"} if name in ("lifecycle", "deployment") else set())
