"""The emulator with IAM enforced, and with what it lacks for that: each gap is named, with what AWS does instead.

A program of its own, which the tests start in the place of ``ministack``: the stack that it takes is the stack that goes to AWS,
and all that differs is here. Each denial is a line of its log: ``DENIED action resource principal``.
"""

import json
import sys
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from ministack import app
from ministack.core import iam_actions, iam_evaluator, router, sigv4
from ministack.services import dynamodb, kms, lambda_svc

# It is started as a file, without the checkout on its path.
sys.path.append(str(Path(__file__).parents[2]))
from strict import conditions

SCALING = "application-autoscaling"
SCALING_LINK = "dynamodb.application-autoscaling.amazonaws.com"
# The name of a key in a request, on its way from where the body is known to where rights are checked.
_REQUESTED_KEY = "tidetable:requested-key"
# AWS, "Encryption at rest: how DynamoDB uses AWS KMS": a caller's use of a table is a use of its key, and who makes a table
# lets DynamoDB keep using the key by a grant.
_USES = ("kms:Decrypt",)
_USES_OF_A_MAKER = ("kms:DescribeKey", "kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKey")
_ITEMS = frozenset(
    f"dynamodb:{name}"
    for name in (
        *("GetItem", "BatchGetItem", "Query", "Scan", "ConditionCheckItem"),
        *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
    )
)

_serve, _enforce = app.app, iam_evaluator.enforce
_resources = iam_actions.dynamodb_resource_arns
_action, _resource = iam_actions.extract_iam_action, iam_actions.extract_resource_arn
_targets: set[str] = set()
_keys = count(1)
# The function of the event source mapping that a request is about, on its way from where the request is known to the check.
_mapped: ContextVar[str] = ContextVar("mapped", default="")


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """It speaks HTTP, AWS speaks TLS: without this header the deny-without-TLS policies refuse everybody, root included."""
    if scope["type"] == "http":
        scope = {**scope, "headers": [*scope["headers"], (b"x-forwarded-proto", b"https")]}
    await _serve(scope, receive, send)


def name_tables(body: bytes, region: str, account_id: str) -> list[str]:
    """It looks at TableName and RequestItems alone.

    AWS matches the operations on tags by their ResourceArn (Service Authorization Reference, DynamoDB: ListTagsOfResource,
    TagResource and UntagResource have the resource type table*).
    """
    found: list[str] = _resources(body, region, account_id)
    if not found and isinstance(arn := json.loads(body or b"{}").get("ResourceArn"), str):
        found = [arn]
    return found


def name_action(service: str, method: str, path: str, headers: Any, body: bytes, query: Any) -> str | None:
    """It looks for a right sqs:SendMessageBatch, which AWS does not have.

    In AWS a batch needs the right of the single operation (SQS Developer Guide, "Amazon SQS API permissions").
    """
    found: str | None = _action(service, method, path, headers, body, query)
    return found.removesuffix("Batch") if found is not None and found.startswith("sqs:") else found


def name_resource(
    service: str, method: str, path: str, headers: Any, body: bytes, query: Any, region: str, account_id: str
) -> str:
    """It knows no scalable targets, whose names are AWS's own, takes a database of Glue for a table, and forgets the function of
    an event source mapping.

    Service Authorization Reference, AWS Glue: GetDatabase has the resource type database*.
    """
    if name_action(service, method, path, headers, body, query) == "glue:GetDatabase":
        return f"arn:aws:glue:{region}:{account_id}:database/{json.loads(body)['Name']}"
    if service == "lambda":
        _mapped.set(find_mapped(path, body, region, account_id))
    if service == SCALING:
        return f"arn:aws:{SCALING}:{region}:{account_id}:scalable-target/0ec5"
    found: str = _resource(service, method, path, headers, body, query, region, account_id)
    return found


def find_mapped(path: str, body: bytes, region: str, account_id: str) -> str:
    """The ARN of the function of an event source mapping, which AWS has as the condition key lambda:FunctionArn.

    Service Authorization Reference, AWS Lambda: CreateEventSourceMapping, UpdateEventSourceMapping, DeleteEventSourceMapping.
    """
    start, _, id = path.partition("/event-source-mappings/")
    if id.strip("/"):
        return str((lambda_svc._esms.get(id.strip("/")) or {}).get("FunctionArn", ""))
    if not start.rstrip("/").endswith("/event-source-mappings"):
        return ""
    name = str(json.loads(body or b"{}").get("FunctionName", ""))
    return name if not name or name.startswith("arn:") else f"arn:aws:lambda:{region}:{account_id}:function:{name}"


def describe_request(body: bytes) -> dict[str, Any]:
    """It drops the key that a new table is to have, and it knows of the leading keys and the attributes of a request nothing,
    or less than AWS: of these strict/conditions.py says what AWS's guide says.
    """
    request = json.loads(body or b"{}")
    key = (request.get("SSESpecification") or {}).get("KMSMasterKeyId")
    name = request.get("TableName") or next(iter(request.get("RequestItems") or ()), "")
    seen = conditions.describe_request(request, conditions.find_partition_keys(dynamodb._tables.get(name) or {}))
    return {**seen, **({_REQUESTED_KEY: key} if key else {})}


def check(
    access_key: str,
    action: str,
    service: str,
    region: str,
    resource_arn: str = "*",
    service_context: dict[str, Any] | None = None,
) -> Any:
    """It does not look at the keys of tables: whether the caller may use them, through DynamoDB."""
    context = dict(service_context or {})
    requested = context.pop(_REQUESTED_KEY, None)
    if action.endswith("EventSourceMapping") and _mapped.get():
        context["lambda:FunctionArn"] = _mapped.get()
    wanted = [(action, service, resource_arn, context)]
    if service == "dynamodb":
        through = {"kms:ViaService": f"dynamodb.{region}.amazonaws.com", "kms:GrantIsForAWSResource": "true"}
        wanted += [(use, "kms", key, through) for use, key in key_uses(action, resource_arn, requested)]
    for one, of, on, with_context in wanted:
        denied = _enforce(access_key, one, of, region, on, with_context)
        if denied is not None:
            who = getattr(denied, "principal_arn", "") or getattr(denied, "message", "")
            print(f"DENIED {one} {on} {who}", flush=True)
            return denied
    return None


def key_uses(action: str, resource: str, requested: str | None) -> list[tuple[str, str]]:
    """The rights on customers' keys that an operation on a table needs, each with the key."""
    if action == "dynamodb:CreateTable":
        return [(use, requested) for use in _USES_OF_A_MAKER] if requested else []
    table = dynamodb._tables.get(resource.partition(":table/")[2].partition("/")[0]) or {}
    key = (table.get("SSEDescription") or {}).get("KMSMasterKeyArn", "")
    return [(use, key) for use in _USES] if action in _ITEMS and ":key/" in key else []


async def scale(method: str, path: str, headers: Any, body: bytes, query: Any) -> tuple[int, dict[str, str], bytes]:
    """It has no Application Auto Scaling: this keeps targets, and asks for the rights that AWS looks for at its caller.

    Application Auto Scaling User Guide, "Identity-based policy examples: Permissions needed for target tracking scaling and for
    the service-linked role", and "DynamoDB: additional permissions".
    """
    operation, given = headers["x-amz-target"].rpartition(".")[2], json.loads(body)
    access_key, region = router.extract_access_key_id(headers, query), router.extract_region(headers, query)
    table = f"arn:aws:dynamodb:{region}:000000000000:{given['ResourceId'].partition('/index/')[0]}"
    alarm = f"arn:aws:cloudwatch:{region}:000000000000:alarm:TargetTracking-{given['ResourceId']}-AlarmHigh-0ec5"
    role = f"arn:aws:iam::000000000000:role/aws-service-role/{SCALING_LINK}/AWSServiceRoleForApplicationAutoScaling_DynamoDBTable"
    alarms: list[tuple[str, str, str, dict[str, Any]]] = [("cloudwatch:DescribeAlarms", "cloudwatch", alarm, {})]
    needs: dict[str, list[tuple[str, str, str, dict[str, Any]]]] = {
        "RegisterScalableTarget": [
            ("iam:CreateServiceLinkedRole", "iam", role, {"iam:AWSServiceName": SCALING_LINK}),
            *((f"dynamodb:{name}", "dynamodb", table, {}) for name in ("DescribeTable", "UpdateTable")),
        ],
        "PutScalingPolicy": [*alarms, ("cloudwatch:PutMetricAlarm", "cloudwatch", alarm, {})],
        "DeregisterScalableTarget": [*alarms, ("cloudwatch:DeleteAlarms", "cloudwatch", alarm, {})],
    }
    target = f"{given['ResourceId']} {given['ScalableDimension']}"
    for action, service, resource, context in needs[operation]:
        if check(access_key, action, service, region, resource, context) is not None:
            return _answer(400, {"__type": "AccessDeniedException", "message": f"{action} on {resource}"})
    if operation == "DeregisterScalableTarget":
        if target not in _targets:
            return _answer(400, {"__type": "ObjectNotFoundException", "message": f"no scalable target {target}"})
        _targets.remove(target)
    else:
        _targets.add(target)
    print(f"SCALING {operation} {target}", flush=True)
    return _answer(200, {})


def _answer(status: int, document: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(document).encode()


def main() -> None:
    """Mend it and start it."""
    app.app = serve
    iam_actions.dynamodb_resource_arns = name_tables
    iam_actions.dynamodb_service_context = describe_request
    iam_actions.extract_iam_action = name_action
    iam_actions.extract_resource_arn = name_resource
    iam_evaluator.enforce = check
    # Keys have the same names in each run, so that the configurations with them, and their bundles, are the same, too.
    kms.new_uuid = lambda: str(UUID(int=next(_keys)))
    # Its clock is moved, and those of its callers outside are not: AWS refuses a request whose time differs by 5 or 15 minutes.
    sigv4.request_time_failure = lambda *_, **__: None
    router.SERVICE_PATTERNS[SCALING] = {"target_prefixes": ["AnyScaleFrontendService."]}
    iam_actions.SERVICE_TO_IAM_NAMESPACE[SCALING] = SCALING
    app.SERVICE_HANDLERS[SCALING] = scale
    app.main()


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()
