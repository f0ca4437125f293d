"""Keys of events, programmed a second time from docs/inside/suffix.md: no test takes its order from the tested code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def stored_time(time: datetime) -> str:
    """A time in UTC with six digits after the second, as in keys and answers."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def stored_name(name: str) -> str:
    """A series or id inside a key: ``%`` and ``#`` are escaped, ``%`` first."""
    return name.replace("%", "%25").replace("#", "%23")


def stored_place(partition_by: str, time: datetime, series: str, id: str) -> str:
    """The sort key of an event. It is also the event's position in every answer."""
    names = (id,) if partition_by == "series" else (series, id)
    return "#".join([stored_time(time), *map(stored_name, names)])


def stored_partition(partition_by: str, bucket_seconds: int, time: datetime, series: str) -> str:
    """The partition of an event without its suffix: the series, or the start of the bucket within its UTC day."""
    if partition_by == "series":
        return stored_name(series)
    midnight = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    into = (time - midnight) // timedelta(seconds=bucket_seconds) * timedelta(seconds=bucket_seconds)
    return stored_time(midnight + into)
