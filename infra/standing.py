"""The last of the stack: once all else is made, the stage stands, and its catalog is protected."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct, IConstruct

from infra.function import Common
from infra.lifecycle import Lifecycle


class Standing(Construct):
    """A custom resource that depends on every other part.

    A deployment that fails is rolled back before this is made: it finds nothing protected, and takes along all that it made.
    """

    def __init__(
        self, scope: Construct, id: str, common: Common, *, lifecycle: Lifecycle, after: Sequence[IConstruct]
    ) -> None:
        super().__init__(scope, id)
        protected = "true" if common.config.keeps_catalog else "false"
        resource = lifecycle.custom_resource(self, "Resource", "Custom::TidetableStanding", protected=protected)
        resource.node.add_dependency(*after)
