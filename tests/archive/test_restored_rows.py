"""The rows of a part as batches: from any row on, a few at a time, and whole items beside what is no usual event."""

import json
from typing import Any

import pytest
from msgspec import Raw

from aws.archive import parquet
from aws.archive.parquet import Parquet
from tests.worlds.parts import RANKED, list_items, make_item
from tidetable.layout import Layout

BY_SERIES = Layout("series", 2, "id")
AT = {"at": {"N": "7"}}


def make_part(layout: Layout, items: list[Any]) -> bytes:
    writer = Parquet().writer(layout, {})
    writer.add(json.dumps(items).encode())
    return writer.finish()


def some(count: int, layout: Layout = BY_SERIES) -> list[Any]:
    return [make_item(layout, "s", n, f"id{n:02}", {"x": {"N": f"{n}.5"}, "t": {"S": "é"}}, AT) for n in range(count)]


@pytest.mark.parametrize(("run_bytes", "lengths"), [(16_000_000, [7, 7, 6]), (1, [1] * 20)])
def test_a_part_is_read_from_any_row_on_a_few_rows_at_a_time(
    run_bytes: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", 7)
    monkeypatch.setattr(parquet, "_RUN_BYTES", run_bytes)
    body = make_part(BY_SERIES, some(20))
    assert [len(rows.batch.times) for rows in Parquet().rows(body, BY_SERIES, 0)] == lengths
    for start in range(22):
        ids = [id for rows in Parquet().rows(body, BY_SERIES, start) for id in rows.batch.ids]
        assert ids == [f"id{n:02}" for n in range(start, 20)]


def test_usual_numbers_stay_as_they_are_written_and_odd_ones_are_decoded() -> None:
    texts = ["1.50", "2", "0.1"]
    items = [make_item(BY_SERIES, "s", n, str(n), {"x": {"N": text}}, AT) for n, text in enumerate(texts)]
    (rows,) = Parquet().rows(make_part(BY_SERIES, items), BY_SERIES, 0)
    assert rows.items == {}
    assert [type(data["x"]) for data in rows.batch.datas[1:]] == [Raw, Raw]
    tiny = [make_item(BY_SERIES, "s", n, str(n), {"x": {"N": text}}, AT) for n, text in enumerate(["1", "1E-7"])]
    (rows,) = Parquet().rows(make_part(BY_SERIES, tiny), BY_SERIES, 0)
    assert [str(data["x"]) for data in rows.batch.datas] == ["1", "1E-7"]


def test_a_row_that_is_no_usual_event_is_a_whole_item_beside_the_batch() -> None:
    items = some(4)
    items[1]["packed"] = {"M": {"data": {"S": "z"}}}
    del items[2]["at"]
    body = make_part(BY_SERIES, items)
    (rows,) = Parquet().rows(body, BY_SERIES, 0)
    assert rows.items == {number: list_items(body, BY_SERIES)[number] for number in (1, 2)}
    assert [rows.batch.ids[number] for number in (0, 3)] == ["id00", "id03"]


def test_items_with_keys_of_indexes_or_with_versions_are_whole() -> None:
    body = make_part(RANKED, some(3, RANKED))
    (rows,) = Parquet().rows(body, RANKED, 0)
    assert sorted(rows.items) == [0, 1, 2]
