"""Least privilege for keys and buckets: by which service, under which prefixes, of which account."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.infra import synth
from tests.infra.rights import RIGHTS
from tests.infra.synth import (
    DOORS,
    ENCRYPTED,
    FORMER,
    FORMER_KEY,
    KEY,
    KEYS,
    ROLLED_UP,
    SCALED,
    Template,
    actions,
    resources,
)

# A stream whose archives expire, with values in the bucket.
SWEPT = """
[archive]
expire_after = "7d"
[streams.s]
period = "day"
late = "1d"
retention = 3
large = { beyond = "s3" }
key = { partition_by = "series" }
"""


# Features that tables keep for their life: the functions keep their rights when a feature leaves the configuration.
PLAIN = (
    ('versions = "keep"', ""),
    ('cold = ["raw"]', ""),
    ('beyond = "s3"', 'beyond = "refuse"'),
    ('beyond = "chunks"', ""),
)


@pytest.mark.parametrize("name", RIGHTS)
def test_rights_do_not_follow_todays_configuration(name: str) -> None:
    def rights(made: Template) -> set[tuple[str, str]]:
        return {
            (action, text)
            for statement in made.statements(name)
            for action in actions(statement)
            for text in resources(statement)
        }

    assert rights(synth.template("dev", *PLAIN, *ROLLED_UP, *DOORS)) == rights(
        synth.template("dev", SCALED, *ROLLED_UP, *DOORS)
    )


USES = {
    *("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:DescribeKey"),
    *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"),
}


THROUGH = {"Fn::Join": ["", ["dynamodb.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}


@pytest.mark.parametrize("changes, keys", [((ENCRYPTED,), {KEY}), (KEYS, {KEY, FORMER_KEY}), ((FORMER,), {FORMER_KEY})])
def test_keys_of_tables_present_and_former_are_used_through_dynamodb_only(
    changes: tuple[tuple[str, str], ...], keys: set[str]
) -> None:
    made = synth.template("dev", *changes)
    for name in ("ingest", "drain", "query", "lifecycle", "deployment", "archiver", "restorer", "sweeper"):
        uses = [
            statement
            for statement in made.statements(name)
            if statement.get("Condition", {}) == {"StringEquals": {"kms:ViaService": THROUGH}}
        ]
        assert [actions(statement) for statement in uses] == [USES]
        assert {text.strip('"') for statement in uses for text in resources(statement)} == keys


def test_only_who_makes_tables_may_let_dynamodb_keep_using_a_key() -> None:
    made = synth.template("dev", *KEYS)
    may = {}
    for name in RIGHTS:
        for statement in made.statements(name):
            if "kms:CreateGrant" in actions(statement):
                may[name] = statement["Condition"]
    assert set(may) == {"lifecycle", "deployment", "restorer"}
    condition = {
        "StringEquals": {"kms:ViaService": THROUGH},
        "Bool": {"kms:GrantIsForAWSResource": "true"},
    }
    assert list(may.values()) == [condition] * 3


def test_every_function_uses_keys_through_a_service_only() -> None:
    made = synth.template("dev", *KEYS)
    bare = {
        name: statement
        for name in RIGHTS
        for statement in made.statements(name)
        if any(action.startswith("kms:") for action in actions(statement))
        and "kms:ViaService" not in statement.get("Condition", {}).get("StringEquals", {})
    }
    assert bare == {}


@pytest.mark.parametrize(
    "name, prefixes",
    [
        ("query", ["large/*", "listings/*"]),
        ("feed", ["large/*"]),
        ("refresher", ["large/*"]),
        ("drain", ["overflow/*", "saved/*"]),
        ("lifecycle", ["overflow/*"]),
        ("archiver", ["stream=*", "large/*"]),
        ("restorer", ["stream=*", "large/*"]),
        ("sweeper", ["stream=*", "large/*"]),
        ("lake", ["stream=*", "iceberg/*"]),
    ],
)
def test_the_bucket_is_listed_under_a_functions_own_prefixes(rolled: Template, name: str, prefixes: list[str]) -> None:
    listing = [statement for statement in rolled.statements(name) if "s3:ListBucket" in actions(statement)]
    # CloudFormation takes a list of one as its element.
    expected = {"StringLike": {"s3:prefix": prefixes if len(prefixes) > 1 else prefixes[0]}}
    assert [_unlisted(statement["Condition"]) for statement in listing] == [expected]


def test_the_sweeper_may_list_what_it_lists(dev: Template) -> None:
    """S3 denies a listing with a prefix that the condition does not name; the emulator allows it."""
    stage = Stage(datetime(2026, 3, 15, 12, tzinfo=UTC), SWEPT)
    while stage.run_lifecycle().done:
        pass
    stage.send("s", json.dumps([{"series": "a", "data": {"text": noise(500_000)}}]).encode())
    listed: list[str] = []
    for store, name in ((stage.values, "stored"), (stage.values, "folders"), (stage.bucket, "sizes")):
        _note_prefixes(store, name, listed)
    for _ in range(40):
        stage.clock.sleep(86_400)
        stage.run_lifecycle()
    listed.clear()
    assert stage.sweep().failures == []
    (statement,) = [statement for statement in dev.statements("sweeper") if "s3:ListBucket" in actions(statement)]
    patterns = statement["Condition"]["StringLike"]["s3:prefix"]
    assert {pattern: any(fnmatchcase(prefix, pattern) for prefix in listed) for pattern in patterns} == {
        "stream=*": True,
        "large/*": True,
    }
    assert [prefix for prefix in listed if not any(fnmatchcase(prefix, pattern) for pattern in patterns)] == []


def _note_prefixes(store: Any, name: str, listed: list[str]) -> None:
    lists = getattr(store, name)

    def note(prefix: str, *more: Any) -> Any:
        listed.append(prefix)
        return lists(prefix, *more)

    setattr(store, name, note)


@pytest.mark.parametrize("name", RIGHTS)
def test_the_local_stages_rights_are_those_of_any_stage(rolled: Template, name: str) -> None:
    """So the end-to-end tests under IAM test the rights that are deployed to AWS."""

    def without_stage(template: Template, stage: str) -> str:
        text = json.dumps(template.statements(name), sort_keys=True)
        return text.replace(f"tidetable-{stage}", "tidetable-STAGE").replace(f"tidetable_{stage}", "tidetable_STAGE")

    assert without_stage(synth.template("local", *ROLLED_UP, *DOORS), "local") == without_stage(rolled, "dev")


def _unlisted(condition: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {
        test: {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()}
        for test, keys in condition.items()
    }


def test_objects_are_those_of_the_accounts_own_bucket(rolled: Template) -> None:
    """The name of a deleted bucket may be taken by another account."""
    found = [
        statement
        for name in RIGHTS
        for statement in rolled.statements(name)
        if any("/large/*" in text for text in resources(statement))
    ]
    assert len(found) > 4
    assert all(
        statement["Condition"]["StringEquals"] == {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}
        for statement in found
    )
