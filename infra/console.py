"""The console: a static page that the API itself serves, and the routes for its view of the lifecycle."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from .cors import allow_preflights
from .function import Common, Function
from .integration import add_routes
from .naming import make_arn, name_alarm_prefix, name_period_tables
from .storage import Storage

# The files of the page, without those of the pinned library for charts.
_PAGE = ("index.html", "icon.svg", "style.css")
# Lines that are only a comment, most of them types: a seventh of the modules' compressed bytes (measured).
_COMMENT_LINES = re.compile(rb"^[ \t]*(?:/\*\*(?:(?!\*/)(?s:.))*\*/|//.*)\n", re.MULTILINE)
_CHARTS = {"uPlot.iife.min.js": "uplot.js", "uPlot.min.css": "uplot.css"}


def drop_comment_lines(script: bytes) -> bytes:
    """Drop the lines of a JavaScript module that are only a comment. No text in a module has a line that begins like a
    comment.
    """
    return _COMMENT_LINES.sub(b"", script)


def collect_files(root: Path, target: Path) -> None:
    """Copy everything that the console serves into a folder: its modules without comment lines.

    ``root`` is the project with its ``node_modules``.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name in _PAGE:
        shutil.copy(root / "console" / name, target / name)
    modules, others = root / "console" / "js", shutil.ignore_patterns("*.d.ts")
    shutil.copytree(modules, target / "js", ignore=others, dirs_exist_ok=True, copy_function=_copy_module)
    # The page's alarms and troubles link to sections of the runbook.
    shutil.copy(root / "docs" / "operate" / "runbook.md", target / "runbook.md")
    library = root / "node_modules" / "uplot"
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: run `make setup`")
    for name, copy in _CHARTS.items():
        shutil.copy(library / "dist" / name, target / copy)
    # uPlot's licence (MIT) requires that its text is delivered with every copy.
    shutil.copy(library / "LICENSE", target / "uplot-license.txt")


def _copy_module(module: str, target: str) -> None:
    Path(target).write_bytes(drop_comment_lines(Path(module).read_bytes()))


OPERATED = ("/v1/plan", "/v1/alarms", "/v1/activity", "/v1/cost")


class Console(Construct):
    """The function that serves the page (it has no rights), and the function of the operators' routes."""

    # Anybody may load the page: it holds no data, and is useless without a key.
    open_routes = (("GET", "/console"), ("GET", "/console/assets/{file+}"))

    def __init__(self, scope: Construct, id: str, common: Common, *, lifecycle: Function, storage: Storage) -> None:
        super().__init__(scope, id)
        self.page = Function(self, "Page", common, "console")
        alarm_prefix = name_alarm_prefix(scope, common.stage)
        environment = {
            "TIDETABLE_LIFECYCLE_FUNCTION": lifecycle.function_name,
            **storage.rollups_variable,
            **({"TIDETABLE_ALARM_PREFIX": alarm_prefix} if alarm_prefix else {}),
        }
        self.operations = Function(self, "Operations", common, "operations", environment)
        self.operations.allow_actions("lambda", ["InvokeFunction"], lifecycle.function_arn)
        alarms = make_arn(self, "cloudwatch", "alarm", "*")
        self.operations.allow_actions("cloudwatch", ["DescribeAlarms"], alarms)
        # The activity needs the records of work, and the bill needs periods and policies from the catalog, the sizes of
        # tables, and the units that they consumed. Keys and a secret are in other partitions of the catalog. IAM cannot
        # limit the right on metrics to resources.
        leading = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["stream#*", "policies", "work#*"]}}
        self.operations.allow_actions("dynamodb", ["Query"], storage.catalog.table_arn, conditions=leading)
        # The activity of a stream says how far its rollups are sealed.
        storage.allow_rollups(self.operations, "Query")
        self.operations.allow_actions("dynamodb", ["DescribeTable"], name_period_tables(self, common.stage))
        self.operations.allow_actions("cloudwatch", ["GetMetricData"], "*")

    def add_routes(self, rest: apigateway.RestApi, origins: Sequence[str]) -> None:
        """Add the page, and the operators' routes with the API's own authorization."""
        add_routes(rest, self.page.entry, self.open_routes, is_open=True)
        routes = add_routes(rest, self.operations.entry, [("GET", path) for path in OPERATED])
        if origins:
            allow_preflights(routes, origins)
