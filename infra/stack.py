"""The stack of a checkout: one stage, and the outputs that users need."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from constructs import Construct

from tidetable.config import Config as Parsed

from .configuration import Config
from .construct import Tidetable
from .function import Code


class TidetableStack(Stack):
    """One stage of the pipeline in one account and Region, or a reader of it in another Region."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: str,
        config: Parsed,
        assets: Code,
        env: Environment | None = None,
        role: str = "origin",
        origin: str | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            description="Tidetable: time-series events in DynamoDB tables by period"
            + (f"; a reader of the copies of {origin}" if origin is not None else ""),
            env=env,
            termination_protection=config.storage.termination_protection,
        )
        # The CDK leaves the id "Default" out of logical ids. So the logical ids are the same as if the stack itself had
        # the constructs, and no resource of a deployed stage is replaced.
        self.tidetable = Tidetable(
            self, "Default", stage=stage, config=Config(config, b""), code=assets, role=role, origin=origin
        )
        self.tidetable.add_outputs()
