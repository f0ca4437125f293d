"""In-memory implementations of the core's ports. They pass the same contract as the adapters."""

from tests.fakes.archive import FakeArchive, FakeArchiver
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tests.fakes.scaling import FakeScaling
from tests.fakes.store import FakeOverflow, FakeStore, FakeValues, large_values, unpacker
from tests.fakes.tables import FakeTables
from tidetable.query import Seal

# The seal of cursors in tests without a catalog.
SEAL = Seal(lambda: b"as secret as can be")

__all__ = [
    "SEAL",
    "FakeArchive",
    "FakeArchiver",
    "FakeCatalog",
    "FakeClock",
    "FakeOverflow",
    "FakeScaling",
    "FakeStore",
    "FakeTables",
    "FakeValues",
    "large_values",
    "unpacker",
]
