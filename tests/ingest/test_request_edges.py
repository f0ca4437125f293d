"""Requests at the limits of DynamoDB's items and keys, and requests to tables that are of another kind than their stream."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.noise import noise
from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World, event, numbered, world
from tidetable.access import Access
from tidetable.catalog import Backfill, Opening, State
from tidetable.config.stream import IndexPolicy, LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.bodies import Sent
from tidetable.ingest.request import ingest_batch
from tidetable.large.table_names import name_chunks_table
from tidetable.problems import ProblemError
from tidetable.times import to_text

TABLE = f"tidetable-t.quakes.{LABEL}"


def find_refusals(stage: World, *sent: Any) -> list[tuple[int, str, str]]:
    return [(refused.index, refused.code, refused.detail) for refused in stage.send(*sent).rejections]


def test_the_keys_of_an_index_count_towards_an_items_size() -> None:
    """AWS: 400 KB, which are 409,600 bytes. The event has some 408,400; its keys in the index are 1,960 more."""
    stage = world(index=(IndexPolicy(name="by_kind", partition_by="kind"),))
    sent = event(2) | {"data": {"kind": "v" * 1_900, "text": "x" * 406_300}}
    ((index, code, _),) = find_refusals(stage, event(1), sent)
    assert (index, code, stage.count(LABEL)) == (1, "too_large", 1)


def test_a_value_that_is_too_long_for_a_key_of_an_index_costs_only_its_event() -> None:
    """AWS: a partition key has 2,048 bytes. DynamoDB would refuse the whole batch."""
    stage = world(index=(IndexPolicy(name="by_kind", partition_by="kind"),))
    sent = event(2) | {"data": {"kind": "v" * 3_000}}
    ((index, code, detail),) = find_refusals(stage, event(1), sent)
    assert (index, code, stage.count(LABEL)) == (1, "invalid", 1)
    assert detail.startswith("data.kind is indexed, and takes more than")


@pytest.mark.parametrize(
    ("number", "refused"),
    [("1." + "2" * 37, False), ("1." + "2" * 38, True), ("1." + "2" * 56, True), ("0." + "0" * 131 + "1", True)],
    ids=["38 digits", "39 digits", "57 digits", "below 1E-130"],
)
def test_a_fraction_that_dynamodb_cannot_hold_costs_only_its_event_in_the_smallest_request(
    number: str, refused: bool
) -> None:
    """AWS: a number has 38 digits, and is at least 1E-130. DynamoDB would refuse the whole batch."""
    stage = World()
    sent = f'[{{"series": "a", "data": {{"n": {number}}}}}, {{"series": "b"}}]'
    outcome = stage.post(sent.encode())
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(0, "invalid")] * refused
    assert (outcome.accepted, stage.stored()) == (2 - refused, 2 - refused)


def test_a_table_of_parts_that_is_throttled_says_nothing_of_the_table_of_events() -> None:
    stage = world(large=LargePolicy(beyond="chunks"))
    stage.store.throttles = {name_chunks_table(TABLE)}
    assert stage.send(event(1) | {"data": {"text": noise(950_000)}}).queued == 1
    assert stage.circuit.admits(TABLE)
    assert stage.send(event(2)).accepted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_every_version_is_queued_for_a_table_that_keeps_them_whatever_its_stream_does_now(versioned: bool) -> None:
    """The stream kept versions when the table was made."""
    stage = World()
    key = next(key for key in stage.catalog.items if key[1].label == LABEL)
    entry = stage.catalog.items[key]
    layout = replace(entry.layout, versioned=versioned)
    stage.catalog.items[key] = replace(entry, layout=layout, state=State.CLOSED)
    assert stage.send(numbered(1), numbered(2)).queued == 2
    queued = [event.data["n"] for event in stage.overflow.queued]
    assert queued == ([1, 2] if versioned else [2])


@pytest.mark.parametrize("field", ["series", "id"])
@pytest.mark.parametrize("name", ["#" * 161, "é" * 241, "\U0001f600" * 121])
def test_a_name_that_is_too_long_only_in_bytes_is_refused_by_a_stream_with_packs(field: str, name: str) -> None:
    """AWS: a sort key has 1,024 bytes, and both names are in it."""
    stage = world(pack=PackPolicy(span=Duration(minutes=1)))
    ((index, code, detail),) = find_refusals(stage, event(1), event(2) | {field: name})
    assert (index, code, stage.count(LABEL)) == (1, "invalid", 1)
    assert detail.startswith(f"{field} is too long: at most 480 bytes of UTF-8")


@pytest.mark.parametrize(("length", "shown"), [(480, True), (481, False)])
def test_a_refused_event_is_named_by_its_id_if_an_id_may_be_so_long(length: int, shown: bool) -> None:
    id = "x" * length
    (rejection,) = World().send(event(1), event(2, days=9) | {"id": id}).rejections
    assert (rejection.index, rejection.id) == (1, id if shown else None)


def test_a_dialect_writes_only_the_series_of_its_callers_key() -> None:
    stage = World()
    sent = [Sent("mine/1", to_text(NOW), "1", {}), Sent("other", to_text(NOW), "2", {})]
    outcome = ingest_batch(
        "quakes", SentBatch.of_values(sent), stage.serving(), lambda: 5.0, access=Access(series_prefix="mine/")
    )
    assert [(refused.index, refused.code) for refused in outcome.rejections] == [(1, "forbidden_series")]
    assert (outcome.accepted, stage.stored()) == (1, 1)


@pytest.mark.parametrize(("days", "reads"), [([0, 1, 0], 0), ([0, 5, 6, 5], 1)])
def test_backfills_are_read_once_and_only_for_events_before_the_window(days: list[int], reads: int) -> None:
    stage, calls = World(), list[str]()
    backfills = stage.catalog.backfills

    def read(stream: str) -> Any:
        calls.append(stream)
        return backfills(stream)

    stage.catalog.backfills = read  # type: ignore[method-assign]
    outcome = stage.send(*[event(number, days=ago) for number, ago in enumerate(days)])
    assert calls == ["quakes"] * reads
    assert ("backfills" in outcome.document()["window"]) is bool(reads)


@pytest.mark.parametrize("strict", [False, True])
def test_a_request_that_is_refused_whole_says_which_backfills_are_open(strict: bool) -> None:
    stage = World()
    opened = Opening(NOW + timedelta(hours=1), None, None)
    stage.catalog.put_backfill(Backfill("quakes", NOW - timedelta(days=9), NOW - timedelta(days=8), opened))
    with pytest.raises(ProblemError) as refused:
        stage.send(event(1, days=5), strict=strict)
    window = refused.value.problem.document()["window"]
    assert window["backfills"] == [
        {
            "from": to_text(NOW - timedelta(days=9)),
            "to": to_text(NOW - timedelta(days=8)),
            "until": to_text(NOW + timedelta(hours=1)),
        }
    ]
