"""API Gateway's keys and usage plans. Every caller's key has a gateway key, with which the gateway counts and throttles
the caller's requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import sleep
from typing import Any

from aws.errors import ignore_refusal, list_aws_errors, read_error_code
from cli.account import AccountError
from tidetable.credentials import CredentialRecord

# The name of the API's stage in API Gateway. infra/integration.py has the same name.
_API_STAGE = "api"
# API Gateway: UpdateUsagePlan once per 20 seconds and account, CreateApiKey 5 times per second, and 10 requests per second
# in all. boto3's own repetitions end after some seconds.
_THROTTLED = frozenset({"TooManyRequestsException", "ThrottlingException"})
_PAUSES = (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0)
_GONE = "NotFoundException"


@dataclass
class Meters:
    """The gateway of a stage. ``usage_plan`` is for keys without a rate of their own; ``client`` is boto3's client.

    ``wait`` shows a text for some seconds, after API Gateway refused a request because of too many requests.
    """

    client: Any
    stage: str
    api: str
    usage_plan: str
    wait: Callable[[str, float], None] = lambda _, seconds: sleep(seconds)
    # The ids of this API's plans by their names; None until they are listed.
    _plans: dict[str, str] | None = field(default=None, init=False)

    def attach(self, record: CredentialRecord, draw: Callable[[], str]) -> CredentialRecord:
        """Make the gateway key of a caller's key, and put it into a usage plan; return the caller's key with the ids of
        both.

        The value of the gateway key is not a secret: the gateway accepts it only from the authorizer. Keys with the
        same rate share a plan: its limits hold for every key separately, and an account has 300 plans per Region.
        """
        value = record.meter or f"tidetable-{self.stage}-{record.id}-{draw()}"
        tags = {"project": "tidetable", "stage": self.stage}
        answer = self._call(
            "a gateway key could not be made",
            lambda: self.client.create_api_key(
                name=f"tidetable-{self.stage}-{record.name}-{record.id}", value=value, enabled=True, tags=tags
            ),
        )
        attached = replace(record, meter=value, gateway_key=answer["id"])
        try:
            return replace(attached, plan=self.join_plan(attached))
        except AccountError:
            self.detach(attached)
            raise

    def exists(self, record: CredentialRecord) -> bool:
        """True if the gateway key of a caller's key exists."""

        def read() -> bool:
            with ignore_refusal(_GONE):
                self.client.get_api_key(apiKey=record.gateway_key)
                return True
            return False

        return bool(self._call("the gateway's keys could not be read", read))

    def detach(self, record: CredentialRecord) -> None:
        """Remove the gateway key of a key, and the plan of the key if no other key is in this plan."""
        if record.gateway_key:
            self._call("a gateway key could not be removed", lambda: self._delete_key(record.gateway_key))
        if record.plan and record.plan != self.usage_plan:
            self._call("a usage plan could not be removed", lambda: self._remove_empty(record.plan))

    def join_plan(self, record: CredentialRecord) -> str:
        """Put the gateway key of a caller's key into a usage plan of the stage that is deployed now; return the plan's id."""
        plan = self.usage_plan if record.rate is None else self._find_or_make_plan(record.rate, record.burst or 1)

        def add() -> None:
            # A conflict means that the key is in the plan already.
            with ignore_refusal("ConflictException"):
                self.client.create_usage_plan_key(usagePlanId=plan, keyId=record.gateway_key, keyType="API_KEY")

        self._call("a gateway key could not be put into its usage plan", add)
        return plan

    def _find_or_make_plan(self, rate: float, burst: int) -> str:
        """Return the id of the stage's plan with these limits. If there is no such plan, make it."""
        name = f"tidetable-{self.stage}-{rate:g}-{burst}"
        stage = {"apiId": self.api, "stage": _API_STAGE}

        def make() -> str:
            limits = {"rateLimit": rate, "burstLimit": burst}
            return str(self.client.create_usage_plan(name=name, throttle=limits, apiStages=[stage])["id"])

        plans: dict[str, str] = self._plans or self._call("the usage plans could not be listed", self._list_plans)
        self._plans = plans
        if name not in plans:
            plans[name] = str(self._call("a usage plan could not be made", make))
        return plans[name]

    def _list_plans(self) -> dict[str, str]:
        """List the plans of this API once: an account may have 300 plans, and a command may have many keys."""
        found: dict[str, str] = {}
        pages = self.client.get_paginator("get_usage_plans").paginate(PaginationConfig={"PageSize": 500})
        for plan in (plan for page in pages for plan in page["items"]):
            stages = [(entry["apiId"], entry["stage"]) for entry in plan.get("apiStages", [])]
            if (self.api, _API_STAGE) in stages:
                found.setdefault(plan["name"], str(plan["id"]))
        return found

    def _remove_empty(self, plan: str) -> None:
        with ignore_refusal(_GONE):
            if self.client.get_usage_plan_keys(usagePlanId=plan, limit=1)["items"]:
                return
            # AWS: a plan with stages cannot be deleted.
            for stage in self.client.get_usage_plan(usagePlanId=plan).get("apiStages", []):
                value = f"{stage['apiId']}:{stage['stage']}"
                change = {"op": "remove", "path": "/apiStages", "value": value}
                self.client.update_usage_plan(usagePlanId=plan, patchOperations=[change])
            self.client.delete_usage_plan(usagePlanId=plan)

    def _call(self, trouble: str, act: Callable[[], Any]) -> Any:
        """Call ``act``, again after a pause if API Gateway had too many requests; AccountError with the trouble if it
        fails. ``act`` may be called several times: what an earlier call did is done or found again.
        """
        for pause in (*_PAUSES, None):
            try:
                return act()
            except list_aws_errors() as error:
                if pause is None or read_error_code(error) not in _THROTTLED:
                    raise AccountError(f"{trouble}: {error}") from error
                self.wait("API Gateway takes few changes per minute; waiting", pause)
        raise AssertionError("the last try has no pause")

    def _delete_key(self, gateway_key: str) -> None:
        with ignore_refusal(_GONE):
            self.client.delete_api_key(apiKey=gateway_key)
