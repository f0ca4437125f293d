"""Application Auto Scaling: the members of its requests, and which of its refusals are no error."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.dynamodb.scaling import ApplicationScaling
from tidetable.config import Autoscaling
from tidetable.config.capacity import Range


class Client:
    """A client that keeps its requests, and refuses them if there is a code."""

    def __init__(self, code: str = "") -> None:
        self.code = code
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**members: Any) -> None:
            self.sent.append((operation, members))
            if self.code:
                raise ClientError({"Error": {"Code": self.code, "Message": "why"}}, operation)

        return call


def test_only_the_sides_of_the_policy_are_scaled_by_its_target() -> None:
    client = Client()
    policy = Autoscaling(write=Range(min=5, max=50, target=55))
    ApplicationScaling(lambda: client).register("t", [], policy)
    place = {"ServiceNamespace": "dynamodb", "ResourceId": "table/t"}
    place["ScalableDimension"] = "dynamodb:table:WriteCapacityUnits"
    metric = {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"}
    assert client.sent == [
        ("register_scalable_target", {**place, "MinCapacity": 5, "MaxCapacity": 50}),
        (
            "put_scaling_policy",
            {
                **place,
                "PolicyName": "tidetable-write",
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingScalingPolicyConfiguration": {
                    "TargetValue": 55.0,
                    "PredefinedMetricSpecification": metric,
                },
            },
        ),
    ]


def test_a_target_that_is_gone_need_not_be_removed_and_any_other_refusal_rises() -> None:
    gone = Client("ObjectNotFoundException")
    ApplicationScaling(lambda: gone).deregister("t", ["i"])
    assert [members["ResourceId"] for _, members in gone.sent] == ["table/t", "table/t/index/i"] * 2
    with pytest.raises(ClientError):
        ApplicationScaling(lambda: Client("AccessDeniedException")).deregister("t", [])


@pytest.mark.parametrize("code", ["", "ObjectNotFoundException"])
def test_targets_are_deregistered_in_every_region_with_a_copy(code: str) -> None:
    clients = {None: Client(code), "eu-west-1": Client(code), "us-west-2": Client(code)}
    scaling = ApplicationScaling(lambda region=None: clients[region])
    scaling.deregister("t", ["i"], ["eu-west-1"])
    dimensions = [
        ("table/t", "dynamodb:table:WriteCapacityUnits"),
        ("table/t/index/i", "dynamodb:index:WriteCapacityUnits"),
        ("table/t", "dynamodb:table:ReadCapacityUnits"),
        ("table/t/index/i", "dynamodb:index:ReadCapacityUnits"),
    ]
    for region in (None, "eu-west-1"):
        assert [
            (members["ResourceId"], members["ScalableDimension"]) for _, members in clients[region].sent
        ] == dimensions
        assert {operation for operation, _ in clients[region].sent} == {"deregister_scalable_target"}
    assert clients["us-west-2"].sent == []
