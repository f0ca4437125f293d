"""A stack of a user with a stage that takes everything which an app may give: for the tests of the folder, made once."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from infra import Config, Tidetable
from tests.infra.synth import BOTH, CONFIG, DOORS, PAGER, ROLLED_UP, ROOT, EmptyAssets, Template, temporary_folder

HOME, AWAY = "us-east-1", "eu-west-1"
COPIED = ("[streams.stations]", f'[streams.stations]\nreplicas = ["{AWAY}"]')
# A topic of the stage's Region, and one of its reader's.
TOPICS = ("notify = []", f'notify = ["ops@example.com", "{PAGER}", "{PAGER.replace(HOME, AWAY)}"]')
# The doors of OpenTelemetry and of Firehose.
OPEN = (DOORS[1], DOORS[3])
EXPIRES = ('expire_after = "0s" ', 'expire_after = "365d" ')
MOVED = ('storage_class = "standard" ', 'storage_class = "infrequent-access" ')


def change(*changes: tuple[str, str]) -> Config:
    """The example configuration, changed by replacing text in it."""
    text = CONFIG.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Config.text(text)


@dataclass(frozen=True)
class Shop:
    """The user's stack, the stage in it, and their template."""

    stack: cdk.Stack
    stage: Tidetable
    template: Template


def make_shop() -> Shop:
    """Synthesise the stack."""
    # The app has none of the CDK's flags.
    app = cdk.App(outdir=temporary_folder("shop"))
    stack = cdk.Stack(app, "Shop", env=cdk.Environment(account="123456789012", region=HOME))
    own = s3.Bucket(stack, "Own", encryption=s3.BucketEncryption.KMS, encryption_key=kms.Key(stack, "BucketKey"))
    stage = Tidetable(
        stack,
        "Events",
        stage="prod-eu",
        config=change(BOTH, EXPIRES, MOVED, TOPICS, COPIED, *ROLLED_UP, *OPEN),
        bucket=own,
        key=kms.Key(stack, "QueueKey"),
        alarm_topic=sns.Topic(stack, "Pager"),
        permissions_boundary=iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "team-boundary"),
        architecture=lambda_.Architecture.X86_64,
        code=EmptyAssets(ROOT, CONFIG, "prod-eu"),
    )
    users = {name: iam.User(stack, name) for name in ("Sender", "Reader", "Every")}
    stage.grant_write(users["Sender"], "quakes")
    stage.grant_read(users["Reader"], "quakes", "stations")
    stage.grant_write(users["Every"])
    stage.grant_read(users["Every"])
    return Shop(stack, stage, Template(app.synth().get_stack_by_name("Shop").template))
