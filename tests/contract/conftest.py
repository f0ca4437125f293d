"""Engine fixtures: the fake, both emulators of DynamoDB, and each engine behind the service's rules."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from aws.http import client as lean_client
from aws.http.client import LeanClient
from aws.http.credentials import Provider
from local.dynamodb_local import DynamoDBLocal
from local.emulator import REGION, Emulator
from local.stack import make_aws_client
from strict import ManualClock, StrictDynamo, SystemClock
from strict.client import StrictClient
from strict.engines import LOCAL_UNKNOWN, HttpEngine
from strict.memory import MemoryEngine
from strict.proxy import Proxy
from tests.contract.engines import TAGS, Engine, Racing, _numbers, fake, real
from tests.fakes.transport import StrictTransport
from tests.lifecycle.world import NOON
from tidetable.config import TableClass
from tidetable.ports import TableSpec

# The strict service waits by this clock. Time passes only when a test sleeps by it.
CLOCK = ManualClock(NOON)
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
STRICT = ("strict memory", "strict emulator", "strict local")
ENGINES = ("fake", "emulator", "local", *STRICT)
# The engines with HTTP, called by the lean client. The store on botocore is the oracle for the lean client.
LEAN = ("lean emulator", "lean local", "lean strict emulator", "lean strict local")


@pytest.fixture(scope="session")
def emulator() -> Iterator[str]:
    with Emulator() as started:
        yield started.endpoint


@pytest.fixture(scope="session")
def local() -> Iterator[str]:
    with DynamoDBLocal() as started:
        yield started.endpoint


@pytest.fixture(scope="session")
def strict_emulator(emulator: str) -> Iterator[str]:
    with Proxy(StrictDynamo(HttpEngine(emulator), CLOCK)) as proxy:
        yield proxy.endpoint


@pytest.fixture(scope="session")
def strict_local(local: str) -> Iterator[str]:
    with Proxy(StrictDynamo(HttpEngine(local, unknown=LOCAL_UNKNOWN), CLOCK)) as proxy:
        yield proxy.endpoint


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    """Give the engines time: they share this machine with all other tests, so a slow answer is not a lost answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean_client, "CONNECT_SECONDS", 60.0)
        patch.setattr(lean_client, "READ_SECONDS", 60.0)
        yield


@cache
def share_client(endpoint: str) -> Any:
    """Make boto3's client of an engine, once for all tests: to make one takes longer than most tests."""
    return make_aws_client(endpoint, "dynamodb")


def build(name: str, request: pytest.FixtureRequest) -> Engine:
    """Build the engine with this name."""
    if name == "fake":
        return fake()
    if name == "strict memory":
        service = StrictDynamo(MemoryEngine(), CLOCK)
        transport: Any = StrictTransport(service)
        return real(StrictClient(service), CLOCK, transport, oracle=True)
    endpoint = request.getfixturevalue(name.removeprefix("lean ").replace(" ", "_"))
    client: Any = Racing(share_client(endpoint))
    return real(client, CLOCK, make_lean_client(endpoint), oracle=name not in LEAN)


def make_records(request: pytest.FixtureRequest, prefix: str) -> tuple[Any, str]:
    """Make a table for records in the engine that the fixture's parameter names: the lean client's transport, and its name."""
    if request.param == "strict memory":
        service = StrictDynamo(MemoryEngine(), CLOCK)
        transport: Any = StrictTransport(service)
        client: Any = StrictClient(service)
    else:
        endpoint = request.getfixturevalue(request.param.removeprefix("lean ").replace(" ", "_"))
        transport, client = make_lean_client(endpoint), Racing(share_client(endpoint))
    engine, name = real(client, CLOCK, transport), f"{prefix}-{next(_numbers)}"
    assert engine.tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    return transport, name


def make_lean_client(endpoint: str) -> LeanClient:
    """Make the lean client of an engine with HTTP."""
    return LeanClient(endpoint, REGION, Provider(KEYS, SystemClock().now, lambda *_: b"").get)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return build(request.param, request)
