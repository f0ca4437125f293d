"""The Lambda authorizer of the API: it finds the key of a request, and decides if the key may call the route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._observe import count_any, observe, pause_collector
from tidetable.credentials import Call, Decision, decide


@pause_collector
@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001 - Lambda's signature
    """Answer API Gateway. If the catalog cannot be read, this raises, and the gateway answers 503 to the caller."""
    pipeline = wiring.get_pipeline()
    decision = decide(_read_call(event), pipeline.key_ring, pipeline.clock.now())
    count_any(FormerKeysUsed=decision.former, NewerKeysRefused=decision.newer)
    return _make_answer(decision, event["methodArn"])


def _read_call(event: Mapping[str, Any]) -> Call:
    stream = (event.get("pathParameters") or {}).get("stream")
    return Call(
        event["httpMethod"],
        event["resource"],
        None if stream is None else unquote(stream),
        _list_values(event, "headers", "multiValueHeaders"),
        _list_values(event, "queryStringParameters", "multiValueQueryStringParameters"),
    )


def _list_values(event: Mapping[str, Any], single: str, several: str) -> Mapping[str, Sequence[str]]:
    """List all values of headers or parameters: the event's single-value form has only the last of a repeated name."""
    values: Mapping[str, Sequence[str]] | None = event.get(several)
    return values or {name: [value] for name, value in (event.get(single) or {}).items()}


def _make_answer(decision: Decision, route: str) -> dict[str, Any]:
    """Make the answer: a policy for this route only, the context of functions and access log, and the gateway key."""
    record = decision.record
    statement = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow" if decision.allowed else "Deny",
        "Resource": route,
    }
    answer: dict[str, Any] = {
        "principalId": record.id if record is not None else "nobody",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": decision.context(),
    }
    return answer | ({"usageIdentifierKey": decision.meter} if decision.allowed else {})
