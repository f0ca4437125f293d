"""Engine fixtures: the in-memory fake, and DynamoDB as the emulator plays it."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from botocore.errorfactory import ClientExceptionsFactory

from aws.catalog import DynamoCatalog
from aws.store import DynamoStore
from aws.tables import DynamoTables
from local.emulator import Emulator
from local.stack import aws_client
from tests.contract.engines import Engine
from tests.fakes import FakeCatalog, FakeStore
from tidetable.config import TableClass
from tidetable.ports import TableSpec

_numbers = count()


class Racing:
    """A client whose exception classes are never the same twice, as when threads race at a client's first failure."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def exceptions(self) -> Any:
        return ClientExceptionsFactory().create_client_exceptions(self._client.meta.service_model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _fake() -> Engine:
    catalog = FakeCatalog()
    store = FakeStore(catalog)
    stream = f"s{next(_numbers)}"

    def create() -> str:
        name = f"tidetable-t.{stream}.table{next(_numbers)}"
        store.tables[name] = {}
        return name

    return Engine(catalog, store, stream, create)


def _emulated(emulator: Emulator) -> Engine:
    client: Any = Racing(aws_client(emulator.endpoint, "dynamodb"))
    tables = DynamoTables(client)
    stream = f"s{next(_numbers)}"
    catalog = f"catalog-{stream}"

    def create(name: str = "") -> str:
        name = name or f"tidetable-t.{stream}.table{next(_numbers)}"
        assert tables.create(TableSpec(name, None, None, TableClass.STANDARD, {"project": "tidetable"}))
        return name

    create(catalog)
    return Engine(DynamoCatalog(client, catalog), DynamoStore(client, catalog), stream, create)


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    with Emulator() as started:
        yield started


@pytest.fixture(params=["fake", "emulator"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "fake":
        return _fake()
    return _emulated(request.getfixturevalue("emulator"))
