"""The lean store with many keys, and with a missing table."""

from base64 import b64encode
from typing import Any

import pytest

from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import Script
from tidetable.errors import StoreUnavailable
from tidetable.layout import Key
from tidetable.ports import Put


def count_keys(script: Script) -> list[int]:
    """The number of keys in each request."""
    return [len(item["Keys"]) for _, body in script.sent for item in body["RequestItems"].values()]


def answer(_: int, body: dict[str, Any]) -> Any:
    """Every requested item, as a part and as an event."""
    ((table, one),) = body["RequestItems"].items()
    part = {"b": {"B": b64encode(b"part").decode()}}
    return {"Responses": {table: [key | part for key in one["Keys"]]}}


def test_a_batch_names_a_hundred_events_or_forty_parts() -> None:
    """AWS: 100 keys and 16 MB of items at most, and parts take up to 400 KB each."""
    script = Script(answer)
    assert len(script.store.get_many("t", [Key("p", str(number)) for number in range(201)])) == 201
    assert count_keys(script) == [100, 100, 1]
    script = Script(answer)
    assert len(script.store.get_chunks("t", [str(number) for number in range(81)])) == 81
    assert count_keys(script) == [40, 40, 1]


def test_the_failures_of_a_batch_are_counted_over_its_remainders() -> None:
    """Each may take a time-out: the third is the last, whatever was read in between."""

    def reply(number: int, body: dict[str, Any]) -> Any:
        if number % 2:
            return NoAnswer("connection reset")
        keys = body["RequestItems"]["t"]["Keys"]
        return {"Responses": {"t": keys[:1]}, "UnprocessedKeys": {"t": {"Keys": keys[1:]}}}

    script = Script(reply)
    with pytest.raises(StoreUnavailable, match="connection reset"):
        script.store.get_many("t", [Key("p", str(number)) for number in range(6)])
    assert count_keys(script) == [6, 6, 5, 5, 4]


def test_reads_of_keys_are_consistent_unless_the_caller_says_otherwise() -> None:
    script = Script(answer)
    script.store.get_many("t", [Key("p", "s")])
    script.store.get_many("t", [Key("p", "s")], consistent=False)
    script.store.get_chunks("t", ["p"])
    flags = [item["ConsistentRead"] for _, body in script.sent for item in body["RequestItems"].values()]
    assert flags == [True, False, True]


def test_a_batch_is_no_longer_than_dynamodb_takes() -> None:
    """AWS: 25 puts and 16 MB in DynamoDB's JSON. Each item has 390 KB, and 2.34 MB as JSON: six of them fit, and no seventh."""
    script = Script(lambda *_: {})
    puts = [Put("t", {"pk": str(n), "sk": "s", "at": 1, "data": {"text": "\x01" * 390_000}}) for n in range(25)]
    assert script.store.write(puts).unwritten == []
    batches = [body["RequestItems"]["t"] for _, body in script.sent]
    assert [len(batch) for batch in batches] == [6, 6, 6, 3, 4]
    assert [one["PutRequest"]["Item"]["pk"]["S"] for batch in batches for one in batch] == [str(n) for n in range(25)]


def test_a_table_that_is_not_there_is_named_and_its_puts_are_not_written() -> None:
    script = Script(lambda *_: RequestRefused("ResourceNotFoundException", "not found", b"{}"))
    puts = [Put("t", {"pk": "p", "sk": str(number), "at": 1, "data": {}}) for number in range(3)]
    for written in (script.store.write(puts), script.store.write_each(puts, "newer")):
        assert (written.missing_tables, written.unwritten, written.throttled) == ({"t"}, puts, 0)


def test_a_put_without_an_answer_is_not_written_as_far_as_anybody_knows() -> None:
    """It may be written or not. If it counted as written, an acknowledged event could be lost."""
    script = Script(lambda *_: NoAnswer("connection reset"))
    puts = [Put("t", {"pk": "p", "sk": str(number), "at": 1, "data": {}}) for number in range(3)]
    for written in (script.store.write(puts), script.store.write_each(puts, "newer")):
        assert (written.unwritten, written.missing_tables, written.throttled) == (puts, set(), 0)
