"""The lean catalog's queries: what the service is asked for, and which of the entries it answers are passed on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.catalog_items import make_attributes, make_period_key
from aws.dynamodb.credentials import LeanCredentials
from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import Script
from tests.ingest.streams import QUAKES
from tests.worlds.codec import to_wire
from tests.worlds.entries import change_entry
from tidetable.access import Access
from tidetable.catalog import Entry, State
from tidetable.credentials import CredentialRecord, Secret
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.periods import parse_label

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


def stored(label: str) -> dict[str, Any]:
    """A day's entry as the service answers it."""
    entry = Entry("quakes", parse_label(label), f"t.{label}", QUAKES.layout, State.OPEN, NOON)
    return to_wire({**make_period_key("quakes", entry.period), **make_attributes(entry)})


def test_the_entry_before_a_range_is_the_last_before_it_and_counts_if_it_reaches_into_the_range() -> None:
    """The day before ends where the range begins, and so has nothing of it; an instant earlier it has."""
    script = Script(lambda _, body: {"Items": [stored("2026-03-05" if body["ScanIndexForward"] else "2026-03-04")]})
    catalog, midnight = LeanCatalog(script.client, "catalog"), datetime(2026, 3, 5, tzinfo=UTC)
    for start, labels in (
        (midnight, ["2026-03-05"]),
        (midnight - timedelta(microseconds=1), ["2026-03-04", "2026-03-05"]),
    ):
        entries = catalog.entries("quakes", start, NOON)
        assert [entry.period.label for entry in entries] == labels
    assert [(body["ScanIndexForward"], body["Limit"]) for _, body in script.sent] == 2 * [(False, 1), (True, 4096)]


def test_a_warm_function_decodes_an_entry_again_only_after_it_changed() -> None:
    """Each request reads all entries of its range, a year of days has 365, and nearly none of them has changed."""
    closed = stored("2026-03-04") | to_wire({"state": "closed"})
    answers = [stored("2026-03-04"), stored("2026-03-04"), closed]
    script = Script(lambda number, _: {"Items": [answers[(number - 1) // 2]] if number % 2 == 0 else []})
    catalog, day = LeanCatalog(script.client, "catalog"), datetime(2026, 3, 4, tzinfo=UTC)
    before, again, after = (catalog.entries("quakes", day, NOON)[0] for _ in answers)
    assert again is before
    assert (before.state, after.state) == (State.OPEN, State.CLOSED)
    assert before.period == after.period == parse_label("2026-03-04")


def test_a_walk_reads_a_page_when_it_is_needed_each_twice_as_long_as_the_page_before() -> None:
    items = [stored(f"2026-03-{day:02}") for day in range(1, 13)]
    last = {name: items[-1][name] for name in ("pk", "sk")}

    def answer(number: int, body: Any) -> dict[str, Any]:
        some, items[:] = items[: body["Limit"]], items[body["Limit"] :]
        return {"Items": some} | ({"LastEvaluatedKey": last} if items else {})

    script = Script(answer)
    walk = LeanCatalog(script.client, "catalog").walk("quakes", None, NOON, at_once=2)
    assert script.sent == []
    assert [next(walk).period.label for _ in range(2)] == ["2026-03-01", "2026-03-02"]
    assert [(body["ScanIndexForward"], body["Limit"]) for _, body in script.sent] == [(False, 2)]
    assert next(walk).period.label == "2026-03-03"
    assert [body["Limit"] for _, body in script.sent] == [2, 4]
    assert len(list(walk)) == 9
    assert [body["Limit"] for _, body in script.sent] == [2, 4, 8]
    assert [body.get("ExclusiveStartKey") for _, body in script.sent] == [None, last, last]


def test_the_entries_are_read_to_the_last_page() -> None:
    items = [stored("2026-03-04"), stored("2026-03-05")]
    last = {name: items[0][name] for name in ("pk", "sk")}
    script = Script(
        lambda number, _: {"Items": items[:1], "LastEvaluatedKey": last} if number == 1 else {"Items": items[1:]}
    )
    entries = LeanCatalog(script.client, "catalog").entries("quakes")
    assert [entry.period.label for entry in entries] == ["2026-03-04", "2026-03-05"]
    assert [body.get("ExclusiveStartKey") for _, body in script.sent] == [None, last]


def test_the_entries_of_a_range_are_read_to_the_last_of_many_pages() -> None:
    days = [stored(f"2026-03-0{day}") for day in (4, 5, 6, 7)]

    def reply(_: int, body: dict[str, Any]) -> dict[str, Any]:
        if not body["ScanIndexForward"]:
            return {"Items": days[:1]}
        start = body.get("ExclusiveStartKey")
        at = 1 if start is None else 1 + next(n for n, day in enumerate(days) if day["sk"] == start["sk"])
        last = {name: days[at][name] for name in ("pk", "sk")}
        return {"Items": [days[at]], **({"LastEvaluatedKey": last} if at < 3 else {})}

    start, end = datetime(2026, 3, 4, 12, tzinfo=UTC), datetime(2026, 3, 7, 12, tzinfo=UTC)
    entries = LeanCatalog(Script(reply).client, "catalog").entries("quakes", start, end)
    assert [entry.period.label for entry in entries] == ["2026-03-04", "2026-03-05", "2026-03-06", "2026-03-07"]


def test_a_callers_key_is_read_consistently() -> None:
    """A revoked key would live on for as long as a replica is behind."""
    script = Script(lambda *_: {})
    assert LeanCredentials(script.client, "catalog").find("0123456789") is None
    assert script.sent == [
        (
            "GetItem",
            {"TableName": "catalog", "Key": {"pk": {"S": pk}, "sk": {"S": "0123456789"}}, "ConsistentRead": True},
        )
        for pk in ("keys#8", "keys")
    ]


@pytest.mark.parametrize(
    ("value", "regions"),
    [
        (["eu-west-1", "us-west-2"], ("eu-west-1", "us-west-2")),
        ([], ()),
        ("eu-west-1", ()),
        (None, ()),
        ({"eu-west-1": True}, ()),
        (["eu-west-1", 7, None, ["us-west-2"]], ("eu-west-1",)),
    ],
)
def test_a_list_of_copies_that_is_none_names_no_region(value: Any, regions: tuple[str, ...]) -> None:
    script = Script(lambda *_: {"Items": [{**stored("2026-03-04"), "copies": to_wire({"value": value})["value"]}]})
    (entry,) = LeanCatalog(script.client, "catalog").entries("quakes")
    assert entry.copies.active == regions
    assert "copies" not in make_attributes(change_entry(entry, active=()))


def test_each_read_names_its_partition_and_whether_it_may_be_stale() -> None:
    """A backfill and the cursors' secret hold from the next request on; entries only where the caller says so."""
    script = Script(lambda number, _: {"Items": [{"secret": {"S": "00ff"}}] if number == 10 else []})
    catalog = LeanCatalog(script.client, "catalog")
    catalog.entries("quakes")
    catalog.entries("quakes", consistent=True)
    list(catalog.walk("quakes", None, NOON))
    list(catalog.walk("quakes", NOON, ascending=True, consistent=True))
    catalog.backfills("quakes")
    catalog.list_backfills()
    catalog.list_horizons()
    catalog.entries_from("quakes", NOON)
    assert catalog.secret() == b"\x00\xff"
    read = [(body["ExpressionAttributeValues"][":pk"], body["ConsistentRead"]) for _, body in script.sent]
    assert read == [
        ({"S": "stream#quakes"}, False),
        ({"S": "stream#quakes"}, True),
        ({"S": "stream#quakes"}, False),
        ({"S": "stream#quakes"}, True),
        ({"S": "stream#quakes"}, True),
        ({"S": "backfills"}, True),
        ({"S": "backfills"}, True),
        ({"S": "horizons"}, True),
        ({"S": "stream#quakes"}, True),
        ({"S": "secret#cursors"}, True),
    ]
    assert {operation for operation, _ in script.sent} == {"Query"}
    assert {(body["TableName"], body["KeyConditionExpression"]) for _, body in script.sent} == {
        ("catalog", "pk = :pk AND sk BETWEEN :low AND :high")
    }


def test_each_read_names_its_range() -> None:
    """A period is recorded under its start. The first week of 1970 may begin in 1969."""
    script = Script(lambda *_: {"Items": []})
    catalog = LeanCatalog(script.client, "catalog")
    catalog.entries("quakes")
    catalog.entries("quakes", NOON, NOON + timedelta(days=1))
    list(catalog.walk("quakes", NOON, NOON + timedelta(days=1)))
    list(catalog.walk("quakes", NOON, ascending=True))
    list(catalog.walk("quakes"))
    catalog.backfills("quakes")
    catalog.list_backfills()
    catalog.entries_from("quakes", NOON)
    values = [body["ExpressionAttributeValues"] for _, body in script.sent]
    assert [(found[":low"]["S"], found[":high"]["S"]) for found in values] == [
        ("1969-12-25T00:00:00.000000Z", "9999~"),
        ("1969-12-25T00:00:00.000000Z", "2026-03-05T12:00:00.000000Z"),
        ("2026-03-05T12:00:00.000000Z", "2026-03-06T12:00:00.000000Z~"),
        ("1969-12-25T00:00:00.000000Z", "2026-03-06T12:00:00.000000Z~"),
        ("1969-12-25T00:00:00.000000Z", "2026-03-05T12:00:00.000000Z"),
        ("2026-03-05T12:00:00.000000Z", "9999~"),
        ("1969-12-25T00:00:00.000000Z", "9999~"),
        ("quakes#", "quakes#~"),
        ("0", "~"),
        ("2026-03-05T12:00:00.000000Z", "9999~"),
    ]


def test_both_reads_of_a_range_are_consistent_if_the_caller_says_so() -> None:
    script = Script(lambda *_: {"Items": []})
    LeanCatalog(script.client, "catalog").entries("quakes", NOON, NOON + timedelta(days=1), consistent=True)
    assert [body["ConsistentRead"] for _, body in script.sent] == [True, True]


CALLERS_KEY = {
    "pk": "keys#8",
    "sk": "0123456789",
    "name": "n",
    "can": ["read", "fly"],
    "created": "2026-03-05T12:00:00.000000Z",
    "secrets": [{"salt": "00", "hash": "ff"}],
}


def test_of_a_key_only_the_scopes_are_read_that_this_release_knows() -> None:
    """A later release may know more. Attributes that are not there are those of a key without them."""
    script = Script(lambda *_: {"Item": to_wire(CALLERS_KEY)})
    found = LeanCredentials(script.client, "catalog").find("0123456789")
    assert found == CredentialRecord(
        "0123456789", "n", Access("0123456789", None, frozenset({"read"})), NOON, (Secret(b"\x00", b"\xff"),)
    )


READS: dict[str, tuple[Callable[[Script], Any], int]] = {
    "entries": (lambda script: LeanCatalog(script.client, "catalog").entries("quakes"), 1),
    "entries of a range": (lambda script: LeanCatalog(script.client, "catalog").entries("quakes", NOON, NOON), 2),
    "walk": (lambda script: list(LeanCatalog(script.client, "catalog").walk("quakes", None, NOON)), 1),
    "backfills": (lambda script: LeanCatalog(script.client, "catalog").backfills("quakes"), 1),
    "secret": (lambda script: LeanCatalog(script.client, "catalog").secret(), 1),
    "key": (lambda script: LeanCredentials(script.client, "catalog").find("0123456789"), 1),
}


@pytest.mark.parametrize("name", READS)
def test_every_read_of_the_catalog_that_has_no_answer_is_read_again(name: str) -> None:
    read, count = READS[name]
    answers: dict[str, dict[str, Any]] = {
        "secret": {"Items": [{"secret": {"S": "00ff"}}]},
        "key": {"Item": to_wire(CALLERS_KEY)},
    }
    script = Script(lambda number, _: NoAnswer("reset") if number == 1 else answers.get(name, {"Items": []}))
    read(script)
    assert len(script.sent) == count + 1
    assert script.sent[0] == script.sent[count]
    script = Script(lambda *_: NoAnswer("reset"))
    with pytest.raises(StoreUnavailable, match="reset"):
        read(script)
    assert len(script.sent) == 3 * count


@pytest.mark.parametrize("name", READS)
def test_a_catalog_that_is_not_there_is_named(name: str) -> None:
    script = Script(lambda *_: RequestRefused("ResourceNotFoundException", "not found", b"{}"))
    with pytest.raises(TableMissing, match="table catalog does not exist"):
        READS[name][0](script)
