"""Glue's catalog of tables in memory, with the calls that pyiceberg and the reconciler make."""

from copy import deepcopy
from itertools import count
from typing import Any

from botocore.exceptions import ClientError


class _Exceptions:
    """The classes of refusals, as a client of boto3 has them."""

    EntityNotFoundException = type("EntityNotFoundException", (ClientError,), {})
    AlreadyExistsException = type("AlreadyExistsException", (ClientError,), {})
    ConcurrentModificationException = type("ConcurrentModificationException", (ClientError,), {})


class FakeGlue:
    """One database. An update with a version that is not the present one is refused."""

    exceptions = _Exceptions

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self._versions = count(1)

    def get_database(self, **call: Any) -> dict[str, Any]:
        return {"Database": {"Name": call["Name"]}}

    def get_table(self, **call: Any) -> dict[str, Any]:
        if call["Name"] not in self.tables:
            raise self._refuse("EntityNotFoundException")
        return {"Table": deepcopy(self.tables[call["Name"]])}

    def create_table(self, **call: Any) -> None:
        if call["TableInput"]["Name"] in self.tables:
            raise self._refuse("AlreadyExistsException")
        self._put(call)

    def update_table(self, **call: Any) -> None:
        present = self.get_table(Name=call["TableInput"]["Name"])["Table"]
        if call.get("VersionId", present["VersionId"]) != present["VersionId"]:
            raise self._refuse("ConcurrentModificationException")
        self._put(call)

    def delete_table(self, **call: Any) -> None:
        self.get_table(Name=call["Name"])
        del self.tables[call["Name"]]

    def get_paginator(self, name: str) -> "FakeGlue":
        assert name == "get_tables"
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"TableList": [deepcopy(table)]} for table in self.tables.values()]

    def _put(self, call: Any) -> None:
        table = {"DatabaseName": call["DatabaseName"], "VersionId": str(next(self._versions)), **call["TableInput"]}
        self.tables[table["Name"]] = deepcopy(table)

    def _refuse(self, code: str) -> Exception:
        kind: type[ClientError] = getattr(self.exceptions, code)
        return kind({"Error": {"Code": code, "Message": ""}}, "")
