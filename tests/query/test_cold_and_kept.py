"""Cold fields and kept versions on fakes: what an answer shows of them, and which version a number names."""

from datetime import UTC, datetime
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes import SEAL
from tests.worlds.days import Days
from tests.worlds.packed import items_of
from tidetable.config import Stream, parse
from tidetable.errors import TableMissing
from tidetable.events import Event, Item
from tidetable.layout import Key, Layout, Packing, Ref
from tidetable.periods import parse_label
from tidetable.ports import ArchivePage, ArchiveRange, EventVersion
from tidetable.problems import ProblemError
from tidetable.query import find_latest, get_event, parse_query, run_query

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
NOW = datetime(2026, 3, 5, 18, tzinfo=UTC)
DAY = parse_label("2026-03-05")
TABLE = "tidetable-t.s.2026-03-05"
SPAN = {"from": ["2026-03-05T00:00:00Z"], "to": ["2026-03-06T00:00:00Z"], "series": ["a"]}


def stream(more: str) -> Stream:
    text = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\nkey = { partition_by = "series" }\n'
    return parse(text + more).streams["s"]


COLD = stream('cold = ["raw"]')
KEPT = stream('versions = "keep"')
LAYOUT = Layout("series", 1, "id")


def sk(minute: int, id: str) -> str:
    return f"2026-03-05T12:{minute:02d}:00.000000Z#{id}"


def days_of(layout: Layout, *items: Item) -> Days:
    days = Days()
    days.add_table(DAY, layout, items)
    return days


def read_pages(policy: Stream, days: Days, limit: int, **parameters: str) -> list[Any]:
    """The documents of all pages of a query of the day, oldest first."""
    query_string = SPAN | {name: [value] for name, value in parameters.items()} | {"order": ["asc"]}
    documents: list[Any] = []
    while True:
        query = parse_query(policy, query_string | {"limit": [str(limit)]}, NOW, SEAL)
        answer = run_query(query, policy, days.reader, NOW, lambda: 100.0)
        documents.append(answer.document() | {"cost": answer.cost})
        if answer.next is None:
            return documents
        query_string = {"cursor": [answer.next]}


# The data of the second event was stored before the field was cold, so it is still in the item.
COLD_TEXT = b'{"raw":"tides"}'
COLD_ITEMS: list[Item] = [
    {
        "pk": "a#0",
        "sk": sk(1, "1"),
        "at": 1,
        "data": {"n": 1, "rest": {"x": 1}},
        "cold": {"v": "0" * 24, "n": 1, "b": len(COLD_TEXT)},
    },
    {"pk": "a#0", "sk": sk(2, "2"), "at": 1, "data": {"n": 2, "raw": "old"}},
    {"pk": "a#0", "sk": sk(3, "3"), "at": 1, "data": {"n": 3, "raw": "old"}},
]


def cold_days(*items: Item) -> Days:
    """A day of events with a cold field. The body of the first event's field is in the table of chunks."""
    days = days_of(LAYOUT, *(items or COLD_ITEMS))
    key = Key(f"a#0#{sk(1, '1')}#{'0' * 24}#0", "")
    days.store.tables[f"{TABLE}.parts"] = {key: {"pk": key.pk, "b": Zstd().compress(COLD_TEXT)}}
    return days


@pytest.mark.parametrize(
    ("fields", "shown", "chunks"),
    [
        (None, [{"n": 1, "rest": {"x": 1}}, {"n": 2}, {"n": 3}], 0),
        ("n", [{"n": 1}, {"n": 2}, {"n": 3}], 0),
        ("raw", [{"raw": "tides"}, {"raw": "old"}, {"raw": "old"}], 1),
        (
            "*",
            [{"n": 1, "rest": {"x": 1}, "raw": "tides"}, {"n": 2, "raw": "old"}, {"n": 3, "raw": "old"}],
            1,
        ),
    ],
)
@pytest.mark.parametrize("limit", [1, 100])
def test_a_cold_field_is_shown_only_where_it_is_asked_for(
    fields: str | None, shown: list[Any], chunks: int, limit: int
) -> None:
    """Also on later pages: a cursor does not hold the cold fields. A chunk takes a request and a whole unit."""
    pages = read_pages(COLD, cold_days(), limit, **({} if fields is None else {"fields": fields}))
    assert [event["data"] for page in pages for event in page["events"]] == shown
    if limit == 100:
        assert [(page["cost"].requests, page["cost"].units) for page in pages] == [(1 + chunks, 0.5 + chunks)]
    ref = Ref("s", DAY, Key("a#0", sk(1, "1"))).encode()
    parameters = {} if fields is None else {"fields": [fields]}
    assert get_event(COLD, ref, cold_days().reader, parameters)["data"] == shown[0]


def test_plain_events_with_a_cold_field_are_shown_without_it() -> None:
    """The data of plain events is passed on as text, unless a field must be left out of it."""
    pages = read_pages(COLD, days_of(LAYOUT, *COLD_ITEMS[1:]), 100)
    assert [event["data"] for page in pages for event in page["events"]] == [{"n": 2}, {"n": 3}]


def test_a_latest_event_whose_data_is_gone_is_incomplete_and_reported() -> None:
    days = cold_days(COLD_ITEMS[0])
    days.store.tables[f"{TABLE}.parts"].clear()
    latest = find_latest(COLD, {"series": ["a"], "fields": ["*"]}, days.reader, NOW, lambda: 100.0)
    assert latest.events["a"]["incomplete"] is True
    assert latest.losses == [f"the data of a#0, {sk(1, '1')} is missing: {'0' * 24}"]


def test_a_latest_event_of_a_table_that_is_deleted_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event was read, and its chunks were gone a moment later: the search goes on with older tables."""
    days = cold_days(COLD_ITEMS[0])
    days.add_table(
        parse_label("2026-03-04"), LAYOUT, [{"pk": "a#0", "sk": "2026-03-04T12:00:00.000000Z#0", "data": {}}]
    )

    def gone(table: str, keys: Any) -> Any:
        raise TableMissing(table)

    monkeypatch.setattr(days.store, "get_chunks", gone)
    latest = find_latest(COLD, {"series": ["a"], "fields": ["raw"]}, days.reader, NOW, lambda: 100.0)
    assert latest.events["a"]["id"] == "0"


def test_an_event_whose_damaged_data_is_compared_is_a_gap_at_its_own_time() -> None:
    damaged = {"pk": "a#0", "sk": sk(2, "2"), "at": 1, "z": b"damaged"}
    days = days_of(LAYOUT, COLD_ITEMS[1] | {"sk": sk(1, "1")}, damaged)
    (page,) = read_pages(COLD, days, 100, **{"where.n:ge": "1"})
    assert [event["id"] for event in page["events"]] == ["1"]
    assert page["gaps"] == [
        {"from": "2026-03-05T12:02:00.000000Z", "to": "2026-03-05T12:02:00.000001Z", "reason": "damaged data"}
    ]


# Three versions of an event, and their keys.
VERSIONED = Layout("series", 1, "id", versioned=True)
PLACE = sk(0, "1")
VERSIONS: list[Item] = [
    {"pk": "a#0", "sk": f"{prefix}#{PLACE}", "version": number, "at": 1_000 * number, "data": {"n": number}}
    for number, prefix in ((3, "v0"), (2, "v2"), (1, "v1"))
]
KEPT_REF = Ref("s", DAY, Key("a#0", f"v0#{PLACE}")).encode()


def numbers_of(document: Any) -> list[tuple[int, int, bool, str]]:
    """Each version's data, number, whether it is the newest, and its second of acceptance."""
    return [
        (row["data"]["n"], row["version"], row["newest"], row["accepted"][17:19])
        for row in (document, *document.get("versions", ()))
    ]


THIRD, SECOND, FIRST = (3, 3, True, "03"), (2, 2, False, "02"), (1, 1, False, "01")


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ({"version": "3"}, [THIRD]),
        ({"version": "2"}, [SECOND]),
        ({"version": "1"}, [FIRST]),
        ({"versions": "all"}, [THIRD, SECOND, FIRST]),
        ({"versions": "all", "version": "3"}, [THIRD, SECOND, FIRST]),
        ({"versions": "all", "version": "2"}, [SECOND, FIRST]),
        ({"versions": "all", "version": "1"}, [FIRST]),
    ],
    ids=str,
)
def test_a_number_names_a_version_and_the_earlier_versions_follow_it(
    parameters: dict[str, str], shown: list[Any]
) -> None:
    query_string = {name: [value] for name, value in parameters.items()}
    document = get_event(KEPT, KEPT_REF, days_of(VERSIONED, *VERSIONS).reader, query_string)
    assert numbers_of(document) == shown
    assert ("versions" in document) is ("versions" in parameters)
    assert "versions_left_out" not in document


def test_an_event_of_more_versions_than_are_read_at_once_says_where_the_next_read_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidetable.query.earlier.MAX_VERSIONS", 1)
    document = get_event(KEPT, KEPT_REF, days_of(VERSIONED, *VERSIONS).reader, {"versions": ["all"]})
    assert (numbers_of(document), document["versions_left_out"]) == ([THIRD, SECOND], 1)


def test_an_event_has_no_version_beyond_its_newest_and_none_that_was_deleted() -> None:
    reader = days_of(VERSIONED, VERSIONS[0], VERSIONS[2]).reader
    for version in ("4", "2"):
        with pytest.raises(ProblemError, match=f"404 unknown_event: there is no version {version} of this event"):
            get_event(KEPT, KEPT_REF, reader, {"version": [version]})
    assert numbers_of(get_event(KEPT, KEPT_REF, reader, {"versions": ["all"]})) == [THIRD, FIRST]


def test_an_event_of_a_period_without_versions_is_its_own_first_version() -> None:
    """The stream kept no versions when the period began. In a table and in an archive."""
    event = Event("a", NOON, "1", {"n": 7})
    live, archived = days_of(LAYOUT, LAYOUT.make_item(event)), Days()
    archived.add_archive(DAY, LAYOUT, [event])
    ref = Ref("s", DAY, Key("a#0", PLACE)).encode()
    for days in (live, archived):
        document = get_event(KEPT, ref, days.reader, {"version": ["1"]})
        assert (document["data"], "version" in document) == ({"n": 7}, False)
        with pytest.raises(ProblemError, match="404 unknown_event: there is no version 2"):
            get_event(KEPT, ref, days.reader, {"version": ["2"]})


@pytest.mark.parametrize(
    ("parameters", "asked", "shown", "left_out"),
    [
        ({}, (False, None), [THIRD], None),
        ({"version": "2"}, (True, 2), [SECOND], None),
        ({"version": "4"}, (True, 4), None, None),
        ({"versions": "all"}, (True, None), [THIRD, SECOND], 1),
        ({"versions": "all", "version": "2"}, (True, 2), [SECOND], 1),
    ],
    ids=str,
)
def test_an_archived_version_is_asked_for_by_its_number(
    parameters: dict[str, str], asked: tuple[bool, int | None], shown: list[Any] | None, left_out: int | None
) -> None:
    """The archive's page has room for two versions, and leaves out those of a greater number."""
    days, ranges = Days(), list[ArchiveRange]()
    days.add_archive(DAY, VERSIONED, [])

    def read(keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        ranges.append(keys)
        first = min(keys.version or 3, 3)
        numbers = range(first, 1, -1) if keys.versions else [3]
        events = [Event("a", NOON, "1", {"n": number}) for number in numbers]
        return ArchivePage(events, more=False, versions=[EventVersion(n, 1_000 * n, newest=n == 3) for n in numbers])

    days.reader.archive.read = read  # type: ignore[method-assign]
    query_string = {name: [value] for name, value in parameters.items()}
    if shown is None:
        with pytest.raises(ProblemError, match="404 unknown_event: there is no version 4"):
            get_event(KEPT, KEPT_REF, days.reader, query_string)
    else:
        document = get_event(KEPT, KEPT_REF, days.reader, query_string)
        if "version" in document:
            assert numbers_of(document) == shown
        assert document["data"] == {"n": shown[0][0]}
        assert document.get("versions_left_out") == left_out
    assert [(keys.versions, keys.version) for keys in ranges] == [asked]


def test_of_archived_versions_an_answer_has_as_many_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three versions takes 1,000 bytes and some 400 more, and an answer has room for two of them."""
    monkeypatch.setattr("tidetable.query.page.MAX_PAGE_BYTES", 3_500)
    days = Days()
    days.add_archive(DAY, VERSIONED, [])

    def read(keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        events = [Event("a", NOON, "1", {"n": number, "text": "x" * 1_000}) for number in (3, 2, 1)]
        versions = [EventVersion(number, 1_000 * number, newest=number == 3) for number in (3, 2, 1)]
        return ArchivePage(events, more=False, versions=versions)

    days.reader.archive.read = read  # type: ignore[method-assign]
    document = get_event(KEPT, KEPT_REF, days.reader, {"versions": ["all"]})
    assert ([row["data"]["n"] for row in (document, *document["versions"])], document["versions_left_out"]) == (
        [3, 2],
        1,
    )


def test_a_page_shows_an_event_with_its_earlier_versions() -> None:
    (page,) = read_pages(KEPT, days_of(VERSIONED, *VERSIONS), 100, versions="all")
    assert [numbers_of(row)[0] for row in page["events"]] == [THIRD, SECOND, FIRST]
    (page,) = read_pages(KEPT, days_of(VERSIONED, *VERSIONS), 100)
    assert [(row["data"], "version" in row) for row in page["events"]] == [({"n": 3}, False)]


def test_no_later_event_is_taken_for_the_latest() -> None:
    """Of each of two suffixes the last item is read, and the later one counts."""
    layout = Layout("series", 2, "id")
    early, late = ({"pk": f"a#{suffix}", "sk": sk(suffix, "x"), "at": 1, "data": {}} for suffix in (0, 1))
    for items in ((early, late), (late | {"pk": "a#0"}, early | {"pk": "a#1"})):
        latest = find_latest(KEPT, {"series": ["a"]}, days_of(layout, *items).reader, NOW, lambda: 100.0)
        assert latest.events["a"]["time"] == "2026-03-05T12:01:00.000000Z"


def test_a_version_of_a_stream_without_versions_is_refused() -> None:
    ref = Ref("s", DAY, Key("a#0", PLACE)).encode()
    for parameters in ({"version": ["1"]}, {"versions": ["all"]}):
        with pytest.raises(ProblemError, match="400 bad_parameter: s keeps no earlier versions"):
            get_event(COLD, ref, days_of(LAYOUT).reader, parameters)


def test_a_damaged_pack_that_may_hold_a_later_event_is_reported() -> None:
    """The cost counts the events of a pack, and not the pack."""
    layout = Layout("series", 1, "id", pack=Packing(60, 65_536))
    packs = items_of([Event("a", NOON, str(number), {}) for number in range(3)], layout, 1)
    latest = find_latest(KEPT, {"series": ["a"]}, days_of(layout, *packs).reader, NOW, lambda: 100.0)
    assert (latest.events["a"]["id"], latest.losses, latest.cost.read) == ("2", [], 3)
    damaged = [{**pack, "pack": b"x"} for pack in packs]
    latest = find_latest(KEPT, {"series": ["a"]}, days_of(layout, *damaged).reader, NOW, lambda: 100.0)
    assert latest.document()["latest"] == [{"series": "a", "event": None, "incomplete": True}]
    assert latest.losses == [f"damaged pack in {TABLE}, which may hold a later event of series a"]
