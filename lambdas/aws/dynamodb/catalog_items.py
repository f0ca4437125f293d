"""The items of the catalog's table: periods, backfills, leases, policies and horizons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import astuple, replace

from tidetable.catalog import (
    ArchiveFacts,
    Backfill,
    CapacityFacts,
    CopyFacts,
    Entry,
    Opening,
    RecordedPolicy,
    SeenTable,
    State,
)
from tidetable.config import TableClass
from tidetable.errors import Outage, StoreUnavailable
from tidetable.events import Item
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import LONGEST, Kind, Period, parse_label
from tidetable.times import EPOCH, from_text, to_text
from tidetable.version import CATALOG_FORMAT, VERSION

# No entry's sort key is smaller: the first event is of 1970-01-01, and the week of that day begins on 1969-12-29.
_FIRST = to_text(EPOCH - LONGEST[Kind.WEEK])


def make_stream_key(stream: str) -> str:
    """Make the partition key of a stream's periods."""
    return f"stream#{stream}"


def make_period_key(stream: str, period: Period) -> Item:
    """Make the primary key of a period's entry."""
    return {"pk": make_stream_key(stream), "sk": f"{to_text(period.start)}#{period.label}"}


def bound_entries(start: datetime | None, end: datetime | None) -> tuple[str, str, str]:
    """Three sort keys for the entries of ``[start, end]``: the stream's first, the range's first, and the range's last.

    Before the range, only the last entry can overlap it, because periods never overlap each other.
    """
    # "~" sorts after every label, so a period that begins at ``end`` is found.
    high = (to_text(end) if end is not None else "9999") + "~"
    # DynamoDB refuses a range of keys that ends before it begins.
    return _FIRST, to_text(max(start, EPOCH)) if start is not None else "", max(high, to_text(EPOCH))


def bound_entries_before(end: datetime | None) -> str:
    """Compute the exclusive upper bound for the sort keys of all periods that begin before ``end``."""
    return max(to_text(end), _FIRST) if end is not None else "~"


def make_lease_item(name: str) -> Item:
    return {"pk": f"lease#{name}", "sk": "lease"}


SECRET_KEY = {"pk": "secret#cursors", "sk": "secret"}
# This item exists after the first complete deployment of the stage. It has the format of the last complete deployment.
DEPLOYED_KEY = {"pk": "stage#standing", "sk": "standing"}


def read_secret(items: Iterable[Item]) -> bytes:
    """Read the secret from the items under its partition key; StoreUnavailable if there is no secret."""
    for item in items:
        return bytes.fromhex(item["secret"])
    raise StoreUnavailable(Outage.NO_SECRET, "the lifecycle has not made the secret that seals cursors, yet")


def make_horizon_item(stream: str) -> Item:
    return {"pk": f"horizon#{stream}", "sk": "horizon"}


def make_attributes(entry: Entry) -> Item:
    layout = entry.layout
    item: Item = {
        "stream": entry.stream,
        "label": entry.period.label,
        "table": entry.table,
        "state": entry.state.value,
        "format": CATALOG_FORMAT,
        "created_at": to_text(entry.created_at),
        "layout": {
            "partition_by": layout.partition_by,
            "shards": layout.shards,
            "shard_by": layout.shard_by,
            "bucket": layout.bucket,
            "indexes": [_make_index_value(index) for index in layout.indexes],
            "versioned": layout.versioned,
            "parts": layout.parts,
        },
    }
    if layout.pack is not None:
        item["layout"]["pack"] = list(layout.pack)
    if layout.shard_until:
        item["layout"]["shard_until"] = layout.shard_until
    if entry.archive is not None:
        facts = entry.archive
        item["archive"] = {"manifest": facts.manifest, "events": facts.events, "bytes": facts.bytes}
        item["archive"] |= _name_times(at=facts.at, expired_at=facts.expired_at)
        if facts.untyped:
            item["archive"]["untyped"] = dict(facts.untyped)
    item |= _name_times(deleted_at=entry.deleted_at, keep_until=entry.keep_until)
    if entry.opened is not None:
        item["opened"] = make_opened_item(entry.opened)
    regions = {"copies": entry.copies.active, "replicas": entry.copies.replicas}
    item |= {name: list(named) for name, named in regions.items() if named}
    if entry.copies.begun is not None:
        region, begun_at = entry.copies.begun
        item["copying"] = [region, to_text(begun_at)]
    return item


def _name_times(**times: datetime | None) -> Item:
    """Return the times that are not None, as attributes."""
    return {name: to_text(time) for name, time in times.items() if time is not None}


def _read_time(item: Mapping[str, Any], name: str) -> datetime | None:
    return from_text(item[name]) if name in item else None


def refuse_newer(name: str, item: Item) -> None:
    """StoreUnavailable if newer code wrote the item ``name``, in a format that this code might misread."""
    if (written := int(item.get("format", CATALOG_FORMAT))) > CATALOG_FORMAT:
        raise StoreUnavailable(
            Outage.NEWER,
            f"{name} has format {written}, and Tidetable {VERSION} reads format {CATALOG_FORMAT}: a newer version runs this "
            "stage, so deploy that version or a later one",
        )


def refuse_newer_entry(item: Item) -> None:
    refuse_newer(f"the catalog's entry of {item['stream']} {item['label']}", item)


def read_entry(item: Item) -> Entry:
    """Read a period's entry; StoreUnavailable if newer code wrote it, because this code might misread it."""
    refuse_newer_entry(item)
    return Entry(
        stream=item["stream"],
        period=parse_label(item["label"]),
        table=item["table"],
        layout=_read_layout(item["layout"]),
        state=State(item["state"]),
        created_at=from_text(item["created_at"]),
        archive=_read_archive(item["archive"]) if "archive" in item else None,
        deleted_at=_read_time(item, "deleted_at"),
        keep_until=_read_time(item, "keep_until"),
        opened=_read_opened(item["opened"]) if "opened" in item else None,
        capacity=CapacityFacts(
            _read_seen(item["seen"]) if "seen" in item else None, item.get("scaled", False), item.get("scaling", "")
        ),
        copies=CopyFacts(
            replicas=_read_regions(item.get("replicas")),
            active=_read_regions(item.get("copies")),
            begun=(item["copying"][0], from_text(item["copying"][1])) if "copying" in item else None,
        ),
    )


def _read_archive(item: Mapping[str, Any]) -> ArchiveFacts:
    sizes, verified = (int(item["events"]), int(item["bytes"])), from_text(item["at"])
    untyped = {name: int(count) for name, count in item.get("untyped", {}).items()}
    return ArchiveFacts(item["manifest"], *sizes, verified, _read_time(item, "expired_at"), untyped)


def _read_regions(value: Any) -> tuple[str, ...]:
    """Read the Regions that a value lists; empty if the value is not a list, so that no unknown copy is read."""
    return tuple(region for region in value if isinstance(region, str)) if isinstance(value, list) else ()


def _read_layout(item: Mapping[str, Any]) -> Layout:
    return Layout(
        partition_by=item["partition_by"],
        shards=int(item["shards"]),
        shard_by=item["shard_by"],
        bucket=int(item["bucket"]),
        indexes=tuple(_read_index(members) for members in item.get("indexes", ())),
        versioned=item.get("versioned", False),
        parts=item.get("parts", False),
        pack=Packing(*map(int, item["pack"])) if item.get("pack") else None,
        shard_until=item.get("shard_until", ""),
    )


# The members of an index that every release can read. An older release knows neither levels nor local indexes, but it
# can still read the other indexes.
_COMMON_MEMBERS = 8


def _make_index_value(index: Index) -> list[Any]:
    members = [list(member) if isinstance(member, tuple) else member for member in astuple(index)]
    return members if index.levels or index.local else members[:_COMMON_MEMBERS]


def _read_index(members: Sequence[Any]) -> Index:
    """Read an index that ``_make_index_value`` wrote. Older releases, which sorted by time only, wrote fewer members."""
    index = Index(*members)
    project = None if index.project is None else tuple(index.project)
    kinds = tuple((value, by) for value, by in index.kinds)
    return replace(index, shards=int(index.shards), project=project, kinds=kinds, levels=tuple(index.levels))


def make_backfill_key(backfill: Backfill) -> Item:
    return {"pk": f"backfill#{backfill.stream}", "sk": f"{to_text(backfill.start)}#{to_text(backfill.end)}"}


def read_backfill(item: Item) -> Backfill:
    start, end = item["sk"].split("#")
    stream = item["pk"].removeprefix("backfill#")
    return Backfill(stream, from_text(start), from_text(end), _read_opened(item["opened"]))


# The policies of all streams are one partition, so that one Query finds the removed streams.
POLICIES = "policies"


def make_policy_item(recorded: RecordedPolicy) -> Item:
    return {"pk": POLICIES, "sk": recorded.stream, "policy": recorded.policy, **_name_times(removed=recorded.removed)}


def read_policy(item: Item) -> RecordedPolicy:
    return RecordedPolicy(item["sk"], item["policy"], _read_time(item, "removed"))


def make_opened_item(opened: Opening) -> Item:
    return {"until": to_text(opened.until), "write": opened.write, "read": opened.read}


def _read_opened(item: Mapping[str, Any]) -> Opening:
    write, read = (None if item[name] is None else int(item[name]) for name in ("write", "read"))
    return Opening(from_text(item["until"]), write, read)


def make_seen_item(seen: SeenTable) -> Item:
    units = {"write": seen.write, "read": seen.read, "class": seen.table_class.value}
    item: Item = units | {"indexes": [[name, *units] for name, units in seen.indexes]}
    return item | {"changing": True} if seen.changing else item


def _read_seen(item: Mapping[str, Any]) -> SeenTable:
    write, read = (None if item[name] is None else int(item[name]) for name in ("write", "read"))
    indexes = tuple((name, (int(wr), int(rd))) for name, wr, rd in item.get("indexes", ()))
    return SeenTable(write, read, TableClass(item["class"]), indexes, item.get("changing", False))
