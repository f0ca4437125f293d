"""The items of the catalog's table: periods, backfills, leases, policies and horizons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, astuple

from tidetable.catalog import (
    ArchiveFacts,
    Backfill,
    CapacityFacts,
    CopyFacts,
    Entry,
    Horizon,
    Opening,
    RecordedPolicy,
    SeenTable,
    State,
)
from tidetable.config import TableClass
from tidetable.errors import Outage, StoreUnavailable
from tidetable.events import Item
from tidetable.layout import Index, Layout
from tidetable.periods import LONGEST, Kind, Period, parse_label
from tidetable.segmentation import Segmentation, SegmentMarks
from tidetable.times import EPOCH, from_text, to_text
from tidetable.version import CATALOG_FORMAT, VERSION

_Facts = TypeVar("_Facts", bound=msgspec.Struct)
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


# The horizons of all streams, with the far periods, are one partition, and so are all backfills: a run of the lifecycle
# reads each by one Query.
HORIZONS, BACKFILLS = "horizons", "backfills"


def make_horizon_item(stream: str) -> Item:
    return {"pk": HORIZONS, "sk": stream}


def make_far_key(stream: str, period: Period) -> Item:
    """Make the primary key of the record of a far period. It sorts behind its stream's horizon."""
    return {"pk": HORIZONS, "sk": f"{stream}#{to_text(period.start)}#{period.label}"}


def make_far_item(stream: str, period: Period) -> Item:
    """Make the record of a far period. Versions that know no far periods read ``at`` of each item beside the horizons."""
    return make_far_key(stream, period) | {"at": to_text(period.start)}


def read_horizons(items: Iterable[Item]) -> dict[str, Horizon]:
    """Read the horizons of streams from the items of their partition."""
    horizons: dict[str, Horizon] = {}
    for item in items:
        stream, *far = item["sk"].split("#")
        known = horizons.get(stream, Horizon())
        if far:
            horizons[stream] = known._replace(far=(*known.far, parse_label(far[1])))
        else:
            horizons[stream] = known._replace(at=from_text(item["at"]))
    return horizons


def make_attributes(entry: Entry) -> Item:
    """Make the attributes of a period's entry. What is not known has no attribute."""
    copies, archive, opened = entry.copies, entry.archive, entry.opened
    item: Item = {
        "stream": entry.stream,
        "label": entry.period.label,
        "table": entry.table,
        "state": entry.state.value,
        "format": CATALOG_FORMAT,
        "created_at": to_text(entry.created_at),
        "layout": _write_facts(entry.layout) | {"indexes": list(map(_make_index_value, entry.layout.indexes))},
        "archive": None if archive is None else _write_facts(archive),
        "segments": None if entry.segments is None else _write_facts(entry.segments),
        "marked": set(map(str, entry.marks.numbers)) or None,
        "marks": entry.marks.writes or None,
        "opened": None if opened is None else make_opened_item(opened),
        "copies": list(copies.active) or None,
        "replicas": list(copies.replicas) or None,
        "copying": None if copies.begun is None else [copies.begun[0], to_text(copies.begun[1])],
    }
    known = {name: value for name, value in item.items() if value is not None}
    return known | _name_times(deleted_at=entry.deleted_at, keep_until=entry.keep_until)


def _write_facts(facts: msgspec.Struct) -> Item:
    """Write the members of a struct, except for empty members and members that are None."""
    members = {name: value for name, value in asdict(facts).items() if value not in (None, "", {}, ())}
    return {name: to_text(value) if isinstance(value, datetime) else value for name, value in members.items()}


def _read_facts(item: Mapping[str, Any], kind: type[_Facts]) -> _Facts:
    """Read a struct that ``_write_facts`` wrote. A member that the item lacks has its default."""
    return msgspec.convert(_count(item), kind)


def _count(value: Any) -> Any:
    """Return the value with whole numbers in place of Decimals."""
    if isinstance(value, Mapping):
        return {name: _count(member) for name, member in value.items()}
    if isinstance(value, list):
        return list(map(_count, value))
    return int(value) if isinstance(value, Decimal) else value


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
        archive=_read_facts(item["archive"], ArchiveFacts) if "archive" in item else None,
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
        segments=_read_facts(item["segments"], Segmentation) if "segments" in item else None,
        marks=SegmentMarks(tuple(sorted(map(int, item.get("marked", ())))), int(item.get("marks", 0))),
    )


def _read_regions(value: Any) -> tuple[str, ...]:
    """Read the Regions that a value lists; empty if the value is not a list, so that no unknown copy is read."""
    return tuple(region for region in value if isinstance(region, str)) if isinstance(value, list) else ()


def _read_layout(item: Mapping[str, Any]) -> Layout:
    """Read a layout. Older releases, which sorted indexes by time only, wrote fewer members of an index."""
    names = Index.__struct_fields__
    indexes = [dict(zip(names, members, strict=False)) for members in item.get("indexes", ())]
    return _read_facts({**item, "indexes": indexes}, Layout)


# The members of an index that every release can read. An older release knows neither levels nor local indexes, but it
# can still read the other indexes.
_COMMON_MEMBERS = 8


def _make_index_value(index: Index) -> list[Any]:
    members = [list(member) if isinstance(member, tuple) else member for member in astuple(index)]
    return members if index.levels or index.local else members[:_COMMON_MEMBERS]


def make_backfill_key(backfill: Backfill) -> Item:
    return {"pk": BACKFILLS, "sk": f"{backfill.stream}#{to_text(backfill.start)}#{to_text(backfill.end)}"}


def read_backfill(item: Item) -> Backfill:
    stream, start, end = item["sk"].split("#")
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
