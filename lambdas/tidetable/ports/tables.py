"""DynamoDB's control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from tidetable.catalog import SeenTable
from tidetable.config import Autoscaling, TableClass
from tidetable.layout import Index


class TableSpec(msgspec.Struct, frozen=True):
    """A table to create. Units are None for on-demand tables; ``find_index_units`` returns the units of an index.

    ``warm`` and ``most`` are write and read units: the throughput for which the table must be ready, and the maxima of
    an on-demand table. ``encryption`` is "aws-owned", "aws-managed" or a key's ARN. ``stream`` says which images the
    change stream shows, or "none". A table that is not ``sorted`` has only a partition key. A table that will be
    ``copied`` into other Regions has the change stream that copies need.
    """

    name: str
    write: int | None
    read: int | None
    table_class: TableClass
    tags: Mapping[str, str]
    indexes: Sequence[Index] = ()
    protected: bool = False
    index_units: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    warm: tuple[int, int] | None = None
    most: tuple[int, int] | None = None
    encryption: str = "aws-owned"
    stream: str = "none"
    sorted: bool = True
    copied: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table as DynamoDB describes it. ``status`` is DynamoDB's word; size and count are up to six hours old.

    ``index_units`` are the provisioned write and read units of each index by name; empty for an on-demand table.
    ``index_sizes`` are the items and bytes of each index. ``decreases_today`` and ``last_decrease`` belong to the
    table, or to the index that has the most decreases. ``most`` and ``index_most`` are an on-demand table's maxima of
    write and read units, None if it has none. ``shows_maxima`` is False if the maxima are unknown: the table was not
    described, or the engine does not have maxima. ``stream_arn`` names its change stream; ``has_images`` says that the
    stream's records show new images. ``copies`` are its copies in other Regions, with DynamoDB's word for the state of
    each copy.
    """

    name: str
    status: str
    write: int | None
    read: int | None
    table_class: TableClass
    decreases_today: int = 0
    last_decrease: datetime | None = None
    size_bytes: int = 0
    item_count: int = 0
    index_units: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    protected: bool = False
    index_sizes: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    created: datetime | None = None
    most: tuple[int, int] | None = None
    index_most: Mapping[str, tuple[int, int] | None] = msgspec.field(default_factory=dict)
    shows_maxima: bool = True
    stream_arn: str = ""
    has_images: bool = False
    copies: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def on_demand(self) -> bool:
        return self.write is None

    @property
    def index_bytes(self) -> int:
        """The bytes of all indexes. DynamoDB counts them apart from the table's own bytes."""
        return sum(size for _, size in self.index_sizes.values())

    @property
    def seen(self) -> SeenTable | None:
        """The facts of the table that the catalog records; None while the table changes."""
        if self.status != "ACTIVE":
            return None
        return SeenTable(self.write, self.read, self.table_class, tuple(sorted(self.index_units.items())))


class Tables(Protocol):
    """DynamoDB's control plane. Each call changes one setting of one table, because UpdateTable takes only one."""

    def describe(self, name: str) -> Table | None:
        """Describe the table as it is now; None if there is no such table."""

    def tags(self, name: str) -> Mapping[str, str]:
        """Read the table's tags; TableMissing if there is no such table."""

    def create(self, spec: TableSpec) -> bool:
        """Ask for a table; False if a table of this name exists already. Does not wait."""

    def set_capacity(
        self,
        name: str,
        write: int | None,
        read: int | None,
        *,
        itself: bool = True,
        indexes: Mapping[str, tuple[int, int]] | None = None,
        most: tuple[int, int] | None = None,
    ) -> None:
        """Set provisioned units, or on-demand billing if both are None. Does not wait.

        ``itself`` is False if the table has these units already: DynamoDB refuses a change without effect. ``indexes``
        are the indexes that change, with their new units. ``most`` are the maxima of a table that becomes on-demand.
        """

    def set_maxima(self, name: str, most: tuple[int, int] | None, indexes: Sequence[str]) -> None:
        """Set the maxima of an on-demand table and of each of these indexes; None removes them. Does not wait."""

    def set_class(self, name: str, table_class: TableClass) -> None:
        """Set the table class. Does not wait."""

    def set_stream(self, name: str, shows: str) -> None:
        """Turn a table's change stream on; ``shows`` has the values of TableSpec's ``stream``. Does not wait."""

    def create_copy(self, name: str, region: str) -> None:
        """Ask for a copy in another Region; CopyRefused if that Region has a table of this name. Does not wait."""

    def delete_copy(self, name: str, region: str) -> None:
        """Ask for the deletion of a copy; nothing happens if it does not exist. Does not wait."""

    def tag_copy(self, name: str, region: str, tags: Mapping[str, str]) -> None:
        """Add these tags to the copy in a Region; NotReady if the Region does not know the copy yet."""

    def set_protection(self, name: str, protected: bool) -> None:
        """Set deletion protection. Does not wait."""

    def enable_recovery(self, name: str) -> None:
        """Turn point-in-time recovery on; nothing happens if it is on."""

    def delete(self, name: str) -> None:
        """Ask for the table's deletion; nothing happens if the table does not exist. Does not wait."""


class Scaling(Protocol):
    """Application Auto Scaling. Both calls may be repeated."""

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        """Let the units of a table and its indexes follow the traffic."""

    def deregister(self, table: str, indexes: Sequence[str], regions: Sequence[str] = ()) -> None:
        """Stop changing the units, also in these other Regions; nothing happens if the scaling has ended already."""
