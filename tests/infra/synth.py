"""Synthesises the stack in this process with an empty asset: no pip, no network, no credentials."""

from __future__ import annotations

import atexit
import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks

from infra.assets import Assets
from infra.function import Kind
from infra.stack import TidetableStack
from tests.worlds.configs import CONFIG as CONFIG
from tests.worlds.configs import ROOT as ROOT
from tests.worlds.configs import uncomment
from tidetable.config import load, parse

# Where the CDK's library is unpacked, also for a process with another home, which would unpack it again: 210 MB.
JSII_CACHE = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache" / "aws" / "jsii" / "package-cache")}
Properties = dict[str, Any]

# Changes of the example configuration.
SIGNED = ('auth = "api-key"', 'auth = "iam"')
BOTH = ('auth = "api-key"', 'auth = ["api-key", "iam"]')
TRACED = ("tracing = false", "tracing = true")
LOGGED = (("log_retention_days = 30", "log_retention_days = 7"), ('log_level = "INFO"', 'log_level = "DEBUG"'))
SCALED = ('mode = "provisioned"', 'mode = "provisioned"\nautoscaling = { write = { min = 1, max = 40 } }')
KEY = "arn:aws:kms:us-east-1:000000000000:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PAGER = "arn:aws:sns:us-east-1:000000000000:pager"
NOTIFYING = ("notify = []", f'notify = ["ops@example.com", "{PAGER}", "night@example.com"]')
ORIGIN, LOCALHOST = "https://app.example.com", "http://localhost:3000"
PAGES = ("cors = []", f'cors = ["{ORIGIN}", "{LOCALHOST}"]')
ENCRYPTED = ('encryption = "aws-owned"', f'encryption = "{KEY}"')
DELETE_ALL = (
    ('removal = "keep"             # what happens to its tables', 'removal = "delete" #'),
    ("[streams.stations]", '[streams.stations]\nremoval = "delete"'),
    ("[streams.reports]", '[streams.reports]\nremoval = "delete"'),
)
# The storage's keys stand before the comment of the first stream.
STORAGE = 'removal = "keep"             # what happens to the archive'
ALL_GOES = (*DELETE_ALL, (STORAGE, 'removal = "delete" #'))
STORAGE_KEY = "arn:aws:kms:us-east-1:000000000000:key/5678abcd-12ab-34cd-56ef-1234567890ab"
FORMER_KEY = "arn:aws:kms:us-east-1:000000000000:key/9999abcd-12ab-34cd-56ef-1234567890ab"
STORED_BY_KEY = ('encryption = "service-managed"', f'encryption = "{STORAGE_KEY}"')
FORMER = ("former_keys = []", f'former_keys = ["{FORMER_KEY}"]')
ROLLED_UP = uncomment("[[streams.quakes.rollup]]")
DOORS = tuple((f"{name} = false", f"{name} = true") for name in ("influx", "otlp", "cloudevents", "firehose"))
COPIED = ("[streams.stations]", '[streams.stations]\nreplicas = ["ap-northeast-1", "eu-west-1"]')
PROTECTED = ("termination_protection = false", "termination_protection = true")
# A synth takes a second, so switches that do not touch each other are changed together, and each test looks at its own.
NO_COLUMNS = ('columns = { mag = "double", place = "string" }', "columns = {}")
LIMITED = (
    NO_COLUMNS,
    ('log_level = "INFO"', 'log_level = "WARNING"'),
    ('logging_role = "stage"', 'logging_role = "account"'),
    ("snap_start = false", "snap_start = false\nconcurrency = 100\nkey_rate = 3.5\nkey_burst = 9"),
    ("table_quota = 2500", "table_quota = 5000"),
    ('tls = "1.2" ', 'tls = "1.0" '),
    *DOORS,
)
EXPIRES = ('expire_after = "0s" ', 'expire_after = "365d" ')
MOVED = ('storage_class = "standard" ', 'storage_class = "infrequent-access" ')
AGEING = (
    EXPIRES,
    MOVED,
    ('storage_class_after = "30d"', 'storage_class_after = "45d"'),
    ('log_level = "INFO"', 'log_level = "ERROR"'),
    ("console = true", "console = false"),
    ("cors = []", 'cors = ["*"]'),
)
# All at once, for what checks whole templates.
EVERYTHING = (
    SIGNED,
    TRACED,
    SCALED,
    ENCRYPTED,
    *DELETE_ALL,
    ("snap_start = false", "snap_start = true"),
    PAGES,
    NOTIFYING,
    ("deletion_protection = false", "deletion_protection = true"),
    ("point_in_time_recovery = false", "point_in_time_recovery = true"),
    ('stream = "none"', 'stream = "new-and-old-images"'),
    ('versions = "overwrite"', 'versions = "keep"'),
    ("cold = []", 'cold = ["raw"]'),
    *ROLLED_UP,
    *DOORS,
)
# The same with both addresses, and with the storage's own key: the template with the most resources.
LARGEST = (BOTH, *(change for change in EVERYTHING if change != SIGNED), STORED_BY_KEY)
# Every key of KMS, present and former, with every function.
KEYS = (ENCRYPTED, STORED_BY_KEY, FORMER, *ROLLED_UP, *DOORS)
# Targets of alarms, with every alarm.
WATCHED = (NOTIFYING, BOTH, *DOORS, *ROLLED_UP)


def temporary_folder(what: str) -> str:
    """A folder that is removed when the tests end."""
    folder = mkdtemp(prefix=f"tidetable-{what}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class EmptyAssets(Assets):
    """Assets for tests that check only the template: each has one empty file, named by the kind of code."""

    @staticmethod
    @cache
    def _empty(kind: str) -> str:
        folder = temporary_folder("asset")
        Path(folder, f"{kind}.py").touch()
        return folder

    def make_code(self, kind: Kind) -> lambda_.Code:
        """Nothing, except for the console: its asset is made of files of the checkout alone."""
        return super().make_code(kind) if kind == "console" else lambda_.Code.from_asset(self._empty(kind))


@dataclass(frozen=True)
class Template:
    """A synthesised template, with access by type of resource."""

    document: dict[str, Any]
    # Where the synth wrote the template and its assets.
    folder: Path | None = None
    # The notes and warnings of the synth.
    messages: tuple[str, ...] = ()

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Every resource by its logical id."""
        found: dict[str, dict[str, Any]] = self.document["Resources"]
        return found

    def all(self, kind: str) -> dict[str, Properties]:
        """The properties of every resource of a type, by logical id."""
        return {
            id: resource.get("Properties", {}) for id, resource in self.resources.items() if resource["Type"] == kind
        }

    def functions(self) -> dict[str, Properties]:
        """The project's own functions, by the name of their handler's module; not the CDK's helpers."""
        found = self.all("AWS::Lambda::Function").values()
        return {
            function["Handler"].removeprefix("handlers.").removesuffix(".handler"): function
            for function in found
            if function["Handler"].startswith("handlers.")
        }

    def id_of(self, handler: str) -> str:
        """The logical id of one of the project's own functions."""
        kind = "AWS::Lambda::Function"
        return next(
            id for id, resource in self.all(kind).items() if resource["Handler"] == f"handlers.{handler}.handler"
        )

    def statements(self, handler: str) -> list[dict[str, Any]]:
        """Every statement of the policies of a function's role."""
        role = self.functions()[handler]["Role"]["Fn::GetAtt"][0]
        policies = self.all("AWS::IAM::Policy").values()
        return [
            statement
            for policy in policies
            if {"Ref": role} in policy.get("Roles", ())
            for statement in policy["PolicyDocument"]["Statement"]
        ]


def app(
    stage: str = "dev", *changes: tuple[str, str], file: Path = CONFIG, env: cdk.Environment | None = None
) -> tuple[cdk.App, TidetableStack]:
    """An app with the stack of a configuration, by default the example, changed by replacing text in it."""
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context=context, outdir=temporary_folder("synth"), tree_metadata=False, stack_traces=False)
    config = parse(text) if changes else load(file)
    return app, TidetableStack(
        app, f"Tidetable-{stage}", stage=stage, config=config, assets=EmptyAssets(ROOT, file, stage), env=env
    )


@cache
def template(stage: str = "dev", *changes: tuple[str, str], file: Path = CONFIG) -> Template:
    """The template of a stage, synthesised once per test run."""
    return _synthesised(*app(stage, *changes, file=file))


@cache
def located(region: str = "eu-west-1", *changes: tuple[str, str]) -> Template:
    """The template of stage dev with credentials of account 123456789012 and a Region."""
    return _synthesised(*app("dev", *changes, env=cdk.Environment(account="123456789012", region=region)))


def _synthesised(made: cdk.App, stack: TidetableStack) -> Template:
    artifact = made.synth().get_stack_by_name(stack.stack_name)
    messages = tuple(str(message.entry.data) for message in artifact.messages)
    return Template(artifact.template, Path(made.outdir), messages)


def checked(made: cdk.App) -> cdk.App:
    """The app with cdk-nag's AwsSolutions rules, as in app.py."""
    cdk.Validations.of(made).add_plugins(AwsSolutionsChecks(made))
    return made


def actions(statement: dict[str, Any]) -> set[str]:
    """A statement's actions; CloudFormation allows a single action or a list."""
    given = statement["Action"]
    return {given} if isinstance(given, str) else set(given)


def resources(statement: dict[str, Any]) -> list[str]:
    """A statement's resources as text, with references."""
    given = statement["Resource"]
    return [json.dumps(resource) for resource in (given if isinstance(given, list) else [given])]
