"""Application Auto Scaling for period tables and their indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aws.errors import ignore_refusal
from tidetable.config import Autoscaling, Range

_METRICS = {"write": "DynamoDBWriteCapacityUtilization", "read": "DynamoDBReadCapacityUtilization"}
_NAMESPACE: Any = "dynamodb"


class ApplicationScaling:
    """Scalable targets through boto3; the client is created at its first use, as most stages never need it."""

    def __init__(self, client: Callable[..., Any]) -> None:
        """``client`` makes the client of the stage's own Region, or of the Region that it is called with."""
        self._client = client

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        ranges = {"write": policy.write, "read": policy.read}
        for resource, dimension, side in _list_dimensions(table, indexes):
            scaled = ranges[side]
            if scaled is not None:
                self._register(resource, dimension, side, scaled)

    def deregister(self, table: str, indexes: Sequence[str], regions: Sequence[str] = ()) -> None:
        """Send DeregisterScalableTarget, which also deletes the policies.

        The service also makes the targets in the Region of a copy, and leaves them there when the copy is deleted.
        """
        for client in (self._client(), *map(self._client, regions)):
            for resource, dimension, _ in _list_dimensions(table, indexes):
                with ignore_refusal("ObjectNotFoundException"):
                    client.deregister_scalable_target(
                        ServiceNamespace=_NAMESPACE, ResourceId=resource, ScalableDimension=dimension
                    )

    def _register(self, resource: str, dimension: str, side: str, scaled: Range) -> None:
        target = {"ServiceNamespace": _NAMESPACE, "ResourceId": resource, "ScalableDimension": dimension}
        client = self._client()
        client.register_scalable_target(**target, MinCapacity=scaled.min, MaxCapacity=scaled.max)
        client.put_scaling_policy(
            **target,
            PolicyName=f"tidetable-{side}",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": float(scaled.target),
                "PredefinedMetricSpecification": {"PredefinedMetricType": _METRICS[side]},
            },
        )


def _list_dimensions(table: str, indexes: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """List the resources and dimensions of a table and of its indexes, with the side: write or read."""
    for side, name in (("write", "WriteCapacityUnits"), ("read", "ReadCapacityUnits")):
        yield f"table/{table}", f"dynamodb:table:{name}", side
        for index in indexes:
            yield f"table/{table}/index/{index}", f"dynamodb:index:{name}", side
