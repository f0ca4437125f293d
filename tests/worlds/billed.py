"""A stage with a bill: tables with their entries, and CloudWatch's figures as a test sets them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from bill.accounts import BillSources
from bill.current_bill import present_bill
from bill.workload import Workload, spread_by_hour
from tests.fakes import FakeCatalog
from tests.fakes.meters import FakeMeters
from tests.fakes.serial import Serial
from tests.lifecycle.world import configuration
from tests.worlds.entries import make_entry
from tidetable.catalog import State
from tidetable.config import TableClass
from tidetable.periods import parse_label
from tidetable.ports import Table

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
TODAY, YESTERDAY = "2026-03-15", "2026-03-14"
ON_DEMAND = 'mode = "on-demand"'
INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"\n'
ROLLUP = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"\n'


def table(write: int | None = None, read: int | None = None, **facts: Any) -> Table:
    """The description of a table. A table without units is on demand."""
    return Table("", "ACTIVE", write, read, facts.pop("table_class", TableClass.STANDARD), **facts)


class BilledStage:
    """A stream ``s`` with its tables and entries, and the units that CloudWatch counted.

    The stream is on demand unless ``changes`` say otherwise.
    """

    def __init__(self, **changes: Any) -> None:
        self.config = configuration(**{"capacity": ON_DEMAND} | changes)
        self.catalog, self.meters = FakeCatalog(), FakeMeters()
        self.tables: dict[str, Table] = {}
        self.region = "us-east-1"

    def add(
        self, label: str, found: Table | None = None, *, stream: str = "s", chunks: Table | None = None, **facts: Any
    ) -> None:
        """Add a period with its table and, with ``chunks``, the table of chunks beside it."""
        configured = self.config.streams.get(stream, self.config.streams["s"])
        layout = replace(configured.layout, parts=chunks is not None)
        name, period = f"{stream}.{label}", parse_label(label)
        known: dict[str, Any] = {"state": State.OPEN, "created_at": period.start - timedelta(days=2)} | facts
        self.catalog.add(make_entry(stream, period, name, layout, **known))
        self.tables |= {name: found for name, found in ((name, found), (f"{name}.parts", chunks)) if found is not None}

    def bill(
        self,
        only: str | None = None,
        sees: Callable[[str], bool] = lambda _: True,
        seconds: Iterator[float] = repeat(60.0),  # noqa: B008 - it never ends
        before: datetime | None = None,
    ) -> Any:
        """Ask for the bill. Whenever the code looks at the remaining time, it gets the next number of ``seconds``."""
        tables: Any = type("Tables", (), {"describe": staticmethod(self.tables.get)})
        sources = BillSources(self.catalog, tables, self.meters, Serial, self.region, lambda: next(seconds))
        return present_bill(self.config, sources, NOON, sees, only, before)

    def stream(self, name: str = "s") -> Any:
        """A stream's part of the bill."""
        return next(stream for stream in self.bill()["streams"] if stream["stream"] == name)


def make_workload(capacity: str = ON_DEMAND, *, rate: float = 1.0, size: int = 1000, **facts: Any) -> Workload:
    """Per second one event of 1,000 bytes and a query, of which a tenth are of old events; ten events per request."""
    known = {"batch": 10, "reads": 0.9, "old": 0.1, "by_key": True} | facts
    changes = {name: known.pop(name) for name in list(known) if name not in {"batch", "reads", "old", "by_key"}}
    stream = configuration(**{"capacity": capacity} | changes).streams["s"]
    return Workload(
        spread_by_hour(rate, None),
        size,
        known["reads"],
        4096,
        known["old"],
        stream,
        known["batch"],
        by_key=known["by_key"],
    )
