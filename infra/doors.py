"""The doors: routes of other programs' protocols.

They have their own function, so that its parsers do not slow down others.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from tidetable.names import name_service

from .cors import allow_preflights
from .function import Common, Function
from .ingest import Ingest
from .integration import add_routes

_STREAM = "/v1/streams/{stream}"
_INFLUX = ("/write", "/api/v2/write", "/api/v3/write_lp")
_OTLP = tuple(f"{front}/v1/{signal}" for front in ("", f"{_STREAM}/otlp") for signal in ("metrics", "logs"))
_CLOUDEVENTS, _FIREHOSE = f"{_STREAM}/cloudevents", f"{_STREAM}/firehose"
# Routes without a key: clients of InfluxDB look for a server without sending their key, and webhooks make a handshake.
_PROBES = (("GET", "/ping"), ("HEAD", "/ping"), ("GET", "/health"))
_HANDSHAKE = ("OPTIONS", _CLOUDEVENTS)


class Doors(Construct):
    """The function of the doors that the configuration opens, with the rights of the ingest function."""

    def __init__(self, scope: Construct, id: str, common: Common, ingest: Ingest) -> None:
        super().__init__(scope, id)
        self._policy = common.config.doors
        # Events of the doors count as events of ingest, so that one alarm and one graph watch both functions.
        service = {"POWERTOOLS_SERVICE_NAME": name_service(common.stage, "ingest")}
        self.function = Function(self, "Function", common, "doors", ingest.environment | service)
        ingest.allow_writing(self.function)

    @property
    def open_routes(self) -> Sequence[tuple[str, str]]:
        """List the method and the path of the routes that anybody may call.

        These routes do not read or write events.
        """
        return [*(_PROBES if self._policy.influx else ()), *([_HANDSHAKE] if self._policy.cloudevents else ())]

    def add_routes(self, rest: apigateway.RestApi, origins: Sequence[str]) -> None:
        """Add the routes to an API. The routes that write have the API's default authorization."""
        policy, function = self._policy, self.function.entry
        groups = ((policy.influx, _INFLUX), (policy.otlp, _OTLP))
        pages = add_routes(rest, function, [("POST", path) for is_open, paths in groups if is_open for path in paths])
        others = ((policy.cloudevents, _CLOUDEVENTS), (policy.firehose, _FIREHOSE))
        add_routes(rest, function, [("POST", path) for is_open, path in others if is_open])
        add_routes(rest, function, self.open_routes, is_open=True)
        if origins:
            # Two routes get no preflight: OPTIONS of the CloudEvents' route is the webhooks' handshake, and no web page
            # sends to Firehose's route.
            allow_preflights(pages, origins)
