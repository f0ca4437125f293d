"""Grafana and its Infinity plugin (3.11) at work on the dashboard: variables, the step of a panel, requests, rows.

Sources: rangeUtil and the template service of npm's @grafana/data; pkg/infinity/request.go and jsonBackend.go of the plugin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import jsonata
import yaml

from tests.worlds.configs import ROOT

FOLDER = ROOT / "docs" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboards" / "tidetable.json").read_text())
(SOURCE,) = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "tidetable.yaml").read_text())["datasources"]
# Pairs in seconds: Grafana chooses the step (second) if the exact step is below the limit (first).
_STEPS = (
    (0.015, 0.01), (0.035, 0.02), (0.075, 0.05), (0.15, 0.1), (0.35, 0.2), (0.75, 0.5), (1.5, 1), (3.5, 2), (7.5, 5),
    (12.5, 10), (17.5, 15), (25, 20), (45, 30), (90, 60), (210, 120), (450, 300), (750, 600), (1_050, 900),
    (1_500, 1_200), (2_700, 1_800), (5_400, 3_600), (9_000, 7_200), (16_200, 10_800), (32_400, 21_600),
    (86_400, 43_200), (604_800, 86_400), (1_814_400, 604_800), (3_628_800, 2_592_000),
)  # fmt: skip
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_VARIABLE = re.compile(r"\$\{(\w+)(?::([\w:]+))?\}|\$(\w+)")


class Span(NamedTuple):
    """The range of a dashboard."""

    start: datetime
    end: datetime

    @property
    def variables(self) -> dict[str, str]:
        return {"__from:date:iso": _iso(self.start), "__to:date:iso": _iso(self.end)}

    def step(self, panel: Mapping[str, Any]) -> str:
        """``$__interval`` of a panel: range divided by the panel's most points, rounded, at least its smallest step."""
        raw = (self.end - self.start) / timedelta(seconds=1) / panel.get("maxDataPoints", 1_000)
        rounded = next((step for below, step in _STEPS if raw < below), 31_536_000)
        match = re.fullmatch(r"(\d+)([smh])", panel.get("interval", "1s"))
        assert match is not None
        least = int(match[1]) * dict(_UNITS)[match[2]]
        seconds = max(rounded, least)
        unit, length = next((unit, length) for unit, length in _UNITS if seconds >= length)
        return f"{int(seconds // length)}{unit}"


def _iso(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fill(text: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables of a text. A variable that is not known stays, as in Grafana."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return variables.get(f"{name}:{match[2]}" if match[2] else name, match[0])

    return _VARIABLE.sub(value, text)


def request_of(target: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """The path and the query string of a target's request."""
    assert (target["type"], target["source"], target["parser"]) == ("json", "url", "backend")
    assert target["datasource"] == {"type": SOURCE["type"], "uid": SOURCE["uid"]}
    options = target["url_options"]
    assert options["method"] == "GET"
    params = [(param["key"], fill(param["value"], variables)) for param in options["params"]]
    path = quote(fill(target["url"], variables))
    request = f"{path}?{urlencode(sorted(params))}" if params else path
    assert "$" not in request, f"a variable is not known: {request}"
    return request


def rows_of(target: Mapping[str, Any], body: Any, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of the frame that the plugin makes from an answer. A column that a row lacks is None."""
    root = fill(target["root_selector"], variables) if "${" in target["root_selector"] else target["root_selector"]
    found = jsonata.Jsonata(root).evaluate(body) if root.startswith("$") else body[root]
    objects = found if isinstance(found, list) else [] if found is None else [found]
    if not target["columns"]:
        return [dict(row) for row in objects]
    return [
        {column["text"] or column["selector"]: _select(row, column["selector"]) for column in target["columns"]}
        for row in objects
    ]


def _select(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def targets() -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """All pairs of a panel and one of its targets."""
    return [(panel, target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def queries() -> dict[str, Mapping[str, Any]]:
    """The target of each variable, in the order of the dashboard."""
    return {variable["name"]: variable["query"]["infinityQuery"] for variable in DASHBOARD["templating"]["list"]}
