"""Projections: the attributes of an item that a request wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strict.engines import Document
from strict.units import Wire

Request = Mapping[str, Any]


def read_projection_paths(request: Request) -> list[list[str]]:
    """Read the paths of a projection; this double does not support elements of lists."""
    names = request.get("ExpressionAttributeNames", {})
    paths = [path.strip().split(".") for path in request["ProjectionExpression"].split(",")]
    if "[" in request["ProjectionExpression"]:
        raise NotImplementedError(request["ProjectionExpression"])
    return [[names.get(name, name) for name in path] for path in paths]


def project_item(request: Request, item: Wire) -> Wire:
    """Return the attributes that a request wants of an item; the request names the item by its key."""
    return project(item, read_projection_paths(request)) if "ProjectionExpression" in request else item


def project(item: Wire, paths: Sequence[Sequence[str]]) -> Document:
    """Return the attributes of an item that a projection names.

    A map keeps only the members that the projection names.
    """
    paths_within: dict[str, list[list[str]]] = {}
    for first, *rest in paths:
        if first in item:
            paths_within.setdefault(first, []).append(rest)
    projected: dict[str, Any] = {}
    for first, within in paths_within.items():
        if [] in within:
            projected[first] = item[first]
        elif members := project(item[first].get("M", {}), within):
            projected[first] = {"M": members}
    return projected
