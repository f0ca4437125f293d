"""Queries with a key that has a series prefix: each route reads only series with this prefix, or refuses.

Other keys do not pass here. No answer tells how much of other series was read (docs/operate/keys.md, *Tenants*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidetable.access import Access, forbid_series
from tidetable.conditions import NameConditions
from tidetable.config import Stream
from tidetable.query.model import Selection

Parameters = Mapping[str, Sequence[str]]


def _confine_names(parameters: Parameters, access: Access) -> Parameters:
    """Check that ``series`` and ``series:prefix`` are within the key's prefix. Without both, add the prefix."""
    _confine_listed(parameters, access)
    if "series" in parameters and "series:prefix" not in parameters:
        return parameters
    return _confine_prefix("series:prefix", parameters, access)


def _confine_prefix(name: str, parameters: Parameters, access: Access) -> Parameters:
    """Narrow a parameter that is a prefix of series to the key's prefix."""
    narrowed = []
    for value in parameters.get(name, [""]):
        if not (access.covers(value) or access.series_prefix.startswith(value)):
            raise forbid_series(access, f"{name}={value[:64]}")
        narrowed.append(value if access.covers(value) else access.series_prefix)
    # A cursor holds the prefix itself, and ``confine_query`` checks it.
    return parameters if "cursor" in parameters and name not in parameters else {**parameters, name: narrowed}


def _confine_listed(parameters: Parameters, access: Access) -> Parameters:
    """Check that each ``series`` is within the key's prefix. The route itself requires ``series``."""
    for series in parameters.get("series", ()):
        if not access.covers(series):
            raise forbid_series(access, f"series={series[:64]}")
    return parameters


# For each route, the function that confines a request to a series prefix. Keys with a prefix cannot use a route that is
# not listed here. So a new route is refused until somebody has decided how to confine it. The route of one event checks
# the event's own series.
_ROUTES: Mapping[str, Callable[[Parameters, Access], Parameters]] = {
    "/v1/health": lambda parameters, _: parameters,
    "/v1/streams": lambda parameters, _: parameters,
    "/v1/streams/{stream}/events": _confine_names,
    "/v1/streams/{stream}/events/{ref}": lambda parameters, _: parameters,
    "/v1/streams/{stream}/latest": _confine_listed,
    "/v1/streams/{stream}/aggregate": _confine_names,
    "/v1/streams/{stream}/series": partial(_confine_prefix, "prefix"),
}
# These routes show figures of whole tables, or of the stage.
_WHOLE = frozenset({"/v1/streams/{stream}/periods", "/v1/plan", "/v1/alarms", "/v1/activity", "/v1/cost"})


def confine_parameters(route: str, parameters: Parameters, access: Access, stream: Stream | None = None) -> Parameters:
    """Confine the parameters of a request to the key's prefix. ProblemError 403 if that would change the question.

    It also refuses a ``stream`` that is a rollup: a bucket with too many groups has no cells, and the groups of all
    series count.
    """
    if route in _WHOLE:
        raise forbid_series(access, "this route shows figures of all series")
    if "explain" in parameters:
        raise forbid_series(access, "explain shows figures of whole tables")
    confine = _ROUTES.get(route)
    if confine is None:
        raise forbid_series(access, "this route reads all series at once")
    confined = confine(parameters, access)
    if stream is not None and stream.source:
        why = f"the cells of a rollup depend on all series, so aggregate the stream {stream.source}"
        raise forbid_series(access, why)
    return confined


def confine_query(query: Selection, access: Access) -> None:
    """Raise ProblemError 403 unless the query reads only the key's series. A cursor may come from another key."""
    # A kind of query that has no names is refused, too.
    names = getattr(query, "names", None)
    covered = isinstance(names, NameConditions) and (
        access.covers(names.series_prefix) or (bool(names.series) and all(map(access.covers, names.series)))
    )
    if not covered:
        raise forbid_series(access, "the query names other series")
