"""Conditions and updates of items in memory: each as the Guide has it ("Expression reference")."""

from typing import Any

import pytest

from strict.expressions import Parser
from strict.refusals import Refusal
from tests.strict.console import Console, item, outcome

ITEM: dict[str, Any] = {
    "pk": {"S": "a"},
    "sk": {"S": "1"},
    "n": {"N": "10"},
    "t": {"S": "text"},
    "m": {"M": {"x": {"S": "in"}, "y": {"M": {"z": {"N": "1"}}}}},
    "no": {"BOOL": False},
    "set": {"SS": ["x", "a"]},
}
VALUES = {
    ":n9": {"N": "9"},
    ":n10": {"N": "10.0"},
    ":n11": {"N": "11"},
    ":t": {"S": "text"},
    ":s": {"S": "10"},
    ":te": {"S": "te"},
    ":in": {"S": "in"},
    ":S": {"S": "S"},
    ":N": {"S": "N"},
    ":tenth": {"N": "0.1"},
    ":fifth": {"N": "0.2"},
    ":set": {"SS": ["x", "y"]},
    ":empty": {"SS": []},
}
NAMES = {"#n": "n", "#m": "m"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("n = :n10", True),
        ("#n <> :n10", False),
        ("n <> :n9", True),
        # As numbers 9 < 10; as texts it would be the other way round.
        ("n > :n9", True),
        ("n < :n9", False),
        ("n >= :n10", True),
        ("n <= :n10", True),
        ("n > :n10", False),
        ("n < :n10", False),
        ("n <= :n9", False),
        ("n >= :n11", False),
        # A number is never a text.
        ("n = :s", False),
        ("n < :t", False),
        ("n > :t", False),
        ("n <> :s", True),
        ("none = :n9", False),
        ("none < :n9", False),
        ("n BETWEEN :n9 AND :n10", True),
        ("n BETWEEN :n10 AND :n11", True),
        ("n BETWEEN :n11 AND :n11", False),
        ("n IN (:n9, :n11)", False),
        ("n IN (:n9, :n10, :n11)", True),
        ("n IN (:n10)", True),
        ("begins_with(t, :te)", True),
        ("begins_with(t, :in)", False),
        ("begins_with(none, :te)", False),
        ("begins_with(t, none)", False),
        ("attribute_exists(t)", True),
        ("attribute_exists(none)", False),
        ("attribute_exists(no)", True),
        ("attribute_not_exists(none)", True),
        ("attribute_not_exists(t)", False),
        ("attribute_type(t, :S)", True),
        ("attribute_type(n, :S)", False),
        ("attribute_type(n, :N)", True),
        ("m.x = :in", True),
        ("#m.y.z < :n9", True),
        ("attribute_exists(m.y.w)", False),
        ("attribute_not_exists(t.x)", True),
        # AND binds closer than OR, NOT closer than AND.
        ("t = :t OR t = :te AND t = :te", True),
        ("(t = :t OR t = :te) AND t = :te", False),
        ("NOT t = :te AND t = :te", False),
        ("NOT (t = :te AND t = :te)", True),
        ("NOT NOT t = :t", True),
        ("NOT t = :t OR t = :t", True),
        ("t = :te or t = :t", True),
        ("t = :te or t = :in or t = :t", True),
        ("t = :t and n = :n10 and t = :te", False),
        ("t = :t and not t = :te", True),
    ],
)
def test_a_condition(text: str, holds: bool) -> None:
    parser = Parser(text, {"ExpressionAttributeNames": NAMES, "ExpressionAttributeValues": VALUES})
    assert parser.parse_condition()(ITEM) is holds


@pytest.mark.parametrize("text", ["size(t) > :n9", "t = :t t", "t[0] = :t"])
def test_what_the_parser_does_not_know_is_an_error_and_no_answer(text: str) -> None:
    with pytest.raises((NotImplementedError, KeyError)):
        Parser(text, {"ExpressionAttributeValues": VALUES}).parse_condition()(ITEM)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SET t = :s", {"t": {"S": "10"}}),
        ("SET t = :s, new = :n9", {"t": {"S": "10"}, "new": {"N": "9"}}),
        ("SET n = n + :n9", {"n": {"N": "19"}}),
        ("SET n = n - :n11", {"n": {"N": "-1"}}),
        ("SET t = n", {"t": {"N": "10"}}),
        ("SET t = if_not_exists(t, :s)", {}),
        ("SET new = if_not_exists(new, :s)", {"new": {"S": "10"}}),
        # Every value is that of before the update.
        ("SET t = n, n = :n9", {"t": {"N": "10"}, "n": {"N": "9"}}),
        ("SET n = :n9, t = n", {"t": {"N": "10"}, "n": {"N": "9"}}),
        ("REMOVE t, none", {"t": None}),
        ("REMOVE t SET #n = :n9", {"t": None, "n": {"N": "9"}}),
        ("ADD n :n9", {"n": {"N": "19"}}),
        ("ADD new :n9", {"new": {"N": "9"}}),
        ("ADD new :set", {"new": {"SS": ["x", "y"]}}),
        ("ADD set :set SET t = :s", {"set": {"SS": ["a", "x", "y"]}, "t": {"S": "10"}}),
        ("set t = :s remove n", {"t": {"S": "10"}, "n": None}),
        # Numbers are decimal, and keep their 38 digits.
        ("SET n = :tenth + :fifth", {"n": {"N": "0.3"}}),
    ],
)
def test_an_update(text: str, changed: dict[str, Any]) -> None:
    parser = Parser(text, {"ExpressionAttributeNames": NAMES, "ExpressionAttributeValues": VALUES})
    expected = {name: value for name, value in {**ITEM, **changed}.items() if value is not None}
    assert parser.apply_update(ITEM) == expected


@pytest.mark.parametrize(
    "text", ["DELETE t :s", "SET m.x = :t", "REMOVE m.x", "SET l = list_append(l, :t)", "SET t = 'x'", "SET t = :t?"]
)
def test_an_update_that_the_parser_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(NotImplementedError):
        Parser(text, {"ExpressionAttributeValues": VALUES}).apply_update(ITEM)


@pytest.mark.parametrize("text", ["size(t) > :n9", "contains(t, :te)", "n = :n9 t", "n = :n9)", "t = 'x'"])
def test_a_condition_that_the_parser_does_not_know_is_an_error(text: str) -> None:
    with pytest.raises(NotImplementedError):
        Parser(text, {"ExpressionAttributeValues": VALUES}).parse_condition()(ITEM)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SET t = none", "attribute that does not exist"),
        ("SET n = none + :n9", "attribute that does not exist"),
        ("SET n = n - t", "incorrect data type"),
        ("ADD t :n9", "incorrect data type"),
        ("ADD n :s", "incorrect data type"),
        ("ADD n :set", "incorrect data type"),
        ("ADD set :n9", "incorrect data type"),
        ("ADD new :empty", "may not be empty"),
    ],
)
def test_an_update_of_what_is_not_there_or_no_number_is_refused(text: str, words: str) -> None:
    """Guide, "Update expressions": an operand must exist, and arithmetic needs numbers."""
    with pytest.raises(Refusal, match=words) as refused:
        Parser(text, {"ExpressionAttributeValues": VALUES}).apply_update(ITEM)
    assert refused.value.code == "ValidationException"


def test_numbers_are_compared_in_all_their_digits() -> None:
    values = {":a": {"N": "1" * 37 + "2"}, ":b": {"N": "1" * 38}}
    parser = Parser(":a = :b", {"ExpressionAttributeValues": values})
    assert parser.parse_condition()(ITEM) is False


KEY = {"pk": {"S": "a"}, "sk": {"S": "1"}}
ABSENT = {"ConditionExpression": "attribute_not_exists(pk)"}
PRESENT = {"ConditionExpression": "attribute_exists(pk)"}
SET = {"UpdateExpression": "SET h = :h", "ExpressionAttributeValues": {":h": {"S": "x"}}}


@pytest.mark.parametrize(
    ("operation", "members", "there", "expected"),
    [
        ("PutItem", {"Item": item(), **ABSENT}, False, "done"),
        ("PutItem", {"Item": item(), **ABSENT}, True, "failed"),
        ("PutItem", {"Item": item(), **PRESENT}, False, "failed"),
        ("UpdateItem", {"Key": KEY, **SET, **PRESENT}, False, "failed"),
        ("UpdateItem", {"Key": KEY, **SET, **PRESENT}, True, "done"),
        ("UpdateItem", {"Key": KEY, **SET}, False, "done"),
        ("DeleteItem", {"Key": KEY, **PRESENT}, False, "failed"),
        ("DeleteItem", {"Key": KEY, **PRESENT}, True, "done"),
    ],
)
def test_a_write_on_a_condition_alone_or_in_a_transaction(
    operation: str, members: dict[str, Any], there: bool, expected: str
) -> None:
    def held(console: Console) -> Any:
        return console("GetItem", TableName="t", Key=KEY, ConsistentRead=True).get("Item")

    done = {"PutItem": item(), "UpdateItem": {**(item() if there else KEY), "h": {"S": "x"}}, "DeleteItem": None}
    left = done[operation] if expected == "done" else (item() if there else None)
    alone, together = Console(), Console()
    for console in (alone, together):
        console.table()
        if there:
            console.put()
    code = outcome(lambda: alone(operation, TableName="t", **members))
    assert code == ("done" if expected == "done" else "ConditionalCheckFailedException")
    other = {"Put": {"TableName": "t", "Item": item(sk="2")}}
    action = {operation.removesuffix("Item"): {"TableName": "t", **members}}
    if expected == "done":
        together("TransactWriteItems", TransactItems=[other, action])
    else:
        with pytest.raises(Refusal) as refused:
            together("TransactWriteItems", TransactItems=[other, action])
        assert refused.value.code == "TransactionCanceledException"
        assert refused.value.members["CancellationReasons"] == [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]
    assert (held(alone), held(together)) == (left, left)
    assert together.query(ConsistentRead=True)["Count"] == (left is not None) + (expected == "done")


def test_a_condition_check_writes_nothing() -> None:
    console = Console()
    console.table()
    check = {"ConditionCheck": {"TableName": "t", "Key": KEY, **ABSENT}}
    console("TransactWriteItems", TransactItems=[check, {"Put": {"TableName": "t", "Item": item(sk="2")}}])
    assert [found["sk"]["S"] for found in console.query(ConsistentRead=True)["Items"]] == ["2"]
