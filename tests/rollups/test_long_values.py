"""Texts to group by and names of fields that are as long as an event may be: they are shortened, and buckets are sealed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.sketches import DDSketches
from tests.worlds.cells import add_event
from tests.worlds.listings import ask_listing, at, names_of, roll_up
from tests.worlds.noted import BY_DAY, CountedStore, make_noting_world
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import HOURS, MINUTES, PACKED, PLAIN, START, World, reading
from tidetable.events import Event
from tidetable.exact_json import encode_json
from tidetable.layout import Layout
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.group_values import make_group_value, shorten_name
from tidetable.values import count_item_bytes

TEXTS = replace(MINUTES, by=("series", "kind", "place.state"))
BY_TEXT = replace(HOURS, by=("kind",))
# sha256 of 300,000 letters x; of 300,000 letters x and a letter y.
LONG, OTHER = "x" * 300_000, "x" * 299_999 + "y"
SHORT, SHORT_OTHER = (
    "x" * 2_048 + "…29927e273accc68286005017f7fa6e4f",
    "x" * 2_048 + "…b473a0f319d9edc7894d1ff62b5e14c7",
)
NAME, SHORT_NAME = "n" * 256, "n" * 200 + "…342aaaf5a0fcb18cba413f00ff46ffc9"
EDGE = "x" * 2_048
WHERE = [
    {},
    {"where.kind": EDGE[:900]},
    {"where.kind:ne": EDGE[:900]},
    {"where.kind:prefix": EDGE[:900]},
    {"where.kind:gt": EDGE[:900]},
    {"where.kind:le": EDGE[:899] + "y"},
    {"where.kind:lt": EDGE[:900]},
]


def make_events() -> list[Event]:
    first: dict[str, Any] = {"kind": LONG, NAME: 1}
    second: dict[str, Any] = {"kind": OTHER, LONG[:200_000]: "t"}
    return [
        reading(65, 1, "a", **first),
        reading(66, 2, "a", **second),
        reading(67, 3, "b", kind=LONG, place={"state": "é" * 150_000}),
        reading(70, 4, "b", kind=EDGE[:900]),
        reading(185, 5, "a", kind="short", place={"state": "CA"}),
    ]


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["items", "packs"])
def test_a_bucket_with_long_texts_and_names_is_sealed_and_answers_as_its_events(layout: Layout) -> None:
    world = roll_up(*make_events(), definitions=(TEXTS, BY_TEXT), layout=layout)
    assert world.rollups.read_state("s").over == []
    span = {"from": at(60), "to": at(240), "stat": "count,sum,first,last", "field": "mag"}
    queries = [
        {**span, "by": by, "step": "1h", **where} for by in ("kind", "series,kind", "place.state") for where in WHERE
    ]
    assert world.check(queries) == len(queries)
    rows = world.ask(**span, by="kind").rows
    assert [(row["group"]["kind"], row["count"]) for row in rows] == [
        ("short", 1),
        (EDGE[:900], 1),
        *sorted([(SHORT, 2), (SHORT_OTHER, 1)]),
    ]
    assert [scan.entry.stream for scan in world.ask(**span, by="kind").sources] == ["s-h"]


def test_late_events_with_long_texts_are_resealed_and_rebuilt() -> None:
    world = roll_up(*make_events(), definitions=(TEXTS, BY_TEXT))
    world.write(reading(75, 6, "c", kind=LONG), reading(76, 7, "c", kind="z" * 2_101))
    world.sleep(3_600)
    report = world.refresh()
    assert report is not None
    assert (report.blocked, report.over, report.failed, world.rollups.marks) == ([], [], [], {})
    span = {"from": at(60), "to": at(240)}
    assert world.check([{**span, "by": "kind"}, {**span, "by": "series,kind", "step": "20m"}]) == 2
    definition = world.definitions["s"][0]
    rebuild(world, definition, START, START + timedelta(hours=1))


def test_listings_of_cells_and_events_show_the_same_values_and_names() -> None:
    world = roll_up(*make_events(), definitions=(TEXTS, BY_TEXT))
    # These events are in no sealed bucket.
    world.write(*(move(event) for event in make_events()))
    sealed = {"from": at(60), "to": at(240)}
    young = {"from": at(362), "to": at(364)}
    for what in ("kind", "place.state", "fields"):
        listed = [names_of(ask_listing(world, what, **span)) for span in (sealed, young)]
        assert listed[0] == listed[1]
    assert names_of(ask_listing(world, "fields", **sealed)) == sorted(
        ["kind", "mag", SHORT_NAME, "place", "x" * 200 + "…91e3faafd322bcdf160f3f0ce886acb0"]
    )
    assert set(names_of(ask_listing(world, "kind", **sealed))) == {"short", EDGE[:900], SHORT, SHORT_OTHER}
    # The longest prefix.
    assert len(names_of(ask_listing(world, "kind", prefix="x" * 480, **young))) == 3


def move(event: Event) -> Event:
    return Event(event.series, START + timedelta(minutes=362 + event.data["mag"] / 10), event.id, event.data)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 2_100, "x" * 2_100),
        ("x" * 2_101, "x" * 2_048 + "…5a616f3ce980d590d94eb6bd84c8016c"),
        ("😀" * 2_101, "😀" * 2_048 + "…83133315fd8bb6312e5dc6a813de5711"),
        ("x" * 2_048 + "…5a616f3ce980d590d94eb6bd84c8016c", "x" * 2_048 + "…5a616f3ce980d590d94eb6bd84c8016c"),
    ],
    ids=["longest", "longer", "of four bytes", "shortened before"],
)
def test_a_text_of_more_than_2100_characters_is_shortened_once(value: str, shown: str) -> None:
    assert make_group_value(value) == ("text", shown)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("n" * 255, "n" * 255),
        (NAME, SHORT_NAME),
        # 64 characters of four bytes; the 200 bytes that are kept are fifty of them.
        ("😀" * 63, "😀" * 63),
        ("😀" * 64, "😀" * 50 + "…ddcaf348bb60ef25aa1e14c087a16388"),
        # No character is cut in two.
        ("a" + "😀" * 64, "a" + "😀" * 49 + "…d0cbc02bece6edf253c528e46337981e"),
        (SHORT_NAME, SHORT_NAME),
    ],
)
def test_a_name_of_more_than_255_bytes_is_shortened_once(name: str, shown: str) -> None:
    assert shorten_name(name) == shown


def test_a_thousand_of_the_longest_names_with_all_kinds_fit_into_an_item() -> None:
    bucket = Bucket(MINUTES, DDSketches())
    for number, value in enumerate([None, 1, "t", True, list[int](), dict[str, int]()]):
        add_event(bucket, "a", f"{number}#a#1", {f"{name:04}".ljust(255, "n"): value for name in range(1_500)})
    names = bucket.make_events(START)[-1]
    assert len(names.data["names"]) == 1_000
    assert set(map(len, names.data["names"].values())) == {6}
    assert count_item_bytes({"pk": "*", "sk": "x" * 1_024, "data": names.data}) < 400_000


def test_a_bucket_whose_groups_have_too_many_characters_is_over_and_the_next_is_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten groups of 2,081 characters are fewer than 20,811, eleven are more; a short kind and series count, too."""
    monkeypatch.setattr("tidetable.rollup_model.cells.MAX_TEXTS", 20_819)
    world = World((replace(MINUTES, by=("kind",)),))
    world.refresh()
    world.sleep(3_600)
    world.write(*(reading(65 + n / 10, n, kind=f"{n}".ljust(3_000, "x")) for n in range(11)))
    world.write(*(reading(75 + n / 10, n, kind=f"{n}".ljust(3_000, "x")) for n in range(10)))
    world.sleep(3_600)
    report = world.refresh()
    assert report is not None
    assert report.over == ["s-m 2026-03-02T01:00:00.000000Z: the values of by have more than 20819 characters together"]
    assert (report.failed, report.blocked) == ([], [])
    assert world.rollups.read_state("s").edges[0].sealed == START + timedelta(minutes=110)
    assert world.check([{"by": "kind", "step": "10m", "from": at(60), "to": at(80)}]) == 1


def test_buckets_that_are_read_together_have_only_as_many_texts_as_memory_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each bucket has a group of 2,081 characters per series, so that two of five buckets are read in a pass."""
    for module in ("rollup_model.cells", "rollups.collect"):
        monkeypatch.setattr(f"tidetable.{module}.MAX_TEXTS", 9_000)
    world = make_noting_world(replace(BY_DAY, by=("kind",)))
    world.refresh()
    events = [
        reading(11 + 10 * n, n, f"s{k}", f"{n}{k}", kind=f"{n}{k}".ljust(3_000, "x")) for n in range(5) for k in "ab"
    ]
    world.write(*events)
    world.sleep(3_600 + 211)
    counted = CountedStore(world, world.entry("s", START).table)
    report = world.refresh()
    assert report is not None
    assert (report.sealed, report.over, report.blocked) == (5, [], [])
    # Passes over two series and two suffixes.
    assert counted.count == 3 * 2 * 2
    assert world.check([{"by": "kind", "step": "10m", "from": at(10), "to": at(60)}]) == 1


def test_answers_from_shortened_cells_are_those_of_rollups_false() -> None:
    world = roll_up(*make_events(), definitions=(TEXTS,))
    asked = {"from": at(60), "to": at(240), "by": "kind,place.state", "top": "2"}
    assert encode_json(world.ask(**asked).rows) == encode_json(world.ask(**asked, rollups="false").rows)
