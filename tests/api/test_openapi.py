"""The API against its description: schemathesis makes the requests, and the description is compared with the code."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks

from tests.api.gateway import DESCRIPTION, Gateway, gateway
from tests.worlds.configs import ROOT
from tidetable.catalog import State
from tidetable.conditions import OPERATORS
from tidetable.ingest.rejection import Code
from tidetable.periods import Kind
from tidetable.query import parse
from tidetable.query import periods as listing
from tidetable.query.aggregates import aggregate_parameters as aggregation
from tidetable.query.listings import listing_parameters as naming
from tidetable.query.rankings import ranking_parameters as ranking

METHODS = ("get", "post")
# The routes that take no parameters.
BARE = ("GET /v1/health", "GET /v1/streams", "GET /v1/plan", "GET /v1/alarms", "GET /v1/activity")
STREAMS = ("quakes", "stations", "reports", "reports")


OPERATIONS = [
    f"{method.upper()} {path}" for path, one in DESCRIPTION["paths"].items() for method in METHODS if method in one
]
CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
)


@pytest.fixture(scope="module")
def app() -> Iterator[Gateway]:
    yield from gateway()


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_is_sent_is_answered_as_described(app: Gateway, operation: str, mode: str) -> None:
    """Requests that fit the description and requests that do not; a third of them to a stream that does not exist."""
    method, path = operation.split()
    made = 0
    described = schemathesis.openapi.from_wsgi("/openapi.json", app)[path][method]
    modes = GenerationMode(mode)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=described.as_strategy(generation_mode=modes), stream=st.sampled_from([*STREAMS, None, None]))
    def send(case: Any, stream: str | None) -> None:
        nonlocal made
        made += 1
        if stream is not None and "stream" in (case.path_parameters or {}):
            case.path_parameters["stream"] = stream
        case.call_and_validate(checks=CHECKS)

    try:
        send()
    except Unsatisfiable:
        # A route without parameters has no request that violates the description.
        assert (mode, operation) in {("negative", route) for route in BARE}, "no request was made"
    assert made > 0 or operation in BARE


def test_every_route_is_described_and_no_other() -> None:
    prose = set(re.findall(r"^## ([A-Z]+ /\S+)$", (ROOT / "docs" / "use" / "api.md").read_text(), re.MULTILINE))
    assert set(OPERATIONS) == prose


def _parameters(path: str) -> dict[str, Any]:
    shared = DESCRIPTION["components"]["parameters"]
    parameters = DESCRIPTION["paths"][path]["get"]["parameters"]
    resolved = [
        shared[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter for parameter in parameters
    ]
    return {parameter["name"]: parameter["schema"] for parameter in resolved if parameter["in"] == "query"}


def test_the_parameters_are_those_of_the_code() -> None:
    for path, known, most in (
        ("events", parse.KNOWN, parse.MAX_LIMIT),
        ("top", ranking.KNOWN, ranking.MAX_LIMIT),
        ("periods", listing.KNOWN, listing.MAX_LIMIT),
        ("series", naming.KNOWN, naming.MAX_LIMIT),
        ("fields", naming.KNOWN, naming.MAX_LIMIT),
        ("fields/{field}/values", naming.KNOWN, naming.MAX_LIMIT),
        ("aggregate", aggregation.KNOWN, aggregation.MAX_ROWS),
    ):
        described = _parameters("/v1/streams/{stream}/" + path)
        assert described.keys() == set(known)
        assert described["limit"]["maximum"] == most
    assert set(described["fill"]["enum"]) == set(aggregation.FILLS)
    operators = DESCRIPTION["paths"]["/v1/streams/{stream}/events"]["get"]["description"]
    assert all(re.search(rf"\b{operator}\b", operators) for operator in OPERATORS)


def test_the_words_are_those_of_the_code() -> None:
    schemas = DESCRIPTION["components"]["schemas"]
    assert set(schemas["Refusal"]["properties"]["code"]["enum"]) == set(get_args(Code))
    period = schemas["Periods"]["properties"]["periods"]["items"]["properties"]
    assert set(period["state"]["enum"]) == {state.value for state in State}
    stream = schemas["Streams"]["properties"]["streams"]["items"]["properties"]
    assert set(stream["period"]["enum"]) == {kind.value for kind in Kind}
    rooms = ("tidetable", "doors", "bill", "handlers")
    sources = [source for room in rooms for source in (ROOT / "lambdas" / room).rglob("*.py")]
    # The gateway's own answers are in infra/api.py.
    codes = {"bad_request", "unauthorized", "forbidden", "throttled", "timeout", "internal"}
    for source in sources:
        codes |= set(re.findall(r'(?:refuse_request|Problem)\(\s*\d{3},\s*"(\w+)"', source.read_text()))
    assert set(schemas["Problem"]["properties"]["code"]["enum"]) == codes


def _repeated_keys(node: yaml.Node | None) -> list[str]:
    """The keys that a mapping has twice, of which YAML takes the last."""
    if isinstance(node, yaml.SequenceNode):
        return [key for item in node.value for key in _repeated_keys(item)]
    if not isinstance(node, yaml.MappingNode):
        return []
    keys = Counter(key.value for key, _ in node.value)
    within = [key for _, value in node.value for key in _repeated_keys(value)]
    return [key for key, count in keys.items() if count > 1] + within


@pytest.mark.parametrize("name", ["openapi.yaml", "openapi-doors.yaml"])
def test_no_definition_hides_another_of_its_name(name: str) -> None:
    assert _repeated_keys(yaml.compose((ROOT / "docs" / "use" / name).read_text())) == []


def test_a_repeated_definition_is_found() -> None:
    assert _repeated_keys(yaml.compose("a: {b: 1, c: [{d: 1, d: 2}]}\nb: 2\na: 3\n")) == ["a", "d"]
