"""CloudWatch's minutes with the values that a test sets."""

from collections.abc import Sequence
from datetime import datetime

from tidetable.activity import Counted, Series
from tidetable.errors import Outage, StoreUnavailable

NOTHING = Counted({}, {}, {}, {}, {}, {})


class FakeGauges:
    """The minutes that a test set, as far as they are in the range. With ``fails`` there is no answer.

    ``reads`` has the tables of each request.
    """

    def __init__(self) -> None:
        self.counted = NOTHING
        self.fails = False
        self.reads: list[Sequence[str]] = []

    def count_minutes(self, tables: Sequence[str], start: datetime, end: datetime) -> Counted:
        """The minutes of a range, of tables with a value only."""
        self.reads.append(tables)
        if self.fails:
            raise StoreUnavailable(Outage.OTHER, "CloudWatch did not answer", "gauges")

        def cut(series: Series) -> Series:
            return {minute: value for minute, value in series.items() if start <= minute < end}

        units = {table: cut(series) for table, series in self.counted.units.items() if table in tables}
        return Counted(units, *(cut(series) for series in self.counted[1:]))
