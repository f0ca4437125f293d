"""Times with digits beyond the microsecond: they are cut, and are part of the id that follows from the content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.streams import CONFIG
from tests.worlds.intake import World
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration
from tidetable.ingest import IngestRequest, ingest_body

RESTS = ["", "7", "78", "789", "7890123"]
EVENTS = [{"series": "a", "time": f"2026-03-01T00:04:00.123456{rest}Z", "data": {"v": 1.5}} for rest in [*RESTS, "700"]]
JSON, NDJSON = json.dumps(EVENTS).encode(), "\n".join(map(json.dumps, EVENTS)).encode()
PACKED = replace(CONFIG.streams["quakes"], pack=PackPolicy(span=Duration(minutes=1), max_bytes=65_536))


@pytest.mark.parametrize(
    ("body", "kind"),
    [(JSON, "application/json"), (NDJSON, "application/x-ndjson"), (NDJSON + b"\n{}", "application/x-ndjson")],
    ids=["array", "lines", "event by event"],
)
@pytest.mark.parametrize("stream", [CONFIG.streams["quakes"], PACKED], ids=["plain", "packs"])
def test_events_that_differ_only_beyond_the_microsecond_stay_apart(body: bytes, kind: str, stream: Any) -> None:
    """The last event is the second again, so it has the ref of the second."""
    refs = []
    for _ in range(2):
        world = World(replace(CONFIG, streams={"quakes": stream}))
        outcome = ingest_body(IngestRequest("quakes", body, kind), world.serving(), lambda: 5)
        assert outcome.accepted == 6
        refs.append(outcome.refs[:6])
    assert len(set(refs[0])) == 5
    assert refs[0][5] == refs[0][1]
    assert refs[0] == refs[1]


@pytest.mark.parametrize("stream", [CONFIG.streams["quakes"], PACKED], ids=["plain", "packs"])
def test_events_of_different_requests_stay_apart_too(stream: Any) -> None:
    world = World(replace(CONFIG, streams={"quakes": stream}))
    first = [world.send(event).refs[0] for event in EVENTS]
    # Beside an event that no way takes, each event is judged by itself: the same ids.
    second = [world.send(event, {"series": ""}).refs[0] for event in EVENTS]
    assert first == second
    assert len(set(first)) == 5


def test_an_id_that_was_sent_is_the_identity_within_a_microsecond() -> None:
    world = World()
    outcome = world.send(*[event | {"id": "x"} for event in EVENTS])
    assert (outcome.accepted, len(set(outcome.refs)), world.stored()) == (6, 1, 1)
