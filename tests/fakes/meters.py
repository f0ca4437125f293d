"""CloudWatch's metrics with the values that a test sets."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bill.consumed import ConsumedUnits, Traffic
from tidetable.errors import Outage, StoreUnavailable


class FakeMeters:
    """Units by (table, index), and traffic. With ``fails`` there is no answer.

    ``tables`` are the tables of the last request.
    """

    def __init__(self) -> None:
        self.units: dict[tuple[str, str], ConsumedUnits] = {}
        self.counted = Traffic()
        self.fails = False
        self.tables: Mapping[str, Sequence[str]] = {}

    def consumed(self, tables: Mapping[str, Sequence[str]], now: datetime) -> Mapping[tuple[str, str], ConsumedUnits]:
        """The units that a test set; zero for all other tables and indexes."""
        if self.fails:
            raise StoreUnavailable(Outage.OTHER, "CloudWatch did not answer", "meters")
        self.tables = tables
        resources = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
        return {resource: self.units.get(resource, ConsumedUnits()) for resource in resources}

    def traffic(self, now: datetime) -> Traffic:
        """The traffic that a test set."""
        if self.fails:
            raise StoreUnavailable(Outage.OTHER, "CloudWatch did not answer", "meters")
        return self.counted
