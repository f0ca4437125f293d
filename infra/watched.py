"""What alarms and the dashboard of a stage measure: metrics of its functions, its queues and its APIs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec
from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .api import Api
from .function import Common, Function, make_own_metric
from .stage_parts import StageParts

_Document = TypeVar("_Document")


class Measure(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A metric in ``alarms.toml`` or ``dashboard.toml``. The comment at the head of ``alarms.toml`` says what the keys mean."""

    of: str
    metric: str
    own: bool = False
    statistic: str = "Sum"
    minutes: int = 5


def read_document(name: str, kind: type[_Document]) -> _Document:
    """Read a TOML file of this folder."""
    return msgspec.convert(tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8")), kind)


class Watched:
    """The functions by the names of their handlers, the queues and the APIs that a stage or a reader has."""

    def __init__(self, scope: Construct, common: Common, api: Api, parts: StageParts | None = None) -> None:
        self.common, self.parts = common, parts
        functions = [construct for construct in scope.node.find_all() if isinstance(construct, Function)]
        self._sources: dict[str, Function | sqs.Queue | apigateway.Stage] = {
            function.handler_name: function for function in functions
        }
        self._sources["api"] = api.rest.deployment_stage
        if api.signed is not None:
            self._sources["signed"] = api.signed.deployment_stage
        if parts is not None:
            self._sources |= {
                "overflow": parts.ingest.overflow,
                "dead_letters": parts.ingest.dead_letters,
                "feed_dead_letters": parts.feed.dead_letters,
                "lifecycle_dead_letters": parts.lifecycle.dead_letters,
                "work_dead_letters": parts.work.dead_letters,
                "files": parts.work.queues["Files"],
                "restores": parts.work.queues["Restores"],
                "lake_queue": parts.work.queues["Lake"],
            }

    def has(self, measure: Measure) -> bool:
        """True if the stage has what is measured."""
        return measure.of in self._sources

    def make_metric(self, measure: Measure) -> cloudwatch.Metric:
        """Make the metric of a measure."""
        name, period = measure.metric, Duration.minutes(measure.minutes)
        if measure.own:
            return make_own_metric(self.common.stage, measure.of, name, measure.statistic).with_(period=period)
        return self._sources[measure.of].metric(name, statistic=measure.statistic, period=period)
