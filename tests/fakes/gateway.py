"""API Gateway's keys and usage plans with API Gateway's rules, as far as the command line uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

NOT_FOUND, CONFLICT, BAD = "NotFoundException", "ConflictException", "BadRequestException"


class FakeGateway:
    """Keys by id, plans by id, and the keys of each plan. ``fails`` is the name of an operation that is refused for good,
    and ``busy`` has the number of times for which an operation is refused because of too many requests.
    """

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, Any]] = {}
        self.plans: dict[str, dict[str, Any]] = {
            "plan0": {"id": "plan0", "name": "the stage's", "apiStages": [{"apiId": "api0", "stage": "api"}]}
        }
        self.members: dict[str, set[str]] = {"plan0": set()}
        self.fails = ""
        self.busy: dict[str, int] = {}
        self.calls: list[str] = []
        self._count = 0

    def meters(self, plan: str) -> set[str]:
        """The values (texts) of the keys in a plan."""
        return {self.keys[id]["value"] for id in self.members[plan]}

    def create_api_key(self, *, name: str, value: str, enabled: bool, tags: dict[str, str]) -> dict[str, Any]:
        self._check("create_api_key")
        if not 20 <= len(value) <= 128:
            raise refused(BAD, "API Key value should be at least 20 characters")
        if value in {key["value"] for key in self.keys.values()}:
            raise refused(CONFLICT, "API Key already exists")
        assert enabled
        assert tags["project"] == "tidetable"
        id = self._id("key")
        self.keys[id] = {"id": id, "name": name, "value": value}
        return self.keys[id]

    def get_api_key(self, *, apiKey: str, includeValue: bool = False) -> dict[str, Any]:  # noqa: N803 - boto3's names
        self._check("get_api_key")
        if apiKey not in self.keys:
            raise refused(NOT_FOUND, "Invalid API Key identifier specified")
        key = self.keys[apiKey]
        return key if includeValue else {name: value for name, value in key.items() if name != "value"}

    def delete_api_key(self, *, apiKey: str) -> None:  # noqa: N803
        self._check("delete_api_key")
        if self.keys.pop(apiKey, None) is None:
            raise refused(NOT_FOUND, "Invalid API Key identifier specified")
        for members in self.members.values():
            members.discard(apiKey)

    def create_usage_plan_key(self, *, usagePlanId: str, keyId: str, keyType: str) -> None:  # noqa: N803
        self._check("create_usage_plan_key")
        assert keyType == "API_KEY"
        if usagePlanId not in self.plans or keyId not in self.keys:
            raise refused(NOT_FOUND, "Invalid usage plan or key")
        if keyId in self.members[usagePlanId]:
            raise refused(CONFLICT, "Usage Plan cannot be added because API Key is already in it")
        self.members[usagePlanId].add(keyId)

    def get_usage_plan_keys(self, *, usagePlanId: str, limit: int) -> dict[str, Any]:  # noqa: N803
        self._check("get_usage_plan_keys")
        self._plan(usagePlanId)
        return {"items": [{"id": id} for id in sorted(self.members[usagePlanId])[:limit]]}

    def create_usage_plan(self, *, name: str, throttle: dict[str, Any], apiStages: list[Any]) -> dict[str, Any]:  # noqa: N803
        self._check("create_usage_plan")
        id = self._id("plan")
        self.plans[id] = {"id": id, "name": name, "throttle": throttle, "apiStages": apiStages}
        self.members[id] = set()
        return self.plans[id]

    def get_usage_plan(self, *, usagePlanId: str) -> dict[str, Any]:  # noqa: N803
        self._check("get_usage_plan")
        return self._plan(usagePlanId)

    def update_usage_plan(self, *, usagePlanId: str, patchOperations: list[dict[str, str]]) -> None:  # noqa: N803
        self._check("update_usage_plan")
        for change in patchOperations:
            assert (change["op"], change["path"]) == ("remove", "/apiStages")
            api, stage = change["value"].split(":")
            plan = self._plan(usagePlanId)
            plan["apiStages"] = [entry for entry in plan["apiStages"] if entry != {"apiId": api, "stage": stage}]

    def delete_usage_plan(self, *, usagePlanId: str) -> None:  # noqa: N803
        self._check("delete_usage_plan")
        if self._plan(usagePlanId)["apiStages"]:
            raise refused(BAD, "Cannot delete Usage Plan because there are API Stages associated with it")
        del self.plans[usagePlanId], self.members[usagePlanId]

    def get_paginator(self, name: str) -> Any:
        assert name == "get_usage_plans"
        gateway = self

        class Pages:
            def paginate(self, *, PaginationConfig: dict[str, int]) -> Iterator[dict[str, Any]]:  # noqa: N803
                # API Gateway's own limit of a page.
                assert 0 < PaginationConfig["PageSize"] <= 500
                gateway._check("get_usage_plans")
                for plan in list(gateway.plans.values()):
                    yield {"items": [plan]}

        return Pages()

    def _plan(self, id: str) -> dict[str, Any]:
        if id not in self.plans:
            raise refused(NOT_FOUND, "Invalid Usage Plan ID specified")
        return self.plans[id]

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _check(self, operation: str) -> None:
        self.calls.append(operation)
        if operation == self.fails:
            raise refused("AccessDeniedException", "not allowed")
        if self.busy.get(operation, 0):
            self.busy[operation] -= 1
            raise refused("TooManyRequestsException", "Too Many Requests")


def refused(code: str, message: str) -> ClientError:
    """Make an error like those that boto3 raises."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")
