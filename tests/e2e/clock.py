"""The time of the end-to-end tests: the middle of a day, at whatever hour they run.

At midnight periods close and tables are made, at full hours tables step down; a test in the midst of that would see it.
"""

from datetime import UTC, datetime, timedelta

from local.emulator import clock_can_move

_BEGUN = datetime.now(UTC)
# Where the emulator's clock cannot be moved, the tests live with the hour.
NOW = _BEGUN.replace(hour=12, minute=20, second=0, microsecond=123000) if clock_can_move() else _BEGUN
TODAY = NOW.date().isoformat()
OFFSET: timedelta = NOW - _BEGUN
