"""Calls of the deployment's function, as CloudFormation makes them."""

from types import SimpleNamespace
from typing import Any


def call(request: str, kind: str = "Custom::TidetableTables", **properties: str) -> Any:
    from handlers.deployment import handler

    context: Any = SimpleNamespace(
        function_name="f",
        memory_limit_in_mb=512,
        invoked_function_arn="arn",
        aws_request_id="owner",
        get_remaining_time_in_millis=lambda: 840_000,
    )
    return handler({"RequestType": request, "ResourceType": kind, "ResourceProperties": properties}, context)
