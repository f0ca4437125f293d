"""The pages of queries and scans on the engine in memory, and what filters leave of them."""

from typing import Any

import pytest

from tests.strict.console import KB, Console, index
from tests.strict.local import by_index, local


def sks(answer: Any) -> list[str]:
    return [found["sk"]["S"] for found in answer["Items"]]


@pytest.fixture
def console() -> Console:
    """Six items of the partition "a" in the order of their sort keys, and one of "b"; every read sees them."""
    console = Console()
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="INCLUDE", NonKeyAttributes=["h"])])
    for sk in ("10", "11", "12", "20", "21", "30"):
        console.put(sk=sk, g={"S": "x" if sk < "20" else "y"}, h={"S": sk[0]})
    console.put("b", sk="10")
    console.wait(seconds=3)
    return console


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("sk = :v", ["20"]),
        ("sk < :v", ["10", "11", "12"]),
        ("sk <= :v", ["10", "11", "12", "20"]),
        ("sk > :v", ["21", "30"]),
        ("sk >= :v", ["20", "21", "30"]),
        ("begins_with(sk, :p)", ["10", "11", "12"]),
        ("sk BETWEEN :u AND :v", ["12", "20"]),
    ],
)
def test_a_range_of_sort_keys(console: Console, condition: str, expected: list[str]) -> None:
    values = {":v": {"S": "20"}, ":p": {"S": "1"}, ":u": {"S": "12"}}
    used = {name: value for name, value in values.items() if name in condition} | {":pk": {"S": "a"}}
    request: dict[str, Any] = {"KeyConditionExpression": f"pk = :pk AND {condition}", "ExpressionAttributeValues": used}
    assert sks(console.query(**request)) == expected
    assert sks(console.query(**request, ScanIndexForward=False)) == expected[::-1]


def test_a_page_that_ends_with_the_last_item_says_that_there_may_be_more(console: Console) -> None:
    """Guide, "Query": LastEvaluatedKey may be there although no item follows; only its absence is the end."""
    full = console.query(Limit=6)
    assert full["LastEvaluatedKey"] == {"pk": {"S": "a"}, "sk": {"S": "30"}}
    after = console.query(Limit=6, ExclusiveStartKey=full["LastEvaluatedKey"])
    assert (after["Items"], "LastEvaluatedKey" in after) == ([], False)
    assert "LastEvaluatedKey" not in console.query(Limit=7)


@pytest.mark.parametrize(("ascending", "expected"), [(True, ["20", "21"]), (False, ["12", "11"])])
def test_a_page_begins_after_its_start_key(console: Console, ascending: bool, expected: list[str]) -> None:
    """Also after a key that no item has."""
    order: dict[str, Any] = {"ScanIndexForward": ascending, "Limit": 2}
    start = {"pk": {"S": "a"}, "sk": {"S": "13"}}
    assert sks(console.query(ExclusiveStartKey=start, **order)) == expected
    first, last = ("12", "21") if ascending else ("20", "11")
    page = console.query(ExclusiveStartKey={"pk": {"S": "a"}, "sk": {"S": first}}, **order)
    assert (sks(page), page["LastEvaluatedKey"]["sk"]["S"]) == (expected, last)


def of_index(console: Console, g: str, **more: Any) -> Any:
    values = {":g": {"S": g}}
    return console.query(
        IndexName="i", **{"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": values, **more}
    )


def test_an_index_shows_its_projection_and_goes_on_by_both_keys(console: Console) -> None:
    page = of_index(console, "x", Limit=2)
    assert page["Items"] == [
        {"pk": {"S": "a"}, "sk": {"S": sk}, "g": {"S": "x"}, "h": {"S": "1"}} for sk in ("10", "11")
    ]
    assert page["LastEvaluatedKey"] == {"pk": {"S": "a"}, "sk": {"S": "11"}, "g": {"S": "x"}}
    after = of_index(console, "x", ExclusiveStartKey=page["LastEvaluatedKey"])
    assert (sks(after), "LastEvaluatedKey" in after) == (["12"], False)


def test_an_index_follows_its_items(console: Console) -> None:
    key = {"pk": {"S": "a"}, "sk": {"S": "10"}}
    console.put(sk="10", g={"S": "y"})
    console.put(sk="11")
    console("DeleteItem", TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "12"}})
    console.put(sk="40", g={"S": "x"})
    console.wait(seconds=3)
    assert [sks(of_index(console, g)) for g in "xy"] == [["40"], ["10", "20", "21", "30"]]
    moved = {"UpdateExpression": "SET g = :g", "ExpressionAttributeValues": {":g": {"S": "z"}}}
    console("UpdateItem", TableName="t", Key=key, **moved)
    console.wait(seconds=3)
    assert [sks(of_index(console, g)) for g in "yz"] == [["20", "21", "30"], ["10"]]


def test_a_new_index_has_the_items_that_are_there() -> None:
    console = Console()
    console.table()
    console.put(g={"S": "x"})
    console.put(sk="2")
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "g")]
    console.update(GlobalSecondaryIndexUpdates=[{"Create": index()}], AttributeDefinitions=definitions)
    console.wait(minutes=2)
    assert sks(of_index(console, "x")) == ["1"]


FILTERED: list[tuple[dict[str, Any], list[str], int]] = [
    ({"FilterExpression": "h = :v"}, ["20", "21"], 6),
    ({"FilterExpression": "h = :v", "Limit": 4}, ["20"], 4),
    ({"FilterExpression": "h = :v", "ProjectionExpression": "sk"}, ["20", "21"], 6),
]


@pytest.mark.parametrize(("more", "expected", "scanned"), FILTERED)
def test_a_filter_leaves_what_matches_of_what_was_read(
    console: Console, more: dict[str, Any], expected: list[str], scanned: int
) -> None:
    page = console.query(**more, ExpressionAttributeValues={":pk": {"S": "a"}, ":v": {"S": "2"}})
    assert (sks(page), page["Count"], page["ScannedCount"]) == (expected, len(expected), scanned)
    assert all(("pk" in found) is ("ProjectionExpression" not in more) for found in page["Items"])


def test_a_filter_of_a_scan_counts_what_it_read(console: Console) -> None:
    by = {"FilterExpression": "h = :v", "ExpressionAttributeValues": {":v": {"S": "2"}}}
    page = console("Scan", TableName="t", **by)
    assert (sks(page), page["Count"], page["ScannedCount"]) == (["20", "21"], 2, 7)
    counted = console("Scan", TableName="t", Select="COUNT", **by)
    assert (counted["Items"], counted["Count"], counted["ScannedCount"]) == ([], 2, 7)


def scan(console: Console, **more: Any) -> list[tuple[str, str]]:
    """Every item of a scan, two per page."""
    found: list[tuple[str, str]] = []
    while True:
        page = console("Scan", TableName="t", Limit=2, **more)
        assert page["Count"] <= 2
        found += [(kept["pk"]["S"], kept["sk"]["S"]) for kept in page["Items"]]
        if "LastEvaluatedKey" not in page:
            return found
        more["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def test_a_scan_has_each_item_once_whole_or_by_segments(console: Console) -> None:
    everything = {*(("a", sk) for sk in ("10", "11", "12", "20", "21", "30")), ("b", "10")}
    whole = scan(console)
    assert (len(whole), set(whole)) == (7, everything)
    segments = [scan(console, Segment=number, TotalSegments=3) for number in range(3)]
    assert sum(map(len, segments)) == 7
    assert set().union(*segments) == everything
    assert len(scan(console, IndexName="i")) == 6, "an index has only the items with its key"


def test_a_page_of_an_index_that_reaches_a_megabyte_goes_on_where_it_ended() -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index()])
    for number in range(6):
        console.put(sk=str(number), size=300 * KB, g={"S": "x"})
        console.wait(seconds=1)
    console.wait(seconds=3)
    page = of_index(console, "x")
    # Three of 300 KB are within 1 MB, four are not.
    assert (sks(page), page["Count"], page["ScannedCount"]) == (["0", "1", "2"], 3, 3)
    assert page["LastEvaluatedKey"] == {"pk": {"S": "a"}, "sk": {"S": "2"}, "g": {"S": "x"}}
    assert sks(of_index(console, "x", ExclusiveStartKey=page["LastEvaluatedKey"])) == ["3", "4", "5"]


def test_a_local_index_fetches_what_it_does_not_hold_for_a_filter_too() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local(ProjectionType="KEYS_ONLY")])
    for sk in "123":
        console.put(sk=sk, size=5 * KB, g={"S": "x"}, h={"S": sk})
    console.wait(seconds=3)
    some: dict[str, Any] = {
        "FilterExpression": "#h > :h",
        "ExpressionAttributeNames": {"#h": "h"},
        "ExpressionAttributeValues": {":pk": {"S": "a"}, ":h": {"S": "1"}},
    }
    page = by_index(console, **some, ProjectionExpression="sk")
    # The keys are half a unit; each of the three items of 5 KB is a whole unit, eventually consistent.
    assert (page["Items"], page["ScannedCount"]) == ([{"sk": {"S": "2"}}, {"sk": {"S": "3"}}], 3)
    assert page["ConsumedCapacity"]["CapacityUnits"] == 3.5
    counted = by_index(console, **some, Select="COUNT")
    assert (counted["Items"], counted["Count"]) == ([], 2)
    console.put(sk="4", size=5 * KB, g={"S": "x"}, h={"S": "4"})
    strong = by_index(console, **some, ConsistentRead=True)
    assert (sks(strong), strong["ConsumedCapacity"]["CapacityUnits"]) == (["2", "3", "4"], 9.0)


def test_what_a_local_index_fetches_is_as_old_as_its_entry() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local(ProjectionType="KEYS_ONLY")])
    console.put(g={"S": "x"}, h={"S": "old"})
    console.wait(seconds=3)
    console.put(g={"S": "x"}, h={"S": "new"})
    every: dict[str, Any] = {"Select": "ALL_ATTRIBUTES"}
    seen = [by_index(console, ConsistentRead=strong, **every)["Items"][0]["h"]["S"] for strong in (False, True)]
    assert seen == ["old", "new"]


def test_an_operation_that_the_engine_does_not_know_is_an_error_and_not_an_empty_answer() -> None:
    with pytest.raises(NotImplementedError):
        Console()("ExecuteStatement", Statement="SELECT * FROM t")


def test_a_page_of_a_megabyte_to_the_byte_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 bytes stand for the service's megabyte."""
    monkeypatch.setattr("strict.reads.PAGE_BYTES", 300)
    console = Console()
    console.table()
    for sk in "123":
        console.put(sk=sk, size=100)
    console.wait(seconds=3)
    assert "LastEvaluatedKey" not in console.query()
    console.put(sk="4", size=100)
    console.wait(seconds=3)
    page = console.query()
    assert (sks(page), page["LastEvaluatedKey"]) == (["1", "2", "3"], {"pk": {"S": "a"}, "sk": {"S": "3"}})


def test_a_batch_answers_sixteen_megabytes_to_the_byte_and_leaves_the_rest_with_its_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """300 bytes stand for them."""
    monkeypatch.setattr("strict.reads.BATCH_BYTES", 300)
    console = Console()
    console.table()
    keys = [{"pk": {"S": "a"}, "sk": {"S": sk}} for sk in "1234"]
    console.batch([{**key, "f": {"S": "x" * 93}} for key in keys])
    options: dict[str, Any] = {"ConsistentRead": True, "ProjectionExpression": "sk"}
    answer = console("BatchGetItem", RequestItems={"t": {"Keys": keys, **options}})
    assert [found["sk"]["S"] for found in answer["Responses"]["t"]] == ["1", "2", "3"]
    assert answer["UnprocessedKeys"] == {"t": {"Keys": keys[3:], **options}}


def test_a_page_shows_every_member_that_it_is_asked_for() -> None:
    console = Console()
    console.table()
    inner = {name: {"N": "1"} for name in ("c", "d", "e")}
    data = {"M": {"b": {"M": inner}, "f": {"N": "2"}}}
    console("PutItem", TableName="t", Item={"pk": {"S": "a"}, "sk": {"S": "1"}, "map": data})
    names = {"#m": "map", "#b": "b"}
    page = console.query(
        ConsistentRead=True, ProjectionExpression="#m.#b.c, #m.#b.d, #m.h, #m.f.x", ExpressionAttributeNames=names
    )
    assert page["Items"] == [{"map": {"M": {"b": {"M": {"c": {"N": "1"}, "d": {"N": "1"}}}}}}]


def test_a_name_may_begin_as_another_name_does() -> None:
    console = Console()
    console.table()
    for sk in "123":
        console.put(sk=sk)
    page = console.query(
        ConsistentRead=True,
        KeyConditionExpression="#p = :pk AND #ps BETWEEN :low AND :high",
        ExpressionAttributeNames={"#p": "pk", "#ps": "sk"},
        ExpressionAttributeValues={":pk": {"S": "a"}, ":low": {"S": "2"}, ":high": {"S": "3"}},
    )
    assert [item["sk"]["S"] for item in page["Items"]] == ["2", "3"]
