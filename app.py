"""The CDK app: reads the configuration and the stage, and builds the stack; calls no AWS API and needs no credentials."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Node's release dates are no business of a synth's output.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "lambdas"))

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra.assets import Assets
from infra.stack import TidetableStack
from tidetable.config import load
from tidetable.config.demand import remarks
from tidetable.errors import ConfigError
from tidetable.names import STAGE


def main() -> None:
    """Synthesise; a configuration or stage that cannot be used ends with its problems and status 1."""
    app = cdk.App()
    stage = str(app.node.try_get_context("stage"))
    if not STAGE.fullmatch(stage):
        sys.exit(f"stage {stage!r}: use 1 to 16 of a-z, 0-9 and -, beginning with a letter, such as -c stage=prod")
    file = ROOT / str(app.node.try_get_context("config") or "tidetable.toml")
    try:
        config = load(file)
    except ConfigError as error:
        sys.exit(f"{file.name}: {error}")
    # Not on stdout, where the CLI may print the template.
    sys.stderr.writelines(f"{file.name}: {line}\n" for line in remarks(config))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    TidetableStack(app, f"Tidetable-{stage}", stage=stage, config=config, assets=Assets(ROOT, file, stage))
    app.synth()


if __name__ == "__main__":
    main()
