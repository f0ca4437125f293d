"""Mistakes of an app or a configuration: each is an error of the synth that names the parameter or the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import Config, Tidetable, UsageError, construct
from infra.checks import check_alone
from tests.infra import synth
from tests.infra.shop import COPIED, change
from tests.infra.synth import ALL_GOES, CONFIG, ENCRYPTED, NOTIFYING, ROOT, STORED_BY_KEY, EmptyAssets


@pytest.fixture(scope="module")
def plain() -> tuple[cdk.App, Tidetable]:
    """A stage with keys only, which is not synthesised."""
    app, stack = synth.app()
    return app, stack.tidetable


def test_what_a_stage_does_not_have_is_none_or_an_error(plain: tuple[cdk.App, Tidetable]) -> None:
    _, stage = plain
    assert (stage.signed_api, stage.alarm_topic, stage.encryption_key) == (None, None, None)
    message = r'the API takes keys only. Set \[api\] auth = \["api-key", "iam"\]'
    with pytest.raises(UsageError, match=f"^signed_url: {message}"):
        stage.signed_url  # noqa: B018 - the attribute raises
    for name in ("grant_write", "grant_read"):
        with pytest.raises(UsageError, match=f"^{name}: {message}"):
            getattr(stage, name)(iam.User(cdk.Stack(), "Sender"))


def _add(scope: Construct, stage: str, config: Config, **options: Any) -> Tidetable:
    return Tidetable(scope, "Events", stage=stage, config=config, code=EmptyAssets(ROOT, CONFIG, stage), **options)


def test_a_second_stage_of_the_name_or_with_the_bucket_is_refused(plain: tuple[cdk.App, Tidetable]) -> None:
    """An account and a Region that are not known may be the same."""
    app, stage = plain
    with pytest.raises(UsageError, match=r"^stage 'dev': Tidetable-dev/Default has this name already"):
        _add(cdk.Stack(app, "Second"), "dev", change())
    with pytest.raises(UsageError, match=r"^bucket: Tidetable-dev/Default uses this bucket already"):
        _add(cdk.Stack(app, "Third"), "other", change(), bucket=stage.bucket)


def test_a_bucket_of_another_stack_is_known_by_its_name() -> None:
    app = cdk.App()
    stacks = [cdk.Stack(app, name) for name in ("One", "Two", "Three")]
    buckets = [
        s3.Bucket.from_bucket_name(stack, "Own", name)
        for stack, name in zip(stacks, ("shared", "other", "shared"), strict=True)
    ]
    check_alone(stacks[0], "one", buckets[0])
    check_alone(stacks[1], "two", buckets[1])
    with pytest.raises(UsageError, match=r"^bucket: One uses this bucket already"):
        check_alone(stacks[2], "three", buckets[2])


PREFIX = r"arn:aws:\w+:us-east-1:000000000000:"


@pytest.mark.parametrize(
    ("stage", "changes", "own", "message"),
    [
        ("Prod", (), None, "stage 'Prod': use 1 to 16 of a-z, 0-9 and -, beginning with a letter, such as 'prod'"),
        (
            "p",
            (STORED_BY_KEY,),
            None,
            rf"\[storage\] encryption: {PREFIX}key/5678\S* is of us-east-1, and the stack Shop",
        ),
        (
            "p",
            (ENCRYPTED,),
            None,
            rf"\[streams.quakes.table\] encryption: {PREFIX}key/1234\S* is of us-east-1, and the",
        ),
        (
            "p",
            (NOTIFYING,),
            None,
            rf"\[observability\] notify: {PREFIX}pager is of us-east-1, and the stack Shop of eu-",
        ),
        (
            "p",
            (COPIED,),
            None,
            r"streams\.stations\.replicas: eu-west-1 is the Region of the stage itself",
        ),
        (
            "p",
            (STORED_BY_KEY,),
            "key",
            r"key and \[storage\] encryption both name the key of the queues and the bucket",
        ),
        ("p", ALL_GOES, "bucket", r'bucket and \[storage\] removal = "delete" exclude each other: the stack empties'),
    ],
)
def test_a_mistake_is_an_error_of_the_synth(
    stage: str, changes: tuple[tuple[str, str], ...], own: str | None, message: str
) -> None:
    stack = cdk.Stack(None, "Shop", env=cdk.Environment(account="123456789012", region="eu-west-1"))
    given: dict[str, Any] = {"key": kms.Key(stack, "Key")} if own == "key" else {}
    given |= {"bucket": s3.Bucket(stack, "Own")} if own == "bucket" else {}
    with pytest.raises(UsageError, match=f"^{message}"):
        _add(stack, stage, change(*changes), **given)


def test_functions_without_their_code_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config = change()
    with pytest.raises(UsageError, match="this is not an installed package"):
        Tidetable(cdk.Stack(), "Events", stage="prod", config=config)
    asked: list[tuple[object, ...]] = []

    def find_code(content: bytes, stage: str, machine: lambda_.Architecture) -> None:
        asked.append((content, stage, machine.name))
        raise UsageError("no code")

    monkeypatch.setattr(construct, "Bundles", find_code)
    with pytest.raises(UsageError, match="no code"):
        Tidetable(cdk.Stack(), "Events", stage="prod", config=config)
    assert asked == [(CONFIG.read_bytes(), "prod", "arm64")]


def test_a_configuration_keeps_the_text_that_the_functions_read(tmp_path: Path) -> None:
    text = CONFIG.read_text() + "# Erdbeben über 4\n"
    (tmp_path / "shop.toml").write_text(text, encoding="utf-8")
    kept = [Config.file(tmp_path / "shop.toml"), Config.text(text)]
    assert {config.content for config in kept} == {text.encode()}
    assert [list(config.parsed.streams) for config in kept] == [["quakes", "stations", "reports"]] * 2
    wrong = text.replace("rate = 200", "rate = 0")
    (tmp_path / "shop.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(UsageError, match=r"^1 problem in the configuration:\n  - api\.rate"):
        Config.text(wrong)
    with pytest.raises(UsageError, match=r"^shop\.toml: 1 problem in the configuration:\n  - api\.rate"):
        Config.file(tmp_path / "shop.toml")
