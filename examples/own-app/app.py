"""A shop's own CDK app: its function may send orders, its bucket keeps the archive, and its topic gets the alarms."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from tidetable_cdk import Config, Tidetable

HERE = Path(__file__).resolve().parent


class Shop(cdk.Stack):
    """The shop in one account and Region."""

    def __init__(self, scope: cdk.App, id: str, *, stage: str) -> None:
        super().__init__(scope, id)
        pager = sns.Topic(self, "Pager")
        archive = s3.Bucket(self, "Archive", enforce_ssl=True, versioned=True)
        self.events = Tidetable(
            self,
            "Events",
            stage=stage,
            config=Config.file(HERE / "tidetable.toml"),
            bucket=archive,
            alarm_topic=pager,
        )
        checkout = lambda_.Function(
            self,
            "Checkout",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="checkout.handler",
            code=lambda_.Code.from_asset(str(HERE / "checkout")),
            environment={"EVENTS_URL": self.events.signed_url},
        )
        self.events.grant_write(checkout, "orders")
        # `TIDETABLE_STACK=Shop bin/tidetable status` finds the stage by them.
        self.events.add_outputs()


app = cdk.App()
Shop(app, "Shop", stage=app.node.try_get_context("stage") or "dev")
app.synth()
