"""The order of answers, written anew from docs/inside/suffix.md and not taken from the code."""

from tidetable.events import Event


def position_of(event: Event) -> str:
    """Time, series and id with separators between them; those within the names are escaped."""
    names = (name.replace("%", "%25").replace("#", "%23") for name in (event.series, event.id))
    return "#".join([f"{event.time:%Y-%m-%dT%H:%M:%S.%f}Z", *names])
