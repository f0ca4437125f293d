"""The last resource of the stack: it marks the stage as deployed successfully and protects its catalog."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct, IConstruct

from .function import Common
from .lifecycle import Lifecycle


class Deployed(Construct):
    """A custom resource that depends on every other resource.

    A deployment that fails is rolled back before this resource is created. At that time no table is protected, so the
    rollback can delete everything that the deployment created.
    """

    def __init__(
        self, scope: Construct, id: str, common: Common, *, lifecycle: Lifecycle, after: Sequence[IConstruct]
    ) -> None:
        super().__init__(scope, id)
        protected = "true" if common.config.keeps_catalog else "false"
        resource = lifecycle.make_custom_resource(self, "Resource", "Custom::TidetableStanding", protected=protected)
        resource.node.add_dependency(*after)
