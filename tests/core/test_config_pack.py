"""``[streams.NAME.pack]``: its bounds, the settings that exclude it, and its record in a period's layout."""

import pytest
from msgspec.structs import replace

from aws.dynamodb.catalog_items import make_attributes, read_entry
from aws.dynamodb.wire import decode_item, encode_item
from cli.advice import describe_stream
from tests.packs.table import NOON
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.config.record import parse_policy, render_policy
from tidetable.errors import ConfigError
from tidetable.exact_json import decode_json
from tidetable.layout import Layout, Packing
from tidetable.periods import parse_label

STREAM = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\n'
TIMELY = STREAM + 'key = { partition_by = "time", bucket = "6h" }\n'
SERIAL = STREAM + 'key = { partition_by = "series" }\n'


def problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


def test_a_pack_needs_its_span_only() -> None:
    stream = parse(TIMELY + 'pack = { span = "1m" }\n').streams["s"]
    assert stream.layout.pack == Packing(60, 65_536)
    assert parse(TIMELY).streams["s"].layout.pack is None
    assert problems(TIMELY + "pack = {}\n") == [
        "streams.s.pack.span: missing; add it (the commented tidetable.toml shows its values)"
    ]


@pytest.mark.parametrize(
    ("stream", "span", "fine"),
    [
        (TIMELY, "1s", True),
        (TIMELY, "0s", False),
        (TIMELY, "6h", True),
        (TIMELY, "7h", False),
        (SERIAL, "1d", True),
        (SERIAL, "2d", False),
        (SERIAL.replace("day", "week"), "7d", True),
    ],
)
def test_a_pack_spans_a_second_at_the_least_and_a_bucket_or_a_period_at_the_most(
    stream: str, span: str, fine: bool
) -> None:
    messages = problems(stream + f'pack = {{ span = "{span}" }}\n')
    assert [message.partition(": ")[0] for message in messages] == ([] if fine else ["streams.s.pack.span"])


def test_the_longest_span_is_named() -> None:
    (problem,) = problems(TIMELY + 'pack = { span = "7h" }\n')
    assert problem == (
        "streams.s.pack.span: 7h is not within 1s to the stream's bucket, 6h; choose the time that the events of one request"
        ' mostly take, such as "1m": a query also reads the events of this time after its range'
    )
    assert "1s to the stream's period, 1d;" in problems(SERIAL + 'pack = { span = "2d" }\n')[0]


@pytest.mark.parametrize(("most", "fine"), [(4_096, True), (4_095, False), (350_000, True), (350_001, False)])
def test_a_pack_has_bytes_for_some_events_and_fits_an_item(most: int, fine: bool) -> None:
    messages = problems(TIMELY + f'pack = {{ span = "1m", max_bytes = {most} }}\n')
    assert [message.partition(": ")[0] for message in messages] == ([] if fine else ["streams.s.pack.max_bytes"])


@pytest.mark.parametrize(
    ("beside", "problem"),
    [
        (
            '[[streams.s.index]]\nname = "own"\npartition_by = "kind"\n',
            ".index.own: an index has no keys for the events inside",
        ),
        (
            '[[streams.s.index]]\nname = "own"\nreplica = true\n',
            ".index.own: an index has no keys for the events inside",
        ),
        (
            'versions = "keep"\n',
            '.versions: "keep" numbers the versions of one item, and a pack holds many events; remove it',
        ),
        ('cold = ["raw"]\n', ".cold: a pack is read whole, so no field of it can be kept apart; remove cold"),
    ],
)
def test_what_cannot_be_had_with_packs_is_refused_with_what_to_do_instead(beside: str, problem: str) -> None:
    text = TIMELY + 'pack = { span = "1m" }\n' + beside
    (found,) = problems(text)
    assert found.startswith(f"streams.s{problem}")
    assert problems(text.replace('pack = { span = "1m" }\n', "")) == []


def test_a_stream_by_time_may_have_packs_by_the_suffix_of_the_series() -> None:
    text = TIMELY.replace('"6h" }', '"6h", shards = 16, shard_by = "series" }') + 'pack = { span = "1m" }\n'
    assert parse(text).streams["s"].layout == Layout("time", 16, "series", 21_600, pack=Packing(60, 65_536))
    assert problems(text.replace('partition_by = "time", bucket = "6h"', 'partition_by = "series"')) == [
        'streams.s.key.shard_by: a partition holds one series, so all its events would get one suffix; use "id"'
    ]


def test_the_head_of_a_series_may_decide_its_shard() -> None:
    text = TIMELY.replace('"6h" }', '"6h", shards = 16, shard_by = "series", shard_until = "/" }')
    assert parse(text).streams["s"].layout == Layout("time", 16, "series", 21_600, shard_until="/")
    (problem,) = problems(text.replace("series", "id"))
    only = 'only with partition_by = "time" and shard_by = "series" a series decides its shard; remove it'
    assert problem == f"streams.s.key.shard_until: {only}"
    assert problems(text.replace('"/"', '"----------------"')) == []
    assert problems(text.replace('"/"', '"-----------------"')) == [
        'streams.s.key.shard_until: at most 16 characters separate the parts of a series, such as "/"'
    ]


def test_large_events_and_chunks_go_with_packs() -> None:
    assert problems(TIMELY + 'pack = { span = "1m" }\nlarge = { compress_above = 4096, beyond = "chunks" }\n') == []


PACKED = Layout("time", 4, "id", 21_600, parts=True, pack=Packing(60, 65_536))


@pytest.mark.parametrize("layout", [PACKED, replace(PACKED, pack=None), replace(PACKED, shard_until="/")])
def test_the_catalog_remembers_the_packs_of_a_period(layout: Layout) -> None:
    entry = Entry("s", parse_label("2026-03-05"), "t", layout, State.OPEN, NOON)
    kept = decode_item(decode_json(encode_item(make_attributes(entry))))
    assert read_entry(kept).layout == layout
    # An earlier version of the code, without packs, reads its own records unchanged.
    assert ("pack" in kept["layout"]) == (layout.pack is not None)


def test_a_manifest_remembers_the_packs_of_a_period() -> None:
    import msgspec

    stored = msgspec.json.encode(PACKED)
    assert msgspec.json.decode(stored, type=Layout) == PACKED
    earlier = b'{"partition_by":"series","shards":1,"shard_by":"id","bucket":0}'
    assert msgspec.json.decode(earlier, type=Layout).pack is None


def test_the_recorded_policy_of_a_removed_stream_keeps_its_packs() -> None:
    stream = parse(TIMELY + 'pack = { span = "90s", max_bytes = 8192 }\n').streams["s"]
    assert parse_policy("s", render_policy(stream)) == stream
    assert parse_policy("s", render_policy(parse(TIMELY).streams["s"]).replace('"pack":null,', "")).pack is None


def test_check_says_which_stream_has_packs() -> None:
    packed = parse(TIMELY + 'pack = { span = "90s" }\n').streams["s"]
    assert describe_stream(packed) == (
        "a table per day, partitioned by time, 1 shard, buckets of 6h, on demand, packs of up to 90s"
    )
    assert "packs" not in describe_stream(parse(TIMELY).streams["s"])
    text = TIMELY.replace('"6h" }', '"6h", shards = 16, shard_by = "series" }') + 'pack = { span = "90s" }\n'
    assert describe_stream(parse(text).streams["s"]) == (
        "a table per day, partitioned by time, 16 shards, buckets of 6h, on demand, packs of up to 90s by the suffix of the"
        " series"
    )
    by_head = text.replace('shard_by = "series"', 'shard_by = "series", shard_until = "/"')
    assert describe_stream(parse(by_head).streams["s"]).endswith(
        "packs of up to 90s by the suffix of the series up to /"
    )
