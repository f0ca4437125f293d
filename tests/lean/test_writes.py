"""What the lean store makes of replies to its writes, and what it asks for with its reads."""

import json
from typing import Any

import pytest

from aws.http.client import NoAnswer, Reply, RequestRefused
from tests.fakes.script import PAUSES, Script
from tidetable.errors import CollectionFull, PutRefused, StoreUnavailable, TableMissing
from tidetable.layout import Index, Key
from tidetable.ports import Guarded, KeyRange, Put, RangeRead, Transacted

FULL = RequestRefused("ItemCollectionSizeLimitExceededException", "an item collection is full", b"{}")
FAILED = "ConditionalCheckFailedException"
ONE_UNIT = {"ConsumedCapacity": {"CapacityUnits": 1.0}}
OTHER = {"pk": {"S": "p0"}, "sk": {"S": "s"}, "at": {"N": "9"}}


def puts(count: int, table: str = "t") -> list[Put]:
    return [Put(table, {"pk": f"p{number}", "sk": "s", "at": 1, "data": {}}) for number in range(count)]


def sent_by(script: Script) -> list[str]:
    return [operation for operation, _ in script.sent]


def test_of_a_batch_with_a_full_collection_each_put_is_tried_alone() -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        return FULL if "RequestItems" in body or body["Item"]["pk"] == {"S": "p1"} else ONE_UNIT

    script = Script(reply)
    written = script.store.write(puts(2))
    assert sent_by(script) == ["BatchWriteItem", "PutItem", "PutItem"]
    assert (written.full, [put.item["pk"] for put in written.unwritten]) == ({("t", "p1")}, ["p1"])
    assert (written.units, written.throttled) == (1.0, 0)


def test_of_several_batches_with_full_collections_each_put_is_tried_alone() -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        return FULL if "RequestItems" in body or body["Item"]["pk"]["S"] in ("p1", "p30") else ONE_UNIT

    script = Script(reply)
    written = script.store.write(puts(50))
    assert sent_by(script) == ["BatchWriteItem"] * 2 + ["PutItem"] * 50
    assert ([put.item["pk"] for put in written.unwritten], written.units) == (["p1", "p30"], 48.0)


def test_a_batch_of_one_put_is_not_tried_again() -> None:
    script = Script(lambda *_: FULL)
    written = script.store.write(puts(1))
    assert sent_by(script) == ["BatchWriteItem"]
    assert (written.full, written.unwritten) == ({("t", "p0")}, puts(1))


def test_what_several_batches_write_and_leave_is_added_up() -> None:
    def reply(_: int, body: dict[str, Any]) -> dict[str, Any]:
        first, *_ = body["RequestItems"]["t"]
        return {
            "UnprocessedItems": {"t": [first]},
            "ConsumedCapacity": [{"CapacityUnits": 2.0}, {"CapacityUnits": 1.0}],
        }

    written = Script(reply).store.write(puts(51))
    assert (written.units, len(written.unwritten), written.throttled) == (9.0, 3, 3)


def test_a_part_that_was_left_unprocessed_is_not_written() -> None:
    """The keys of parts have no sort key."""
    parts = [Put("t", {"pk": f"p{number}", "b": b"x"}) for number in range(2)]
    script = Script(lambda _, body: {"UnprocessedItems": {"t": body["RequestItems"]["t"][1:]}})
    assert script.store.write(parts).unwritten == parts[1:]


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"ThrottlingReasons":7}', b'{"ThrottlingReasons":[{"reason":""}]}'])
def test_a_throttle_without_readable_reasons_counts_by_its_code(body: bytes) -> None:
    written = Script(lambda *_: RequestRefused("ThrottlingException", "slow down", body)).store.write(puts(3))
    assert (dict(written.reasons), dict(written.throttles)) == ({"ThrottlingException": 1}, {"t": 3})


def test_puts_on_a_condition_are_each_sent_with_it_and_their_units_are_added_up() -> None:
    script = Script(lambda *_: ONE_UNIT)
    written = script.store.write_each(puts(3), "newer")
    assert (sent_by(script), written.units) == (["PutItem"] * 3, 3.0)
    assert all("ConditionExpression" in body for _, body in script.sent)


def test_a_put_that_is_refused_for_another_reason_than_its_condition_is_not_held() -> None:
    script = Script(lambda *_: RequestRefused("ProvisionedThroughputExceededException", "slow down", b"{}"))
    written = script.store.write_each(puts(2), "newer")
    assert (written.conflicts, written.unwritten, written.throttled) == ([], puts(2), 2)


HELD: list[tuple[str, bytes, Reply, dict[str, Any]]] = [
    ("no item", b"{}", {"Responses": {"t": [OTHER]}}, {"pk": "p0", "sk": "s", "at": 9}),
    ("no JSON", b"<html>", {"Responses": {"t": [OTHER]}}, {"pk": "p0", "sk": "s", "at": 9}),
    ("deleted meanwhile", b"{}", {"Responses": {"t": []}}, {}),
    ("no answer", b"{}", NoAnswer("connection reset"), {}),
    ("no table", b"{}", RequestRefused("ResourceNotFoundException", "", b""), {}),
]


@pytest.mark.parametrize(("body", "reply", "present"), [case[1:] for case in HELD], ids=[case[0] for case in HELD])
def test_what_is_there_instead_of_a_put_is_read_if_the_refusal_does_not_show_it(
    body: bytes, reply: Reply, present: dict[str, Any]
) -> None:
    PAUSES.clear()
    script = Script(lambda number, _: RequestRefused(FAILED, "", body) if number == 1 else reply)
    written = script.store.write_each(puts(1), "newer")
    assert written.conflicts == [(puts(1)[0], present)]
    operation, asked = script.sent[1]
    assert (operation, asked["RequestItems"]["t"]["ConsistentRead"]) == ("BatchGetItem", True)


def test_what_a_refusal_shows_is_not_read() -> None:
    script = Script(lambda *_: RequestRefused(FAILED, "", json.dumps({"Item": OTHER}).encode()))
    assert script.store.write_each(puts(1), "newer").conflicts == [(puts(1)[0], {"pk": "p0", "sk": "s", "at": 9})]
    assert sent_by(script) == ["PutItem"]


def cancelled(*codes: str) -> RequestRefused:
    body = json.dumps({"CancellationReasons": [{"Code": code} for code in codes]}).encode()
    return RequestRefused("TransactionCanceledException", "cancelled", body)


def test_a_transaction_names_the_table_whose_collection_is_full() -> None:
    both = [Guarded(puts(1, table)[0]) for table in ("t", "u")]
    script = Script(lambda *_: cancelled("None", "ItemCollectionSizeLimitExceeded"))
    with pytest.raises(CollectionFull, match="of table u holds"):
        script.store.transact(both)


def test_without_an_entry_no_condition_is_the_fence() -> None:
    both = [Guarded(put, "newer") for put in puts(2)]
    assert Script(lambda *_: cancelled("None", "ConditionalCheckFailed")).store.transact(both) is Transacted.CONFLICT


def test_a_transaction_without_an_answer_is_not_sent_again() -> None:
    """It may be done: sent again, it would be refused by its own effect."""
    script = Script(lambda *_: NoAnswer("connection reset"))
    with pytest.raises(StoreUnavailable, match="connection reset"):
        script.store.transact([Guarded(puts(1)[0], "absent")])
    assert sent_by(script) == ["TransactWriteItems"]


def test_a_transaction_with_a_table_that_is_gone_says_so() -> None:
    script = Script(lambda *_: RequestRefused("ResourceNotFoundException", "not found", b"{}"))
    with pytest.raises(TableMissing, match="table t does not exist"):
        script.store.transact([Guarded(puts(1)[0])])


@pytest.mark.parametrize(
    "code", ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"]
)
def test_each_code_of_throttling_counts_as_throttled(code: str) -> None:
    written = Script(lambda *_: RequestRefused(code, "slow down", b"{}")).store.write(puts(2))
    assert (dict(written.throttles), dict(written.reasons)) == ({"t": 2}, {code: 1})


def test_a_batch_that_is_refused_otherwise_is_not_written_and_not_throttled() -> None:
    """A table that is throttled is left alone for a while; one refusal of another kind says nothing of it."""
    script = Script(lambda *_: RequestRefused("AccessDeniedException", "no", b"{}"))
    written = script.store.write(puts(2))
    assert (written.unwritten, written.throttled, dict(written.reasons)) == (puts(2), 0, {})
    assert (written.missing_tables, written.full, written.refused) == (set(), set(), {})
    assert written.troubles == {"t": "AccessDeniedException: no"}
    assert sent_by(script) == ["BatchWriteItem"]


@pytest.mark.parametrize("code", ["ValidationException", "SerializationException"])
def test_a_batch_with_one_item_that_is_refused_is_written_put_by_put(code: str) -> None:
    """The refusal of a batch does not name the put."""

    def answer(_: int, body: Any) -> Reply:
        refuses = "RequestItems" in body or body["Item"]["pk"] == {"S": "p1"}
        return RequestRefused(code, "too large", b"{}") if refuses else ONE_UNIT

    script = Script(answer)
    written = script.store.write(puts(3))
    assert (written.unwritten, written.refused) == ([puts(3)[1]], {("t", "p1", "s"): f"{code}: too large"})
    assert sent_by(script) == ["BatchWriteItem", *["PutItem"] * 3]
    (final,) = [put for put in puts(3) if written.is_final(put)]
    assert final == puts(3)[1]


def test_a_single_put_that_is_refused_is_not_sent_again() -> None:
    script = Script(lambda *_: RequestRefused("ValidationException", "no", b"{}"))
    written = script.store.write(puts(1))
    assert (written.refused, sent_by(script)) == ({("t", "p0", "s"): "ValidationException: no"}, ["BatchWriteItem"])


def test_two_versions_of_an_event_are_refused_each_for_itself() -> None:
    both = [Put("t", {"pk": "p", "sk": "s", "version": 1, "digest": digest}) for digest in ("aa", "bb")]
    assert [put.slot for put in both] == [("t", "p", "s", "aa"), ("t", "p", "s", "bb")]


@pytest.mark.parametrize(
    "refused",
    [
        RequestRefused("ValidationException", "no", b"{}"),
        RequestRefused(
            "TransactionCanceledException",
            "cancelled",
            b'{"CancellationReasons":[{"Code":"None"},{"Code":"ValidationError","Message":"no"}]}',
        ),
    ],
)
def test_a_transaction_with_an_item_that_is_refused_says_why(refused: RequestRefused) -> None:
    with pytest.raises(PutRefused, match=r"^Validation\w+: no$"):
        Script(lambda *_: refused).store.transact([Guarded(put) for put in puts(2)])


def test_a_condition_that_does_not_hold_goes_before_an_item_that_is_refused() -> None:
    """The event has changed meanwhile: the caller reads it, and makes other items."""
    script = Script(lambda *_: cancelled("ConditionalCheckFailed", "ValidationError"))
    assert script.store.transact([Guarded(put, "absent") for put in puts(2)]) is Transacted.CONFLICT


def test_a_query_says_its_direction_its_fields_and_whether_it_may_be_stale() -> None:
    reads = [RangeRead(KeyRange("t", "a", None, None), 5)]
    script = Script(lambda *_: {"Items": []})
    script.store.query_many(reads, ascending=True)
    script.store.query_many(reads, ascending=False, consistent=True, fields=["mag"])
    plain, narrow = (body for _, body in script.sent)
    assert (plain["ScanIndexForward"], plain["ConsistentRead"], "ProjectionExpression" in plain) == (True, False, False)
    assert (narrow["ScanIndexForward"], narrow["ConsistentRead"]) == (False, True)
    assert "mag" in narrow["ExpressionAttributeNames"].values()


@pytest.mark.parametrize("index", [None, Index("copy", replica=True)], ids=["table", "replica"])
def test_the_data_of_plain_events_is_text_where_that_is_wanted(index: Index | None) -> None:
    event = {"pk": {"S": "a"}, "sk": {"S": "s"}, "at": {"N": "1"}, "data": {"M": {"n": {"N": "1.50"}}}}
    script = Script(lambda *_: {"Items": [event], "LastEvaluatedKey": {"pk": {"S": "a"}, "sk": {"S": "s"}}})
    reads = [RangeRead(KeyRange("t", "a", None, None, index=index), 5)]
    (text,) = script.store.query_many(reads, ascending=True, texts=True)
    (whole,) = script.store.query_many(reads, ascending=True)
    assert text is not None
    assert whole is not None
    assert (text.columns.contents, text.more) == (['{"n":1.50}'], True)
    assert whole.items[0]["at"] == 1


def test_an_item_is_read_for_half_a_unit() -> None:
    script = Script(lambda *_: {})
    assert script.store.get("t", Key("a", "s")) is None
    assert script.sent == [("GetItem", {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "s"}}})]
