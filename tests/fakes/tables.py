"""DynamoDB's control plane in memory: changes take time, and a changing table refuses further changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.fakes.clock import FakeClock
from tests.fakes.held_table import HeldTable
from tests.fakes.store import FakeStore
from tidetable.config import TableClass
from tidetable.errors import NotReady, TableMissing, TableRefused
from tidetable.ports import Table, TableSpec

_BUSY = timedelta(seconds=3)


@dataclass
class _TableState:
    table: Table
    tags: Mapping[str, str]
    until: datetime
    # The table after the change. Until the change ends, ``table`` with its old figures is shown.
    then: Table


class FakeTables:
    """DynamoDB's tables. Tables in ``fails`` are never created; tables in ``unseen`` cannot be described."""

    def __init__(self, clock: FakeClock, store: FakeStore) -> None:
        self._clock = clock
        self._store = store
        self._states: dict[str, _TableState] = {}
        self.copy_tags: dict[tuple[str, str], dict[str, str]] = {}
        self.fails: set[str] = set()
        self.unseen: set[str] = set()
        self.changes: list[str] = []
        self.recoverable: set[str] = set()

    @property
    def names(self) -> set[str]:
        return {name for name in list(self._states) if self.describe(name) is not None}

    def describe(self, name: str) -> Table | None:
        if name in self.unseen:
            raise ConnectionError("no answer")
        state = self._states.get(name)
        if state is None:
            return None
        if self._clock.now() >= state.until and state.table.status != "ACTIVE":
            if state.table.status == "DELETING":
                del self._states[name]
                self._store.tables.pop(name, None)
                return None
            state.table = state.then
        return state.table

    def tags(self, name: str) -> Mapping[str, str]:
        return self._get(name).tags

    def create(self, spec: TableSpec) -> bool:
        if self.describe(spec.name) is not None:
            return False
        if spec.name in self.fails:
            raise TableRefused("LimitExceededException: the account's table limit is reached", transient=False)
        self.changes.append(f"create {spec.name}")
        own = (spec.write or 0, spec.read or 0)
        units = (
            {index.name: spec.index_units.get(index.name, own) for index in spec.indexes if not index.local}
            if spec.write is not None
            else {}
        )
        table = Table(
            spec.name,
            "CREATING",
            spec.write,
            spec.read,
            spec.table_class,
            index_units=units,
            protected=spec.protected,
            created=self._clock.now(),
            most=spec.most,
            index_most={index.name: spec.most for index in spec.indexes if not index.local},
            **self._stream_of(spec.name, spec.stream),
        )
        self._states[spec.name] = _TableState(
            table, spec.tags, self._clock.now() + _BUSY, replace(table, status="ACTIVE")
        )
        self._store.tables[spec.name] = HeldTable()
        return True

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
        table = self._get(name).table
        units = {**table.index_units, **(indexes or {})} if write is not None else {}
        own = (write, read) if itself else (table.write, table.read)
        maxima: dict[str, Any] = {}
        if table.on_demand is not (own[0] is None):
            # A switch of the billing mode drops all maxima. The same request can set the maximum of the table, not of
            # an index.
            maxima = {"most": most, "index_most": dict.fromkeys(table.index_most)}
        self._change(name, f"capacity {name}", write=own[0], read=own[1], index_units=units, **maxima)

    def set_maxima(self, name: str, most: tuple[int, int] | None, indexes: Sequence[str]) -> None:
        self._change(name, f"maxima {name}", most=most, index_most=dict.fromkeys(indexes, most))

    def set_class(self, name: str, table_class: TableClass) -> None:
        self._change(name, f"class {name}", table_class=table_class)

    def set_stream(self, name: str, shows: str) -> None:
        if self._get(name).table.stream_arn:
            raise TableRefused(f"ValidationException: Table already has an enabled stream: {name}", transient=False)
        self._change(name, f"stream {name}", **self._stream_of(name, shows))

    def _stream_of(self, name: str, shows: str) -> dict[str, Any]:
        if shows == "none":
            return {}
        arn = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{name}/stream/{self._clock.now():%Y-%m-%dT%H:%M:%S.%f}"
        return {"stream_arn": arn, "has_images": "new" in shows}

    def create_copy(self, name: str, region: str) -> None:
        state = self._get(name)
        made = {**state.table.copies, region: "ACTIVE"}
        self._change(name, f"copy {name} {region}", copies=made)
        state.table = replace(state.table, copies={**state.table.copies, region: "CREATING"})

    def tag_copy(self, name: str, region: str, tags: Mapping[str, str]) -> None:
        if region not in self._get(name).table.copies:
            raise NotReady(f"{region} does not know the copy of {name} yet")
        self.copy_tags[name, region] = dict(tags)

    def delete_copy(self, name: str, region: str) -> None:
        left = {where: status for where, status in self._get(name).table.copies.items() if where != region}
        if left != self._get(name).table.copies:
            self._change(name, f"delete copy {name} {region}", copies=left)

    def set_protection(self, name: str, protected: bool) -> None:
        self._change(name, f"protection {name}", protected=protected)

    def enable_recovery(self, name: str) -> None:
        self._get(name)
        self.recoverable.add(name)

    def delete(self, name: str) -> None:
        if self.describe(name) is not None:
            if self._states[name].table.protected:
                raise TableRefused("ValidationException: protected against deletion", transient=False)
            self._change(name, f"delete {name}", "DELETING")

    def vanish(self, name: str) -> None:
        """Delete a table by hand."""
        del self._states[name]
        del self._store.tables[name]

    def _get(self, name: str) -> _TableState:
        if self.describe(name) is None:
            raise TableMissing(name)
        return self._states[name]

    def _change(self, name: str, what: str, status: str = "UPDATING", **changes: object) -> None:
        state = self._get(name)
        if state.table.status != "ACTIVE":
            raise TableRefused(f"ResourceInUseException: {name} is {state.table.status}", transient=True)
        self.changes.append(what)
        state.then = replace(state.table, **changes)
        state.table = replace(state.table, status=status)
        state.until = self._clock.now() + _BUSY
