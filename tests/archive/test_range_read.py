"""Reading a range of a part: which row groups and which columns are fetched, and that nothing that counts is left out."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from aws.archive.parquet import Parquet
from tests.worlds.parts import make_item, read_part
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.conditions import Condition
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, EventVersion

LAYOUT = Layout("series", 2, "id")
KEPT = Layout("series", 2, "id", versioned=True)
SECOND = 1_000_000
COLUMNS = {"n": "integer", "mag": "decimal(9,2)", "kind": "string", "on": "boolean"}


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str] | None]]:
    """Row groups of two rows; and the groups that are fetched, with the columns that are asked for."""
    fetches: list[tuple[int, list[str] | None]] = []
    whole = pq.ParquetFile.read_row_group

    def note_fetch(file: Any, group: int, columns: Any = None) -> Any:
        fetches.append((group, columns))
        return whole(file, group, columns=columns)

    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", 2)
    monkeypatch.setattr("aws.archive.range_read._WINDOW_EVENTS", 1)
    monkeypatch.setattr("aws.archive.range_read._WHOLE_EVENTS", 2)
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", note_fetch)
    return fetches


def write_part(layout: Layout, items: list[Any], columns: dict[str, str] = COLUMNS) -> bytes:
    writer = Parquet().writer(layout, columns)
    writer.add(json.dumps(items).encode())
    return writer.finish()


def write_rows(*rows: dict[str, Any]) -> bytes:
    """A part with an event of each of these data, one per second."""
    return write_part(
        LAYOUT, [make_item(LAYOUT, "a", number * SECOND, f"id{number}", data, {}) for number, data in enumerate(rows)]
    )


def text_of(second: int) -> str:
    return f"2026-03-01T00:00:{second:02d}.000000Z"


def measured() -> bytes:
    """Four row groups of two rows: the seconds 0 and 1, 2 and 3, 4 and 5, 6 and 7. The field ``n`` is as the seconds."""
    return write_rows(
        *(
            {"n": {"N": str(n)}, "mag": {"N": f"{n}.5"}, "kind": {"S": "abcd"[n // 2]}, "on": {"BOOL": n == 3}}
            for n in range(8)
        )
    )


@pytest.mark.parametrize(
    ("low", "high", "groups"),
    [
        ("", "~", [0, 1, 2, 3]),
        (text_of(3), text_of(4), [1, 2]),
        (f"{text_of(3)}#id3", f"{text_of(4)}#id4", [1, 2]),
        (text_of(2), text_of(3), [1]),
        ("2026-03-01T00:00:03.000001Z", "2026-03-01T00:00:03.999999Z", []),
        (text_of(7), "~", [3]),
        ("", text_of(0), [0]),
        (text_of(8), "~", []),
    ],
)
def test_row_groups_that_a_range_touches_are_fetched_and_no_others(
    fetched: list[Any], low: str, high: str, groups: list[int]
) -> None:
    body = measured()
    for ascending in (True, False):
        fetched.clear()
        events = list(read_part(body, ArchiveRange("m", low, high), LAYOUT, ascending=ascending))
        assert sorted(group for group, _ in fetched) == groups
        seconds = [second for second in range(8) if low[:27] <= text_of(second) <= high]
        assert [event.time.second for event, _ in events] == (seconds if ascending else seconds[::-1])


@pytest.mark.usefixtures("fetched")
def test_a_range_without_edges_has_the_events_of_every_year() -> None:
    """History may be imported: of the year 1026, and of 3026."""
    millennium = 365_242_500 * 86_400 * 1_000
    years = [make_item(LAYOUT, "a", sign * millennium + n, "i", {}, {}) for sign in (-1, 1) for n in range(2)]
    events = read_part(write_part(LAYOUT, years), ArchiveRange("m", "", "~"), LAYOUT)
    assert [event.time.year for event, _ in events] == [1026, 1026, 3026, 3026]


def test_a_row_group_is_fetched_only_when_the_events_before_it_were_used(fetched: list[Any]) -> None:
    events = read_part(measured(), ArchiveRange("m", "", "~"), LAYOUT)
    for _ in range(3):
        next(events)
    assert [group for group, _ in fetched] == [0, 1]


@pytest.mark.parametrize(
    ("field", "operator", "values", "groups"),
    [
        ("n", "eq", ("3",), [1]),
        ("n", "eq", ("3.0",), [1]),
        ("n", "eq", ("8",), []),
        ("n", "eq", ("3.5",), []),
        ("n", "eq", ("three",), []),
        ("n", "in", ("0", "6"), [0, 3]),
        ("n", "ne", ("3",), [0, 1, 2, 3]),
        ("n", "lt", ("2",), [0, 1]),
        ("n", "le", ("2",), [0, 1]),
        ("n", "lt", ("1.5",), [0]),
        ("n", "gt", ("5",), [2, 3]),
        ("n", "ge", ("5",), [2, 3]),
        ("n", "ge", ("5.5",), [3]),
        ("mag", "eq", ("3.50",), [1]),
        ("mag", "ge", ("5.5",), [2, 3]),
        ("mag", "le", ("2.5",), [0, 1]),
        ("kind", "eq", ("b",), [1]),
        ("kind", "ge", ("c",), [2, 3]),
        ("kind", "le", ("b",), [0, 1]),
        ("kind", "in", ("bb", "zz"), []),
        # Truth is not compared with what a group holds, and a field without a column is in no statistics.
        ("on", "eq", ("true",), [0, 1, 2, 3]),
        ("deep.n", "eq", ("1",), [0, 1, 2, 3]),
    ],
)
def test_row_groups_whose_statistics_exclude_a_condition_are_not_fetched(
    fetched: list[Any], field: str, operator: Any, values: tuple[str, ...], groups: list[int]
) -> None:
    keys = ArchiveRange("m", "", "~", conditions=(Condition(field, operator, values),))
    events = [event for event, _ in read_part(measured(), keys, LAYOUT)]
    assert [group for group, _ in fetched] == groups
    assert all(event.data.keys() == COLUMNS.keys() for event in events), "whole, although only one field is compared"


def test_all_conditions_exclude_together_and_a_field_that_no_row_has_excludes_its_group(fetched: list[Any]) -> None:
    body = write_rows(*({"n": {"N": str(n)}, **({"kind": {"S": "x"}} if n >= 2 else {})} for n in range(8)))
    conditions = (Condition("kind", "ne", ("y",)), Condition("n", "le", ("3",)))
    list(read_part(body, ArchiveRange("m", "", "~", conditions=conditions), LAYOUT))
    assert [group for group, _ in fetched] == [1]


def test_a_row_group_of_which_one_event_lacks_a_field_is_fetched(fetched: list[Any]) -> None:
    body = write_rows({}, {"n": {"N": "1"}}, {"n": {"N": "2"}}, {}, {}, {})
    keys = ArchiveRange("m", "", "~", conditions=(Condition("n", "ge", ("1",)),))
    list(read_part(body, keys, LAYOUT))
    assert [group for group, _ in fetched] == [0, 1]


def test_a_row_group_with_values_beside_its_columns_is_fetched_whatever_its_statistics_say(fetched: list[Any]) -> None:
    """The column cannot hold 1.5, so only the rest of the data has it; and in another group a text stands for a number."""
    numbers = [{"N": "1"}, {"N": "1.5"}, {"N": "1"}, {"N": "1"}, {"N": "1"}, {"S": "9"}]
    body = write_rows(*({"n": number} for number in numbers))
    for value, groups in (("1.5", [0, 2]), ("9", [0, 2]), ("1", [0, 1, 2])):
        fetched.clear()
        keys = ArchiveRange("m", "", "~", conditions=(Condition("n", "eq", (value,)),))
        list(read_part(body, keys, LAYOUT))
        assert [group for group, _ in fetched] == groups


class _Part:
    """An archive of one part."""

    def __init__(self, layout: Layout, body: bytes) -> None:
        self.layout, self.body = layout, body

    def manifest(self, key: str) -> Manifest:
        part = Part(key="p", events=0, size=0, sha256="", digest="", partitions=0, first="", last="~")
        return Manifest(
            stream="s", period="", table="", layout=self.layout, events=0, size=0, digest="", columns={},
            written_at="", parts=(part,),
        )  # fmt: skip

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        return read_part(self.body, keys, layout, ascending=ascending)


def corrected() -> _Part:
    """Four events whose first version had the kind ``old``, and whose newest has the kind ``new``.

    Each row group has both versions of an event.
    """
    items = [
        make_item(KEPT, "a", second * SECOND, f"id{second}", {"kind": {"S": kind}}, {}, version)
        for second in range(4)
        for kind, version in (("new", 0), ("old", 1))
    ]
    for item in items[::2]:
        item["version"] = {"N": "2"}
    return _Part(KEPT, write_part(KEPT, items))


@pytest.mark.usefixtures("fetched")
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(("kind", "numbers"), [("new", [2, 1] * 4), ("old", [])])
def test_a_condition_on_the_newest_versions_leaves_out_no_earlier_ones(
    kind: str, numbers: list[int], ascending: bool
) -> None:
    """The newest version of an event decides for all of them."""
    keys = ArchiveRange("m", "", "~", conditions=(Condition("kind", "eq", (kind,)),), versions=True)
    page = read_archive(keys, corrected(), limit=9, ascending=ascending)
    assert [version.number for version in page.versions or ()] == numbers


@pytest.mark.usefixtures("fetched")
def test_without_earlier_versions_a_condition_holds_for_the_newest_alone() -> None:
    for kind, count in (("new", 4), ("old", 0)):
        keys = ArchiveRange("m", "", "~", conditions=(Condition("kind", "eq", (kind,)),))
        assert len(read_archive(keys, corrected(), limit=9, ascending=True).events) == count


@pytest.mark.usefixtures("fetched")
def test_versions_have_their_numbers_and_times() -> None:
    items = [
        make_item(KEPT, "a", 1, "id", {"kind": {"S": kind}, "n": {"N": "1"}}, {"at": {"N": at}}, version)
        for kind, at, version in (("new", "1772366400250", 0), ("old", "1772366400000", 3))
    ]
    items[0]["version"] = {"N": "4"}
    del items[1]["version"]  # its key says it, too
    keys = ArchiveRange("m", "", "~", versions=True)
    page = read_archive(keys, _Part(KEPT, write_part(KEPT, items)), limit=9, ascending=True)
    assert [event.data for event in page.events] == [{"kind": "new", "n": 1}, {"kind": "old", "n": 1}]
    assert page.versions == [
        EventVersion(4, 1_772_366_400_250, newest=True),
        EventVersion(3, 1_772_366_400_000, newest=False),
    ]


@pytest.mark.parametrize("sign", ["v0#", "v12#", ""])
def test_a_range_of_a_period_with_versions_is_found_by_the_time_in_its_keys(fetched: list[Any], sign: str) -> None:
    """The keys of such a period begin with the version; a range is given with them or without."""
    keys = ArchiveRange("m", f"{sign}{text_of(2)}#id2", f"{sign}{text_of(3)}#id3", versions=True)
    events = [event.id for event, _ in read_part(corrected().body, keys, KEPT)]
    assert [group for group, _ in fetched] == [2, 3]
    assert events == ["id2", "id2", "id3", "id3"]
