"""The order of answers, implemented from docs/inside/suffix.md, independently of the code."""

from tidetable.events import Event


def find_position(event: Event) -> str:
    """Time, series and id with separators between them; separators within the names are escaped."""
    names = (name.replace("%", "%25").replace("#", "%23") for name in (event.series, event.id))
    return "#".join([f"{event.time:%Y-%m-%dT%H:%M:%S.%f}Z", *names])
