"""Apps of users with a stage as a construct in a stack of their own, without any code of functions."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from infra import Config, Tidetable
from tests.infra.synth import CONFIG, ROOT, EmptyAssets, Template, temporary_folder

ACCOUNT = "123456789012"


def new_app() -> cdk.App:
    """An app without any feature flag of the CDK in its cdk.json."""
    return cdk.App(outdir=temporary_folder("own"), tree_metadata=False, stack_traces=False)


def new_stack(app: cdk.App | None = None, id: str = "Shop", region: str | None = None) -> cdk.Stack:
    """A stack of a user, in a Region of the account if that is named."""
    env = cdk.Environment(account=ACCOUNT, region=region) if region else None
    return cdk.Stack(app or new_app(), id, env=env)


def add(
    scope: Construct, id: str = "Events", stage: str = "prod", *changes: tuple[str, str], **options: Any
) -> Tidetable:
    """A stage with the example configuration, changed by replacing text in it."""
    text = CONFIG.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Tidetable(scope, id, stage=stage, config=Config.text(text), code=EmptyAssets(ROOT, CONFIG, stage), **options)


def synthesise(stack: cdk.Stack) -> Template:
    """The template of a stack."""
    root = stack.node.root
    assert isinstance(root, cdk.App)
    return Template(root.synth().get_stack_by_name(stack.stack_name).template)
