"""CloudWatch's metrics as a test sets them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tidetable.bill.consumed import ConsumedUnits, Traffic
from tidetable.errors import StoreUnavailable


class FakeMeters:
    """Units by (table, index), and traffic; with ``fails`` there is no answer. ``tables`` are those of the last question."""

    def __init__(self) -> None:
        self.units: dict[tuple[str, str], ConsumedUnits] = {}
        self.counted = Traffic()
        self.fails = False
        self.tables: Mapping[str, Sequence[str]] = {}

    def consumed(self, tables: Mapping[str, Sequence[str]], now: datetime) -> Mapping[tuple[str, str], ConsumedUnits]:
        """What a test set, zero for all else."""
        if self.fails:
            raise StoreUnavailable("meters", "CloudWatch did not answer")
        self.tables = tables
        resources = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
        return {resource: self.units.get(resource, ConsumedUnits()) for resource in resources}

    def traffic(self, now: datetime) -> Traffic:
        """What a test set."""
        if self.fails:
            raise StoreUnavailable("meters", "CloudWatch did not answer")
        return self.counted
