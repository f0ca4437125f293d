"""The CDK app: reads the configuration and the stage, and builds the stack; calls no AWS API and needs no credentials."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# The output of a synth should not contain warnings about Node's release dates. jsii expects the numbers of the versions.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "lambdas"))

import aws_cdk as cdk

from infra import Config, UsageError
from infra.assets import Assets
from infra.stack import TidetableStack
from tidetable.config.demand import list_remarks
from tidetable.names import STAGE


def read_environment() -> cdk.Environment | None:
    """The account and Region of the credentials, from the CDK's command line. With them names are literal, which an import needs.

    None without credentials: then CloudFormation joins the same names.
    """
    account, region = os.environ.get("CDK_DEFAULT_ACCOUNT"), os.environ.get("CDK_DEFAULT_REGION")
    return cdk.Environment(account=account, region=region) if account and region else None


def name_stack(stage: str, role: str) -> str:
    """The stack's name. A reader's is that of no stage, so that no deployment can make one of the other."""
    return f"Tidetable-Reader-{stage}" if role == "reader" else f"Tidetable-{stage}"


def main() -> None:
    """Synthesise; a configuration or stage that cannot be used ends with its problems and status 1."""
    app = cdk.App()
    stage = str(app.node.try_get_context("stage"))
    if not STAGE.fullmatch(stage):
        sys.exit(f"stage {stage!r}: use 1 to 16 of a-z, 0-9 and -, beginning with a letter, such as -c stage=prod")
    name = str(app.node.try_get_context("config") or "tidetable.toml")
    file = ROOT / name
    try:
        config = Config.file(file)
    except UsageError as error:
        sys.exit(str(error))
    # To stderr: the template goes to stdout.
    sys.stderr.write(f"configuration: {name}, streams: {', '.join(config.parsed.streams)}\n")
    sys.stderr.writelines(f"{name}: {line}\n" for line in list_remarks(config.parsed))
    if stage != "local":
        # They are about a stage in AWS, and take a fifth of the time of a synth. The demo does not install them.
        from cdk_nag import AwsSolutionsChecks

        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    assets = Assets(ROOT, file, stage)
    role, origin = str(app.node.try_get_context("role") or "origin"), app.node.try_get_context("origin") or None
    options: dict[str, Any] = {"stage": stage, "config": config.parsed, "assets": assets, "env": read_environment()}
    try:
        TidetableStack(app, name_stack(stage, role), **options, role=role, origin=origin)
    except UsageError as error:
        sys.exit(str(error))
    app.synth()


if __name__ == "__main__":
    main()
