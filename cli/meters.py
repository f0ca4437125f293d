"""API Gateway's keys and usage plans. Every caller's key has a gateway key, with which the gateway counts and throttles
the caller's requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from cli.account import AccountError
from tidetable.credentials import KeyRecord

# The name of the API's stage in API Gateway. infra/api.py has the same name.
_API_STAGE = "api"


@dataclass(frozen=True)
class Meters:
    """The gateway of a stage. ``usage_plan`` is for keys without a rate of their own; ``client`` is boto3's client."""

    client: Any
    stage: str
    api: str
    usage_plan: str

    def attach(self, record: KeyRecord, draw: Callable[[], str]) -> KeyRecord:
        """Make the gateway key of a caller's key, and put it into a usage plan; return the caller's key with the ids of
        both.

        The value of the gateway key is not a secret: the gateway accepts it only from the authorizer. Keys with the
        same rate share a plan: its limits hold for every key separately, and an account has 300 plans per Region.
        """
        value = record.meter or f"tidetable-{self.stage}-{record.id}-{draw()}"
        tags = {"project": "tidetable", "stage": self.stage}
        answer = _call_gateway(
            "a gateway key could not be made",
            lambda: self.client.create_api_key(
                name=f"tidetable-{self.stage}-{record.name}-{record.id}", value=value, enabled=True, tags=tags
            ),
        )
        attached = replace(record, meter=value, gateway_key=answer["id"])
        try:
            return replace(attached, plan=self._join_plan(attached))
        except AccountError:
            self.detach(attached)
            raise

    def reattach(self, record: KeyRecord) -> None:
        """Put the gateway key of a caller's key into the usage plan of the stage that is deployed now."""
        self._join_plan(record)

    def exists(self, record: KeyRecord) -> bool:
        """True if the gateway key of a caller's key exists."""
        try:
            self.client.get_api_key(apiKey=record.gateway_key)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NotFoundException":
                return False
            raise AccountError(f"the gateway's keys could not be read: {error}") from error
        return True

    def detach(self, record: KeyRecord) -> None:
        """Remove the gateway key of a key, and the plan of the key if no other key is in this plan."""
        if record.gateway_key:
            _call_gateway("a gateway key could not be removed", lambda: self._delete_key(record.gateway_key))
        if record.plan and record.plan != self.usage_plan:
            _call_gateway("a usage plan could not be removed", lambda: self._remove_empty(record.plan))

    def _join_plan(self, record: KeyRecord) -> str:
        plan = self.usage_plan if record.rate is None else self._find_or_make_plan(record.rate, record.burst or 1)

        def add() -> None:
            try:
                self.client.create_usage_plan_key(usagePlanId=plan, keyId=record.gateway_key, keyType="API_KEY")
            except ClientError as error:
                # A conflict means that the key is in the plan already.
                if error.response["Error"]["Code"] != "ConflictException":
                    raise

        _call_gateway("a gateway key could not be put into its usage plan", add)
        return plan

    def _find_or_make_plan(self, rate: float, burst: int) -> str:
        """Return the id of the stage's plan with these limits. If there is no such plan, make it."""
        name = f"tidetable-{self.stage}-{rate:g}-{burst}"
        stage = {"apiId": self.api, "stage": _API_STAGE}

        def find() -> str:
            pages = self.client.get_paginator("get_usage_plans").paginate()
            for plan in (plan for page in pages for plan in page["items"]):
                stages = [(entry["apiId"], entry["stage"]) for entry in plan.get("apiStages", [])]
                if plan["name"] == name and (self.api, _API_STAGE) in stages:
                    return str(plan["id"])
            limits = {"rateLimit": rate, "burstLimit": burst}
            answer = self.client.create_usage_plan(name=name, throttle=limits, apiStages=[stage])
            return str(answer["id"])

        return str(_call_gateway("a usage plan could not be made", find))

    def _remove_empty(self, plan: str) -> None:
        try:
            if self.client.get_usage_plan_keys(usagePlanId=plan, limit=1)["items"]:
                return
            # AWS: a plan with stages cannot be deleted.
            for stage in self.client.get_usage_plan(usagePlanId=plan).get("apiStages", []):
                value = f"{stage['apiId']}:{stage['stage']}"
                change = {"op": "remove", "path": "/apiStages", "value": value}
                self.client.update_usage_plan(usagePlanId=plan, patchOperations=[change])
            self.client.delete_usage_plan(usagePlanId=plan)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NotFoundException":
                raise

    def _delete_key(self, gateway_key: str) -> None:
        try:
            self.client.delete_api_key(apiKey=gateway_key)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NotFoundException":
                raise


def _call_gateway(trouble: str, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (ClientError, BotoCoreError) as error:
        raise AccountError(f"{trouble}: {error}") from error
