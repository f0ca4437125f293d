"""Where a policy changes its remedy: the very sizes, of compressors whose output has a known size."""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes import FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.noise import noise
from tests.worlds.large import make_entry
from tidetable.config.model import Stream
from tidetable.config.stream import Beyond, KeyPolicy, LargePolicy
from tidetable.durations import Duration
from tidetable.errors import ValueMissing
from tidetable.events import Event, Item
from tidetable.exact_json import encode_json
from tidetable.large.forms import make_blob_prefix, make_chunk_key, split_payload
from tidetable.large.shrink import Shrinker, find_unshrunk_bytes
from tidetable.large.unpack import is_partial
from tidetable.layout import Index, Key, Layout
from tidetable.periods import Kind
from tidetable.ports import Blob, Compressor, Put
from tidetable.query.model import Cost
from tidetable.values import count_item_bytes
from tidetable.versions.writing import make_first_version

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "tidetable-t.s.2026-03-01"
PLAIN = Layout("time", 4, "id", 21_600)
COPIES = (Index("copy", "*", project=("text",)),)


class Doubling:
    """A compressor that makes everything larger."""

    def compress(self, data: bytes) -> bytes:
        return data + data

    def expand(self, data: bytes) -> bytes:
        return data[: len(data) // 2]


def item_of(layout: Layout, data: dict[str, Any]) -> Item:
    item = layout.make_item(Event("a", TIME, "id", data), at=7)
    return make_first_version(item, data) if layout.versioned else item


def pack(
    item: Item, layout: Layout, above: int | None, beyond: str, compressor: Compressor | None = None
) -> Put | None:
    numbers = count()
    shrinker = Shrinker(above, beyond, (), compressor or Zstd(), lambda: str(next(numbers)))
    return shrinker.shrink_item(item, make_entry(layout))


def sized(layout: Layout, size: int, *, without_data: bool = False) -> Item:
    """An item of so many bytes in all, or without its data; its data is one text."""

    def measure(length: int) -> int:
        item = item_of(layout, {"text": "x" * length})
        return count_item_bytes(
            {name: value for name, value in item.items() if name != "data"} if without_data else item
        )

    # A text of some length has as many bytes in each of its copies.
    each = measure(2_001) - measure(2_000)
    length = 2_000 + (size - measure(2_000)) // each
    assert measure(length) == size
    return item_of(layout, {"text": "x" * length})


def choose_form(put: Put | None) -> str:
    """How a put keeps its data: data, z, chunks or s3; refused if there is none."""
    if put is None:
        return "refused"
    if "out" in put.item:
        return "chunks" if "v" in put.item["out"] else "s3"
    return "z" if "z" in put.item else "data"


@pytest.mark.parametrize(("length", "form"), [(2_500_000, "z"), (2_500_001, "refused")])
def test_an_event_has_2_500_000_bytes_of_json_at_the_most(length: int, form: str) -> None:
    item = item_of(PLAIN, {"text": "x" * (length - 11)})
    assert len(encode_json(item["data"])) == length
    assert choose_form(pack(item, PLAIN, None, "s3")) == form


@pytest.mark.parametrize(("length", "form"), [(2_048, "data"), (2_049, "z")])
def test_json_of_exactly_compress_above_stays_as_it_is(length: int, form: str) -> None:
    item = item_of(PLAIN, {"text": "x" * (length - 11)})
    assert choose_form(pack(item, PLAIN, 2_048, "refuse")) == form


def test_an_item_below_compress_above_stays_though_its_json_is_longer() -> None:
    """DynamoDB keeps a number of 37 digits in 20 bytes, and JSON takes 37."""
    item = item_of(PLAIN, {"numbers": [int("1234567" * 5 + "89")] * 100})
    assert count_item_bytes(item) < 3_000 < 3_700 < len(encode_json(item["data"]))
    assert choose_form(pack(item, PLAIN, 3_000, "refuse")) == "data"


@pytest.mark.parametrize(("size", "form"), [(100_000, "data"), (100_001, "s3")])
def test_a_version_of_100_000_bytes_stays_in_its_item(size: int, form: str) -> None:
    layout = Layout("series", 2, "id", versioned=True)
    assert choose_form(pack(sized(layout, size), layout, None, "refuse", Doubling())) == form


# An item has 409,600 bytes, and a version may gain 1,024.
@pytest.mark.parametrize(("size", "form"), [(408_576, "s3"), (408_577, "refused")])
def test_a_version_that_may_grow_out_of_an_item_is_refused_where_the_policy_says_so(size: int, form: str) -> None:
    layout = Layout("series", 2, "id", versioned=True)
    assert choose_form(pack(sized(layout, size), layout, None, "refuse", Doubling())) == form


@pytest.mark.parametrize("beyond", ["s3", "chunks"])
def test_a_large_version_goes_where_the_policy_says_and_one_beyond_an_item_nowhere_without_a_policy(
    beyond: str,
) -> None:
    """AWS: an item has 409,600 bytes."""
    layout = Layout("series", 2, "id", versioned=True, parts=True)
    assert choose_form(pack(sized(layout, 150_000), layout, None, beyond, Doubling())) == beyond
    assert choose_form(pack(sized(layout, 409_601), layout, None, "refuse")) == "refused"


@pytest.mark.parametrize("parts", [False, True])
def test_a_version_that_fits_an_item_once_it_is_compressed_is_not_refused(parts: bool) -> None:
    layout = Layout("series", 2, "id", versioned=True, parts=parts)
    item = item_of(layout, {"text": noise(250_000) + "x" * 300_000})
    assert count_item_bytes(item) > 409_600
    assert choose_form(pack(item, layout, 1_024, "refuse")) == ("chunks" if parts else "s3")


@pytest.mark.parametrize(
    ("layout", "bare"),
    [
        (Layout("time", 4, "id", 21_600, COPIES), 408_576),
        (Layout("series", 2, "id", 0, COPIES, versioned=True), 158_976),
    ],
)
def test_an_item_whose_copies_for_indexes_leave_no_unit_free_is_refused(layout: Layout, bare: int) -> None:
    for more, form in ((0, "s3"), (1, "refused")):
        item = sized(layout, bare + more, without_data=True)
        assert choose_form(pack(item, layout, None, "s3", Doubling())) == form


@pytest.mark.parametrize(
    ("above", "beyond", "cold", "shrinks", "plain"),
    [
        (None, "refuse", (), False, 408_576),
        (None, "s3", (), True, 408_576),
        (5_000, "refuse", (), True, 5_000),
        (None, "refuse", ("raw",), True, -1),
        (5_000, "chunks", ("raw",), True, -1),
    ],
)
def test_a_policy_says_whether_it_shrinks_events_and_which_items_stay_as_they_are(
    above: int | None, beyond: Beyond, cold: tuple[str, ...], shrinks: bool, plain: int
) -> None:
    large = LargePolicy(compress_above=above, beyond=beyond)
    key, hour = KeyPolicy(partition_by="series"), Duration(hours=1)
    stream = Stream(period=Kind.DAY, late=hour, retention=1, key=key, cold=cold, large=large)
    assert (stream.shrinks, find_unshrunk_bytes(stream)) == (shrinks, plain)


def test_a_chunk_has_the_key_of_its_event_and_all_versions_of_an_event_have_one() -> None:
    place = "2026-03-01T12:00:00.000000Z#id"
    assert make_chunk_key(Key("a#0", place), "ab", 3) == f"a#0#{place}#ab#3"
    assert make_chunk_key(Key("a#0", f"v2#{place}"), "ab", 3) == f"a#0#{place}#ab#3"


def test_the_prefix_of_a_period_is_not_that_of_a_longer_label() -> None:
    assert make_blob_prefix("s", "2026-03") == "large/stream=s/period=2026-03/"
    assert make_blob_prefix("s") == "large/stream=s/"


def test_data_that_is_missing_is_named_by_the_number_of_its_item_in_every_group() -> None:
    """Each of these is a group of its own, as each has 10 MB."""
    items: list[Item] = [{"pk": "a#0", "sk": str(n), "out": {"o": str(n), "b": 10_000_000}} for n in range(3)]
    wholes = unpacker(FakeStore(FakeCatalog()), FakeValues()).complete_items(items, TABLE, cold=False)
    assert sorted(wholes.missing) == [0, 1, 2]


def test_a_chunk_has_390_000_bytes() -> None:
    """AWS: an item has 400 KB at the most, and each chunk is a request."""
    assert [len(chunk) for chunk in split_payload(b"x" * 780_001)] == [390_000, 390_000, 1]


@pytest.mark.parametrize(("beyond", "chunks"), [("s3", 1), ("chunks", 3)])
def test_cold_fields_have_their_chunk_wherever_the_other_data_goes(beyond: str, chunks: int) -> None:
    layout = Layout("series", 2, "id", parts=True)
    item = item_of(layout, {"raw": noise(500), "text": noise(900_000)})
    put = Shrinker(None, beyond, ("raw",), Zstd(), lambda: "1").shrink_item(item, make_entry(layout))
    assert put is not None
    assert choose_form(put) == beyond
    parts = [part for part in put.outside if isinstance(part, Put)]
    assert (put.item["cold"]["n"], parts == list(put.outside)) == (1, beyond == "chunks")
    keys = [part.item["pk"] for part in parts]
    assert f"{item['pk']}#{item['sk']}#{put.item['cold']['v']}#0" in keys
    assert len(keys) == chunks
    assert {part.table for part in parts} == {f"{TABLE}.parts"}


def test_a_chunk_that_is_not_there_counts_as_nothing_read() -> None:
    """Of each chunk that is there, its key and its bytes: "pk", the key, "b" and the body."""
    store = FakeStore(FakeCatalog())
    store.tables[f"{TABLE}.parts"] = {Key("a#0#1#v#1", ""): {"pk": "a#0#1#v#1", "b": b"12345"}}
    item: Item = {"pk": "a#0", "sk": "1", "out": {"v": "v", "n": 2, "b": 9}}
    wholes = unpacker(store, FakeValues()).complete_items([item], TABLE, cold=False)
    assert (list(wholes.missing), list(wholes.chunks)) == ([0], [0, 17])


def test_searched_data_is_fetched_only_if_an_item_lacks_it_and_lost_items_are_named() -> None:
    """A cold field is not searched. Of the chunks of "gone", one exists: two chunks are one request."""
    store, lost, costs = FakeStore(FakeCatalog()), list[str](), Cost()
    plain: Item = {"pk": "a#0", "sk": "plain", "data": {"n": 1}, "cold": {"v": "w", "n": 1, "b": 9}}
    gone: Item = {"pk": "a#0", "sk": "gone", "out": {"v": "v", "n": 2, "b": 9}}
    small: Item = {"pk": "a#0", "sk": "small", "z": Zstd().compress(b'{"n":3}')}
    whole = unpacker(store, FakeValues())

    def search(*items: Item) -> list[Any]:
        return [
            item["data"] for item in whole.complete_searched(items, TABLE, lambda item: lost.append(item["sk"]), costs)
        ]

    assert search(plain) == [{"n": 1}]
    assert (lost, costs.requests, costs.units) == ([], 0, 0.0)
    store.tables[f"{TABLE}.parts"] = {Key("a#0#gone#v#1", ""): {"pk": "a#0#gone#v#1", "b": b"12345"}}
    assert search(plain, gone, small) == [{"n": 1}, {}, {"n": 3}]
    assert (lost, costs.requests, costs.units) == (["gone"], 1, 2.0)


@pytest.mark.parametrize(
    ("form", "lacks", "lacks_all"),
    [("data", False, False), ("z", True, True), ("out", True, True), ("cold", False, True)],
)
def test_an_item_lacks_data_by_its_form_and_a_cold_field_only_if_it_is_asked_for(
    form: str, lacks: bool, lacks_all: bool
) -> None:
    item: Item = {"pk": "a#0", "sk": "1", form: {}}
    assert (is_partial(item, cold=False), is_partial(item, cold=True)) == (lacks, lacks_all)


def test_an_item_with_damaged_data_is_kept_until_it_is_completed() -> None:
    whole = unpacker(FakeStore(FakeCatalog()), FakeValues())
    item: Item = {"pk": "a#0", "sk": "1", "at": 7, "z": Zstd().compress(b'{"n":1}')}
    assert whole.inflate_or_keep(item) == {"pk": "a#0", "sk": "1", "at": 7, "data": {"n": 1}}
    for damaged in (b"no frame", Zstd().compress(b"no JSON")):
        item = {**item, "z": damaged}
        assert whole.inflate_or_keep(item) == item
        wholes = whole.complete_items([item], TABLE, cold=False)
        assert wholes.missing == {0: "the data of a#0, 1 is damaged"}
        assert wholes.items[0]["data"] == {}


def test_compressed_data_with_one_changed_byte_is_refused() -> None:
    """Text that does not become smaller is in the frame as it is: only the checksum shows the change."""
    body = Zstd().compress(noise(20_000).encode())
    middle = len(body) // 2
    with pytest.raises(ValueError, match="checksum"):
        Zstd().expand(bytes([*body[:middle], body[middle] ^ 1, *body[middle + 1 :]]))
    for damaged in (b"", b"no frame", body[:-1]):
        with pytest.raises(ValueError, match=r"."):
            Zstd().expand(damaged)


@pytest.mark.parametrize(
    ("parts", "archived", "form"),
    [(False, "chunks", "s3"), (True, "chunks", "chunks"), (True, "s3", "s3"), (False, "s3", "s3")],
)
def test_an_archives_chunks_are_restored_to_s3_where_the_table_has_no_table_of_chunks(
    parts: bool, archived: str, form: str
) -> None:
    shrinker = Shrinker(None, "refuse", (), Zstd(), lambda: "1")
    layout = Layout("time", 4, "id", 21_600, parts=parts)
    item = {**item_of(layout, {"text": "x"}), "packed": {"data": archived}}
    assert choose_form(shrinker.shrink_archived_item(item, make_entry(layout))) == form


def test_an_item_without_a_note_of_its_packing_is_restored_as_it_is() -> None:
    shrinker = Shrinker(1, "s3", (), Zstd(), lambda: "1")
    item = item_of(PLAIN, {"text": "x" * 5_000})
    put = shrinker.shrink_archived_item({**item, "packed": {}}, make_entry(PLAIN))
    assert put == Put(TABLE, item)


def test_the_archive_notes_how_data_was_stored_and_refuses_data_of_another_length() -> None:
    store, values, text = FakeStore(FakeCatalog()), FakeValues(), encode_json({"n": 1})
    values.put(Blob("o", Zstd().compress(text), Key("a#0", "1")))
    whole = unpacker(store, values)
    item: Item = {"pk": "a#0", "sk": "1", "out": {"o": "o", "b": len(text)}}
    assert whole.complete_for_archive([item], TABLE) == [
        {"pk": "a#0", "sk": "1", "data": {"n": 1}, "packed": {"data": "s3"}}
    ]
    item = {**item, "out": {"o": "o", "b": len(text) - 1}}
    with pytest.raises(ValueMissing, match="the data of a#0, 1 is damaged: another length"):
        whole.complete_for_archive([item], TABLE)


def test_every_group_of_items_is_archived_and_its_chunks_are_counted() -> None:
    """Each event has 2.5 MB of JSON, so six of the eight are the first group."""
    store, text = FakeStore(FakeCatalog()), encode_json({"text": "x" * 2_499_989})
    body, parts = Zstd().compress(text), store.tables.setdefault(f"{TABLE}.parts", {})
    for number in range(8):
        parts[Key(f"a#0#{number}#v#0", "")] = {"pk": f"a#0#{number}#v#0", "b": body}
    items: list[Item] = [{"pk": "a#0", "sk": str(n), "out": {"v": "v", "n": 1, "b": len(text)}} for n in range(8)]
    whole = unpacker(store, FakeValues())
    assert [item["sk"] for item in whole.complete_for_archive(items, TABLE)] == list("01234567")
    # The bytes of a chunk's item: "pk", the key, "b" and the body.
    assert list(whole.complete_items(items, TABLE, cold=False).chunks) == [2 + len("a#0#0#v#0") + 1 + len(body)] * 8
