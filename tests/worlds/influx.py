"""Requests in InfluxDB's line protocol to the doors' function."""

from typing import Any

from tests.worlds.doors import Doors, Reply, nanos

V1, V2, V3 = "/write", "/api/v2/write", "/api/v3/write_lp"
# The time of a point in the window, and of a point before the window.
T = nanos(60)
OLD = nanos(9 * 86_400)


def write(doors: Doors, body: bytes | str, route: str = V2, query: str = "", **more: Any) -> Reply:
    """Send lines to the stream ``quakes``."""
    name = "bucket" if route == V2 else "db"
    return doors.call("POST", route, body, query=f"{name}=quakes&{query}", **more)
