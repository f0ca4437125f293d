"""``[streams.NAME.feed]``: its targets and bounds, and what new tables show because of it."""

import pytest

from tidetable.config import parse
from tidetable.config.record import parse_policy, render_policy
from tidetable.errors import ConfigError

STREAM = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:changes"


def problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def feed(text: str = "", targets: str = f'["{QUEUE}"]') -> str:
    return STREAM + f"[streams.s.feed]\ntargets = {targets}\n{text}\n"


@pytest.mark.parametrize(
    "target",
    [
        QUEUE,
        QUEUE + ".fifo",
        "arn:aws:lambda:us-east-1:123456789012:function:upsert",
        "arn:aws:lambda:us-east-1:123456789012:function:upsert:live",
        "arn:aws:events:us-east-1:123456789012:event-bus/default",
        "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders",
        "arn:aws:firehose:us-east-1:123456789012:deliverystream/orders",
        # AWS: the names of functions have at most 64 characters, those of queues 80, with ".fifo".
        "arn:aws:lambda:us-east-1:123456789012:function:" + "f" * 64,
        "arn:aws:sqs:us-east-1:123456789012:" + "q" * 80,
        "arn:aws:sqs:us-east-1:123456789012:" + "q" * 75 + ".fifo",
    ],
)
def test_targets_are_arns_of_five_services(target: str) -> None:
    assert problems(feed(targets=f'["{target}"]')) == []


@pytest.mark.parametrize(
    "target",
    [
        "",
        "changes",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/changes",
        "arn:aws:sns:eu-central-1:123456789012:topic",
        "arn:aws:lambda:us-east-1:123456789012:layer:upsert",
        "arn:aws:lambda:us-east-1:1234:function:upsert",
        "arn:aws:events:us-east-1:123456789012:rule/default",
        "arn:aws:kinesis:us-east-1:123456789012:orders",
        "arn:aws:firehose:us-east-1:123456789012:stream/orders",
        "arn:aws:sqs:eu-central-1:123456789012:changes/*",
        "arn:aws:lambda:us-east-1:123456789012:function:" + "f" * 65,
        "arn:aws:sqs:us-east-1:123456789012:" + "q" * 81,
        "arn:aws:sqs:us-east-1:123456789012:" + "q" * 76 + ".fifo",
    ],
)
def test_any_other_target_is_refused_with_what_there_is(target: str) -> None:
    (problem,) = problems(feed(targets=f'["{target}"]'))
    assert problem.startswith(
        f'streams.s.feed.targets: "{target}" is not the ARN of a target; a target is arn:aws:lambda:'
    )


@pytest.mark.parametrize(("count", "fine"), [(0, False), (1, True), (5, True), (6, False)])
def test_a_feed_has_one_to_five_targets(count: int, fine: bool) -> None:
    targets = "[" + ", ".join(f'"{QUEUE}{number}"' for number in range(count)) + "]"
    assert (problems(feed(targets=targets)) == []) is fine


def test_no_target_is_named_twice() -> None:
    assert "each once" in problems(feed(targets=f'["{QUEUE}", "{QUEUE}"]'))[0]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("kinds = []", "kinds"),
        ('kinds = ["insert", "insert"]', "kinds"),
        ('kinds = ["remove"]', "kinds"),
        ("batch = 0", "batch"),
        ("batch = 10001", "batch"),
        ("parallel = 0", "parallel"),
        ("parallel = 11", "parallel"),
        ('window = "301s"', "window"),
        ('max_age = "59s"', "max_age"),
        ('max_age = "24h"', "max_age"),
        ('max_age = "1381m"', "max_age"),
        ('where = { "mag:above" = "5" }', "where"),
        ('where = { "mag..x" = "5" }', "where"),
    ],
)
def test_every_key_has_its_bounds(line: str, key: str) -> None:
    (problem,) = problems(feed(line))
    assert problem.startswith((f"streams.s.feed.{key}: ", f"streams.s.feed.{key}[", f"streams.s.feed.{key}."))


@pytest.mark.parametrize(
    "line",
    [
        'kinds = ["replace"]',
        "batch = 1",
        "batch = 10000",
        "parallel = 1",
        "parallel = 10",
        'window = "0s"',
        'window = "300s"',
        'max_age = "1m"',
        'max_age = "23h"',
        'where = { "mag:ge" = "5", "place.state" = "open" }',
    ],
)
def test_values_within_the_bounds_are_taken(line: str) -> None:
    assert problems(feed(line)) == []


def test_targets_are_required() -> None:
    assert problems(STREAM + "feed = {}\n")[0].startswith("streams.s.feed.targets: missing")


@pytest.mark.parametrize(
    ("stream", "shown"),
    [("", "new-image"), ('table = { stream = "new-and-old-images" }', "new-and-old-images")],
)
def test_new_tables_of_a_stream_with_a_feed_show_new_images(stream: str, shown: str) -> None:
    config = parse(STREAM + stream + f'\nfeed = {{ targets = ["{QUEUE}"] }}\n')
    assert config.streams["s"].shown == shown
    assert parse(STREAM + stream + "\n").streams["s"].shown == (shown if stream else "none")


@pytest.mark.parametrize("shows", ["keys-only", "old-image"])
def test_a_change_stream_without_new_images_is_refused(shows: str) -> None:
    (problem,) = problems(STREAM + f'table = {{ stream = "{shows}" }}\nfeed = {{ targets = ["{QUEUE}"] }}\n')
    assert problem.startswith(f'streams.s.table.stream: "{shows}" shows no new images')


def test_the_policy_of_a_stream_that_leaves_the_configuration_keeps_its_feed() -> None:
    stream = parse(feed('where = { "mag:ge" = "5" }')).streams["s"]
    assert parse_policy("s", render_policy(stream)) == stream
