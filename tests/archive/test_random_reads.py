"""Any page of any archive in Parquet is the page of a list of its events: every layout, order, range, condition and cut."""

import json
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from tests.worlds.parts import START, make_item
from tidetable.archive import reading
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import read_archive
from tidetable.conditions import Condition, NameConditions
from tidetable.events import Event
from tidetable.exact_json import canonical_json
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange
from tidetable.times import to_text

LAYOUTS = {
    "time": Layout("time", 2, "id", 3_600),
    "series": Layout("series", 2, "id"),
    "series by series": Layout("series", 1, "series"),
    "versions": Layout("time", 2, "id", 3_600, versioned=True),
}
COLUMNS = {"n": "decimal(6,2)", "kind": "string"}
SERIES = ["a", "a#", "a%", "b", "é"]


class Bucket:
    """Objects in memory, and the number of requests."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        del etag
        return self.objects[key], ""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.objects[key][start:end]


def derive(series: str, time: str, sent: str) -> str:
    """The id that ingest makes of an event without one."""
    return sha256(f"[{canonical_json(series).decode()},{time},{sent}]".encode()).hexdigest()[:32]


def make_event(row: tuple[int, str, str, str, Any]) -> tuple[Event, dict[str, Any]]:
    """An event and its data in DynamoDB JSON. Its id is as given or, if it is ``timed`` or ``timeless``, derived."""
    second, series, id, number, kind = row
    data: dict[str, Any] = {"n": {"N": number}} | ({"kind": {"S": kind}} if isinstance(kind, str) else {})
    if isinstance(kind, list):
        data["list"] = {"L": [{"N": "1"}]}
    at = START + timedelta(seconds=second)
    # The sender wrote one digit after the point, as Python writes a float.
    sent = f'{{"kind":"{kind}","n":{number if "." in number else number + ".0"}}}'
    if id in ("timed", "timeless"):
        id = derive(series, f'"{to_text(at)}"' if id == "timed" else "null", sent)
    plain: dict[str, Any] = {}
    if "kind" in data:
        plain["kind"] = kind
    if "list" in data:
        plain["list"] = [1]
    return Event(series, at, id, plain | {"n": Decimal(number)}), data


rows: Any = st.tuples(
    st.integers(0, 9),
    st.sampled_from(SERIES),
    st.sampled_from(["timed", "timed", "timed", "timeless", "0123456789abcdef", "x#"]),
    st.sampled_from(["1", "2.5", "-3", "14.9", "0"]),
    st.sampled_from(["new", "new", "old", None, []]),
)
names = st.builds(
    NameConditions,
    series=st.sampled_from([(), (), ("a",), ("a#", "é")]),
    id_prefix=st.sampled_from(["", "", "0", "x"]),
    series_prefix=st.sampled_from(["", "", "a", "c"]),
)
conditions = st.sampled_from(
    [(), (), (Condition("n", "ge", ("2.5",)),), (Condition("kind", "eq", ("new",)), Condition("n", "lt", ("14.9",)))]
)


@given(
    by=st.sampled_from(sorted(LAYOUTS)),
    sent=st.lists(rows, min_size=1, max_size=24, unique_by=lambda row: row[:3]),
    parts=st.integers(1, 3),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(2, 12)),
    bounds=st.tuples(st.integers(-1, 10), st.integers(0, 10)),
    series=st.sampled_from([None, None, *SERIES]),
    chosen=st.tuples(names, conditions),
    limit=st.sampled_from([1, 4, 100]),
    ascending=st.booleans(),
    most=st.sampled_from([1, 3, 250_000, 250_000]),
)
@settings(max_examples=40, deadline=None)
def test_every_page_has_the_events_of_a_list(
    by: str,
    sent: list[Any],
    parts: int,
    sizes: tuple[int, int, int],
    bounds: tuple[int, int],
    series: str | None,
    chosen: tuple[NameConditions, tuple[Condition, ...]],
    limit: int,
    ascending: bool,
    most: int,
) -> None:
    layout, bucket, made = LAYOUTS[by], Bucket(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aws.archive.part_file._GROUP_EVENTS", sizes[0])
        patch.setattr("aws.archive.part_file._LEAST_EVENTS", 1)
        patch.setattr("aws.archive.part_writer._RUN_EVENTS", sizes[2])
        patch.setattr("aws.archive.range_read._WINDOW_EVENTS", sizes[1])
        patch.setattr("aws.archive.range_read._WHOLE_EVENTS", 2 * sizes[1])
        patch.setattr("aws.archive.range_read._SLICE", 2)
        # A page may end after skipped rows, too.
        patch.setattr(reading, "MAX_READ", most)
        patch.setattr(reading, "_ROWS_PER_EVENT", 1)
        events = [make_event(row) for row in sent]
        for number in range(parts):
            mine = events[number::parts]
            writer = Parquet().writer(layout, COLUMNS)
            for event, data in mine:
                micros = (event.time - START) // timedelta(microseconds=1)
                more: dict[str, Any] = {"at": {"N": "1772366400250"}}
                items = [make_item(layout, event.series, micros, event.id, data, more)]
                if layout.versioned:
                    items[0]["version"] = {"N": "2"}
                    items.append(
                        make_item(
                            layout, event.series, micros, event.id, {"kind": {"S": "new"}, "n": {"N": "9"}}, more, 1
                        )
                    )
                writer.add(json.dumps(items).encode())
            if mine:
                body, facts = writer.finish(), writer.facts
                assert Parquet().facts(body, layout).identity == facts.identity
                bucket.objects[str(number)] = body
                made.append(
                    Part(
                        key=str(number), events=facts.items, size=len(body), sha256=str(number), digest="", partitions=1,
                        first=facts.first, last=facts.last, bounds=writer.find_bounds(),
                    )
                )  # fmt: skip
        manifest = Manifest(
            stream="s", period="", table="", layout=layout, events=len(sent), size=0, digest="", columns=COLUMNS,
            written_at="", parts=tuple(made),
        )  # fmt: skip
        bucket.objects["m"] = manifest.encode()
        low, high = (layout.make_edge(START + timedelta(seconds=second)) for second in bounds)
        across = layout.find_ordering_layout(series)
        expected = sorted(
            (
                event
                for event, _ in events
                if bounds[0] <= (event.time - START).seconds + 86_400 * (event.time - START).days < bounds[1]
                and series in (None, event.series)
                and chosen[0].hold(event.series, event.id)
                and all(condition.holds(event.data) for condition in chosen[1])
            ),
            key=lambda event: across.make_sort_key(event.time, event.series, event.id),
            reverse=not ascending,
        )
        engine: Any = bucket
        reader = S3PartReader(engine)
        found: list[Event] = []
        after: str | None = None
        for _ in range(200):
            keys = ArchiveRange("m", low, high, series, after, names=chosen[0], conditions=chosen[1])
            page = read_archive(keys, reader, limit=limit, ascending=ascending)
            assert len(page.events) <= limit
            found += page.events
            if not page.more:
                break
            after = page.reached
    assert [(event.series, event.time, event.id, event.data) for event in found] == [
        (event.series, event.time, event.id, event.data) for event in expected
    ]


def test_a_part_keeps_only_the_ids_that_do_not_follow_from_content() -> None:
    """The clients of one file wrote floats; an event of another client, and one with its own id, keep their ids."""
    layout = LAYOUTS["time"]
    sent = [(n, "a", "timed", "2" if n % 3 else "2.25", "new") for n in range(8)]
    events = [make_event(row) for row in sent]
    events.append(make_event((8, "a", "0123456789abcdef", "1", "new")))
    writer = Parquet().writer(layout, COLUMNS)
    items = [
        make_item(layout, "a", n * 1_000_000, event.id, data, {"at": {"N": "1"}})
        for n, (event, data) in enumerate(events)
    ]
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    rows = Parquet().rows(body, layout, 0)
    assert [id for some in rows for id in some.batch.ids] == [event.id for event, _ in events]
    bounds = writer.find_bounds()
    assert bounds.ids is not None
    assert (bounds.ids.timed, dict(bounds.ids.digits)) == (True, {"n": 1})
    table = pq.read_table(BytesIO(body))
    assert table.column("id").to_pylist() == [None] * 9
    assert [kept is not None for kept in table.column("id_hex").to_pylist()] == [False] * 8 + [True]
