"""A client of boto3 in memory: it keeps its requests and answers what it is told."""

from typing import Any

from botocore.exceptions import ClientError


class Client:
    """A client that keeps its requests. It answers ``answers`` by operation, and refuses an operation that has a code."""

    def __init__(self, codes: dict[str, str] | None = None, **answers: Any) -> None:
        self.codes, self.answers = codes or {}, answers
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**members: Any) -> Any:
            self.sent.append((operation, members))
            if operation in self.codes:
                raise ClientError({"Error": {"Code": self.codes[operation], "Message": "why"}}, operation)
            return self.answers.get(operation, {})

        return call

    def get_paginator(self, operation: str) -> Any:
        client = self

        class Pages:
            def paginate(self, **members: Any) -> Any:
                client.sent.append((operation, members))
                yield from client.answers.get(operation, ())

        return Pages()
