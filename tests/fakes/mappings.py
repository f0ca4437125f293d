"""Event source mappings in memory. As in Lambda, a change takes time, and further changes are refused meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.errors import TableRefused
from tidetable.ports import Clock
from tidetable.ports.feeds import FeedSettings, StreamMapping

_BUSY = timedelta(seconds=30)
_AFTERWARDS = {"Creating": "Enabled", "Updating": "Enabled"}


@dataclass
class FakeMappings:
    """Mappings by their sources. ``count`` is called after each change. A new mapping is listed after ``hidden``.

    A mapping of a source in ``refused`` is always refused. Until ``rights_from``, the function's role has no right to
    read a stream, and Lambda answers with the text of aws.md, *Mappings of change streams*.
    """

    clock: Clock
    count: Callable[[], None] = lambda: None
    hidden: timedelta = timedelta(0)
    refused: set[str] = field(default_factory=set)
    rights_from: datetime | None = None
    changes: list[str] = field(default_factory=list)
    _held: dict[str, tuple[StreamMapping, datetime, datetime]] = field(default_factory=dict)

    def list(self) -> Sequence[StreamMapping]:
        self._pass()
        now = self.clock.now()
        return [mapping for mapping, _, made in self._held.values() if now >= made + self.hidden]

    def create(self, source: str, settings: FeedSettings) -> bool:
        self._pass()
        if source in self.refused:
            raise TableRefused("InvalidParameterValueException: Stream not found", transient=False)
        if self.rights_from is not None and self.clock.now() < self.rights_from:
            raise TableRefused(f"InvalidParameterValueException: Cannot access stream {source}.", transient=True)
        if source in self._held:
            return False
        mapping = StreamMapping(f"id-{len(self.changes)}", source, "Creating", settings)
        self.changes.append(f"create {mapping.table}")
        self._held[source] = mapping, self.clock.now() + _BUSY, self.clock.now()
        self.count()
        return True

    def update(self, mapping: StreamMapping, settings: FeedSettings) -> None:
        self._settled(mapping, "update")
        _, _, made = self._held[mapping.source]
        self._held[mapping.source] = (
            mapping._replace(state="Updating", settings=settings),
            self.clock.now() + _BUSY,
            made,
        )
        self.count()

    def delete(self, mapping: StreamMapping) -> None:
        self._pass()
        if mapping.source in self._held:
            self._settled(mapping, "delete")
            _, _, made = self._held[mapping.source]
            self._held[mapping.source] = mapping._replace(state="Deleting"), self.clock.now() + _BUSY, made
            self.count()

    def disable(self, table: str) -> None:
        """Disable a table's mapping by hand."""
        for source, (mapping, until, made) in self._held.items():
            if mapping.table == table:
                self._held[source] = mapping._replace(state="Disabled"), until, made

    def remove(self, table: str) -> None:
        """Delete a table's mapping by hand."""
        self._held = {source: held for source, held in self._held.items() if held[0].table != table}

    def _settled(self, mapping: StreamMapping, change: str) -> None:
        self._pass()
        state = self._held[mapping.source][0].state
        if state not in ("Enabled", "Disabled"):
            raise TableRefused(f"ResourceInUseException: the mapping is {state}", transient=True)
        self.changes.append(f"{change} {mapping.table}")

    def _pass(self) -> None:
        for source, (mapping, until, made) in list(self._held.items()):
            if self.clock.now() < until:
                continue
            if mapping.state == "Deleting":
                del self._held[source]
            else:
                state = _AFTERWARDS.get(mapping.state, mapping.state)
                self._held[source] = mapping._replace(state=state), until, made
