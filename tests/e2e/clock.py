"""The time of the end-to-end tests: the middle of a day, at whatever hour they run.

At midnight periods close and tables are made, at full hours tables step down; a test at that moment would see the changes.
"""

from datetime import UTC, datetime, timedelta

from local.emulator import can_move_clock

_BEGUN = datetime.now(UTC)
# If the emulator's clock cannot be moved, the tests run at the real hour.
NOW = _BEGUN.replace(hour=12, minute=20, second=0, microsecond=123000) if can_move_clock() else _BEGUN
TODAY = NOW.date().isoformat()
OFFSET: timedelta = NOW - _BEGUN
