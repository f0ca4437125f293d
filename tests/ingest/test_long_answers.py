"""Answers that would be larger than a function may answer: nothing is written, and the sender learns why."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.streams import CONFIG
from tests.worlds.intake import World
from tidetable.config import Config, parse
from tidetable.exact_json import encode_json
from tidetable.problems import ProblemError

WIDE: Config = replace(CONFIG, api=replace(CONFIG.api, max_events=10_000, max_body=4_400_000))

PACKED = parse(
    """
    [streams.quakes]
    period = "day"
    late = "2d"
    retention = 7
    key = { partition_by = "time", bucket = "6h", shards = 4 }
    pack = { span = "1m" }
    """
)


def make_events(count: int, characters: int) -> list[dict[str, Any]]:
    """Events whose series and ids have that many characters each; # is written with three bytes in keys and refs."""
    return [{"series": "#" * characters, "id": f"{n:08}".rjust(characters, "#")} for n in range(count)]


def count_items(world: World) -> int:
    return sum(map(len, world.store.tables.values()))


def make_world(*, packed: bool) -> World:
    return World(replace(WIDE, streams={"quakes": PACKED.streams["quakes"]}) if packed else WIDE)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packs"])
def test_events_whose_refs_fit_into_no_answer_are_refused_before_they_are_written(packed: bool) -> None:
    world = make_world(packed=packed)
    with pytest.raises(
        ProblemError, match="413 too_large: the answer, with a ref or an error for each event, would have"
    ):
        world.send(*make_events(10_000, 150), seconds=1000)
    assert count_items(world) == 0


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packs"])
def test_without_refs_the_answer_has_space_for_events_of_any_names(packed: bool) -> None:
    world = make_world(packed=packed)
    outcome = world.send(*make_events(10_000, 150), seconds=1000, refs=False)
    assert outcome.accepted == 10_000
    assert len(encode_json(outcome.document(refs=False))) < 1_000


def test_as_many_events_are_stored_as_an_answer_has_space_for() -> None:
    world = make_world(packed=False)
    outcome = world.send(*make_events(4_000, 150), seconds=1000)
    assert (outcome.accepted, count_items(world)) == (4_000, 4_000)
    assert len(encode_json(outcome.document())) < 6_000_000


def test_small_events_have_answers_of_any_number() -> None:
    world = make_world(packed=False)
    assert world.send(*make_events(10_000, 10), seconds=1000).accepted == 10_000


def test_rejections_that_fit_into_no_answer_refuse_the_request() -> None:
    """A quote in an id is escaped in the answer, and once more in the function's answer."""
    world = make_world(packed=False)
    bad = [{"series": "a", "id": '"' * 150, "data": {"": 1}} for _ in range(9_999)]
    with pytest.raises(ProblemError, match="413 too_large: the answer"):
        world.send({"series": "good"}, *bad, seconds=1000)
    assert count_items(world) == 0


@pytest.mark.parametrize("count", [1_500, 1_501])
def test_the_bytes_of_an_answer_are_counted_as_the_function_answers_them(count: int) -> None:
    """The worst that 1,500 events can have is less than an answer may have."""
    world = make_world(packed=False)
    outcome = world.send(*make_events(count - 1, 160), {"series": "a", "data": {"": 1}}, seconds=1000)
    assert outcome.accepted == count - 1
    assert len(json.dumps(encode_json(outcome.document()).decode())) < 6_000_000
