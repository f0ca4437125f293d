"""The overflow queue's adapter: messages that are too large for SQS are kept in the bucket and drained from there."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from aws.zstd import Zstd
from tests.fakes import FakeValues, unpacker
from tests.fakes.sqs import Sqs, overflow
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import World
from tidetable.config.stream import LargePolicy
from tidetable.errors import Undrainable
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message, encode_message, encode_messages
from tidetable.layout import Key
from tidetable.ports import Blob


def large(id: str, size: int = 1_300_000) -> Event:
    return Event("a", NOW, id, {"text": "tide\ufffe\uffff " * (size // 7)})


def test_an_event_too_large_for_a_message_is_kept_and_drained() -> None:
    policy = replace(CONFIG.streams["quakes"], large=LargePolicy(beyond="s3"))
    world, sqs = World(replace(CONFIG, streams={"quakes": policy})), Sqs()
    sent = [large("1"), Event("a", NOW, "2", {"n": 1})]
    assert overflow(sqs, world.values).send("quakes", sent, 7) == []
    assert [bool(decode_message(body).kept) for body in sqs.bodies] == [True, False]
    assert [world.drain(body, 60) for body in sqs.bodies] == [1, 1]
    table = next(table for name, table in world.store.tables.items() if name.endswith("2026-03-01"))
    wholes = unpacker(world.store, world.values).complete_items(list(table.values()), "", cold=False)
    assert {item["sk"][-1]: item["data"] for item in wholes.items} == {event.id: event.data for event in sent}
    assert {item["at"] for item in wholes.items} == {7}


def test_a_kept_event_that_its_stream_refuses_is_laid_aside_with_its_reason() -> None:
    world, sqs = World(), Sqs()
    overflow(sqs, world.values).send("quakes", [large("1")], 7)
    with pytest.raises(Undrainable, match="too large"):
        world.drain(sqs.bodies[0], 60)


def test_a_kept_message_is_what_was_sent() -> None:
    values, sqs = FakeValues(), Sqs()
    sent = [large("1")]
    overflow(sqs, values).send("quakes", sent, 7)
    (body,) = sqs.bodies
    assert len(body) < 500
    (blob,) = values.blobs.values()
    message = decode_message(Zstd().expand(blob.body))
    assert (message.stream, message.events, message.at) == ("quakes", sent, 7)
    assert blob.key.startswith("overflow/stream=quakes/"), "the bucket's rule for what expires"
    assert blob.owner == Key("a", "1")


def test_each_event_that_is_too_large_is_kept_for_itself() -> None:
    policy = replace(CONFIG.streams["quakes"], large=LargePolicy(beyond="s3"))
    world, sqs = World(replace(CONFIG, streams={"quakes": policy})), Sqs()
    assert overflow(sqs, world.values).send("quakes", [large("1"), large("2")], 7) == []
    assert len(world.values.blobs) == 2
    assert [world.drain(body, 60) for body in sqs.bodies] == [1, 1]
    assert sorted(item["sk"][-1] for item in world.table("2026-03-01")) == ["1", "2"]


def test_a_kept_event_comes_back_if_its_message_is_not_taken() -> None:
    sqs, sent = Sqs(), [Event("a", NOW, "0", {}), large("1"), large("2")]
    taken = sqs.send_message_batch

    def refuse_second(**request: Any) -> dict[str, Any]:
        return {"Successful": [entry for entry in taken(**request)["Successful"] if entry["Id"] != "1"]}

    sqs.send_message_batch = refuse_second  # type: ignore[method-assign]
    assert overflow(sqs, FakeValues()).send("quakes", sent, 7) == [sent[1]]


def test_an_event_is_kept_by_its_bytes_and_not_by_its_characters() -> None:
    """600,000 characters are 1.2 MB here. AWS: a message has 1 MiB of UTF-8."""
    values, sqs = FakeValues(), Sqs()
    assert overflow(sqs, values).send("quakes", [Event("a", NOW, "1", {"text": "é" * 600_000})], 7) == []
    assert (len(sqs.bodies), len(values.blobs)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "counts"), [("é" * 300_000, [1, 1]), ("e" * 300_000, [2]), ("e" * 499_900, [2]), ("e" * 500_000, [1, 1])]
)
def test_a_message_has_a_million_bytes_unless_one_event_has_more(text: str, counts: list[int]) -> None:
    """Bytes of UTF-8. AWS: a message has 1 MiB at the most."""
    many = [Event("a", NOW, str(number), {"text": text}) for number in range(2)]
    messages = list(encode_messages("quakes", many, 7))
    assert [len(message.events) for message in messages] == counts
    assert [message.size for message in messages] == [len(message.body.encode()) for message in messages]


def test_each_message_has_a_million_bytes_of_its_own() -> None:
    many = [Event("a", NOW, str(number), {"text": "e" * 300_000}) for number in range(8)]
    messages = list(encode_messages("quakes", many, 7))
    assert [[event.id for event in message.events] for message in messages] == [
        ["0", "1", "2"],
        ["3", "4", "5"],
        ["6", "7"],
    ]


def test_what_cannot_be_kept_comes_back() -> None:
    values, sqs = FakeValues(), Sqs()
    values.refuses = True
    sent = [large("1"), Event("a", NOW, "2", {"n": 1})]
    assert overflow(sqs, values).send("quakes", sent, 7) == sent[:1]
    assert [event.id for body in sqs.bodies for event in decode_message(body).events] == ["2"]


def test_a_kept_message_that_is_gone_is_laid_aside_with_its_reason() -> None:
    world, sqs = World(), Sqs()
    overflow(sqs, world.values).send("quakes", [large("1")], 7)
    world.values.blobs.clear()
    with pytest.raises(Undrainable, match="which is not there"):
        world.drain(sqs.bodies[0], 60)


def test_characters_that_sqs_refuses_are_escaped_and_come_back() -> None:
    event = Event("a", NOW, "1", {"n": "\ufffe\uffff\u0000"})
    body = encode_message("quakes", [event])
    assert not set(body) & set("\ufffe\uffff\x00")
    assert decode_message(body).events == [event]
    assert json.loads(body)["version"] == 2


@pytest.mark.parametrize(
    "body",
    [
        *(f'{{"version": {version}, "stream": "s", "events": []}}' for version in (1, 99)),
        *('{"stream": "s", "events": []}', "[]", "3"),
    ],
)
def test_a_message_of_another_version_is_not_guessed_at(body: str) -> None:
    with pytest.raises(ValueError, match="this is not an overflow message of a version that is understood"):
        decode_message(body)


ROW: list[Any] = ["a", "2026-03-01T00:01:00.000000Z", "1", {"n": 1}]
OTHER_FORMS: dict[str, dict[str, Any]] = {
    "no events": {},
    "an empty list of events": {"events": []},
    "a stream that is no text": {"stream": ["quakes"], "events": [ROW]},
    "a time of acceptance that is no number": {"at": "7", "events": [ROW]},
    "a series that is no text": {"events": [[7, *ROW[1:]]]},
    "a time that is no text": {"events": [["a", 5, *ROW[2:]]]},
    "a time without a zone": {"events": [["a", "2026-03-01T00:01:00", *ROW[2:]]]},
    "a time that no event has": {"events": [["a", "0001-01-01T00:00:00.000000Z", *ROW[2:]]]},
    "an id that is no text": {"events": [[*ROW[:2], 1, {}]]},
    "data that is no object": {"events": [[*ROW[:3], 7]]},
    "an event without data": {"events": [ROW[:3]]},
    "a key that is no text": {"kept": 7},
}


@pytest.mark.parametrize("form", OTHER_FORMS.values(), ids=OTHER_FORMS.keys())
def test_a_message_of_another_form_is_laid_aside_and_nothing_of_it_written(form: dict[str, Any]) -> None:
    """Somebody may send a dead letter again after a change. No reader understands an item whose data is no map."""
    world = World()
    with pytest.raises(Undrainable, match="the message cannot be read"):
        world.drain(json.dumps({"version": 2, "stream": "quakes"} | form), 60)
    assert world.stored() == 0


@pytest.mark.parametrize("kept", ['{"version":2,"stream":"quakes","kept":"overflow/2"}', "", "{"])
def test_what_is_kept_for_a_message_holds_its_events(kept: str) -> None:
    world = World()
    world.values.put(Blob("overflow/1", Zstd().compress(kept.encode()), Key("a", "1")))
    with pytest.raises(Undrainable, match="the message cannot be read"):
        world.drain('{"version":2,"stream":"quakes","kept":"overflow/1"}', 60)


def test_what_is_kept_and_was_damaged_is_laid_aside() -> None:
    world = World()
    world.values.put(Blob("overflow/1", b"no frame", Key("a", "1")))
    with pytest.raises(Undrainable, match="the message cannot be read"):
        world.drain('{"version":2,"stream":"quakes","kept":"overflow/1"}', 60)
