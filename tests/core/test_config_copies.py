"""``replicas``: the names of Regions, and the settings that do not go together with copies."""

import pytest

from tidetable.config import parse
from tidetable.config.check_copies import check_own_region
from tidetable.errors import ConfigError

STREAM = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'
COPIED = STREAM + 'replicas = ["eu-west-1"]\n'
SCALED = "{ write = { min = 5, max = 50 } }"


def problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def test_a_stream_has_no_copies_unless_it_says_so() -> None:
    assert parse(STREAM).streams["s"].replicas == ()
    assert parse(STREAM).streams["s"].shown == "none"
    assert parse(COPIED).streams["s"].replicas == ("eu-west-1",)


def test_copies_need_new_and_old_images_and_have_them_by_themselves() -> None:
    assert parse(COPIED).streams["s"].shown == "new-and-old-images"
    feed = '[streams.s.feed]\ntargets = ["arn:aws:sqs:us-east-1:123456789012:q"]\n'
    assert parse(COPIED + feed).streams["s"].shown == "new-and-old-images"
    assert parse(STREAM + feed).streams["s"].shown == "new-image"
    table = '[streams.s.table]\nstream = "{}"\n'
    assert problems(COPIED + table.format("new-and-old-images")) == []
    assert problems(COPIED + table.format("new-image")) == [
        (
            'streams.s.table.stream: "new-image" cannot be used with replicas, which need new and old images; remove it, or write'
            ' "new-and-old-images"'
        )
    ]


@pytest.mark.parametrize(
    "region", ["eu-west-1", "us-gov-east-1", "ap-southeast-4", "cn-north-1", "mx-central-1", "eusc-de-east-1"]
)
def test_names_of_regions_are_taken(region: str) -> None:
    assert problems(STREAM + f'replicas = ["{region}"]\n') == []


@pytest.mark.parametrize("region", ["", "Ireland", "EU-WEST-1", "eu-west", "eu-west-1a", "eu_west_1"])
def test_what_is_no_name_of_a_region_is_refused(region: str) -> None:
    assert problems(STREAM + f'replicas = ["{region}"]\n') == [
        f'streams.s.replicas: "{region}" is not the name of a Region, such as "eu-west-1"'
    ]


@pytest.mark.parametrize("others", [("cn-north-1",), ("us-gov-west-1",), ("eusc-de-east-1",), ("us-isob-east-1",)])
def test_copies_are_within_one_partition_of_aws(others: tuple[str, ...]) -> None:
    named = ["eu-west-1", *others]
    assert problems(STREAM + f"replicas = {named}\n".replace("'", '"')) == [
        f"streams.s.replicas: {named} are in 2 partitions of AWS, and DynamoDB copies within one only"
    ]
    (problem,) = check_own_region(parse(COPIED), others[0])
    assert problem == (
        f"streams.s.replicas: eu-west-1 and the stage's {others[0]} are in different partitions of AWS, and DynamoDB copies"
        " within one only; remove it"
    )
    assert list(check_own_region(parse(COPIED), "eu-central-1")) == []


def test_a_region_has_one_copy_and_a_table_five() -> None:
    twice = problems(STREAM + 'replicas = ["eu-west-1", "eu-west-1"]\n')
    assert twice == ["streams.s.replicas: ['eu-west-1', 'eu-west-1'] names a Region twice; name each once"]
    six = ", ".join(f'"eu-west-{number}"' for number in range(1, 7))
    assert problems(STREAM + f"replicas = [{six}]\n") == [
        "streams.s.replicas: 6 Regions; name 5 at the most, because each pays for every write"
    ]


def test_a_key_of_one_region_is_refused() -> None:
    table = '[streams.s.table]\nencryption = "{}"\n'
    arn = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
    assert problems(STREAM + table.format(arn)) == []
    assert problems(COPIED + table.format(arn)) == [
        (
            "streams.s.table.encryption: a KMS key is of one Region, and each copy would need a key of its own; with replicas"
            ' choose "aws-owned" or "aws-managed"'
        )
    ]
    assert problems(COPIED + table.format("aws-managed")) == []


@pytest.mark.parametrize(
    ("capacity", "steps"),
    [
        ('mode = "on-demand"', []),
        ('mode = "provisioned"\nladder = [{ age = 0, write = 5, read = 5 }]', ["0"]),
        (f'mode = "provisioned"\nautoscaling = {SCALED}\nladder = [{{ age = 0, write = 5, read = 5 }}]', []),
        (
            (
                'mode = "provisioned"\nautoscaling = { read = { min = 5, max = 50 } }\n'
                "ladder = [{ age = 0, write = 5, read = 5 }]"
            ),
            ["0"],
        ),
        (
            (
                f'mode = "provisioned"\nautoscaling = {SCALED}\n'
                'ladder = [{ age = 0, write = 5, read = 5 }, { age = 1, mode = "on-demand" }]'
            ),
            [],
        ),
        (
            (
                f'mode = "provisioned"\nautoscaling = {SCALED}\n'
                "ladder = [{ age = 0, write = 5, read = 5 }, { age = 1, write = 1, read = 1 }]"
            ),
            ["1"],
        ),
        (
            (
                f'mode = "provisioned"\nautoscaling = {SCALED}\n'
                'ladder = [{ age = 0, write = 5, read = 5 }, { age = "late", write = 1, read = 1 },'
                ' { age = 1, mode = "on-demand" }]'
            ),
            ["late"],
        ),
    ],
)
def test_the_writes_of_a_table_with_copies_are_on_demand_or_scaled(capacity: str, steps: list[str]) -> None:
    section = f"[streams.s.capacity]\n{capacity}\n"
    assert problems(STREAM + section) == []
    found = [problem.partition(": ")[0] for problem in problems(COPIED + section)]
    assert found == [f"streams.s.capacity.ladder (age = {step})" for step in steps]


def test_the_tables_of_rollups_have_the_copies_of_their_stream() -> None:
    rollup = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nretention = "30d"\n'
    derived = parse(COPIED + rollup).streams["s-hours"]
    assert derived.replicas == ("eu-west-1",)
    assert derived.shown == "new-and-old-images"


def test_the_region_of_the_stage_has_no_copy() -> None:
    config = parse(COPIED)
    assert list(check_own_region(config, "us-east-1")) == []
    assert list(check_own_region(config, "eu-west-1")) == [
        "streams.s.replicas: eu-west-1 is the Region of the stage itself, which has the tables already; remove it"
    ]
