"""The floor of ``bench.query``: the same items are read, split and joined to an answer, with none of the project's types.

It signs and sends one request per partition and page, decodes each page into structs of exactly these fields, sorts the
items, and joins their texts. It makes no refs and no cursor, and checks nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from io import BufferedReader
from typing import cast

import msgspec

from aws.http.credentials import Credentials
from aws.http.signing import Signer

CONNECTIONS = 8
_LINE_END, _BUFFER = b"\r\n", 65_536


class _Number(msgspec.Struct, gc=False):
    N: str


class _Text(msgspec.Struct, gc=False):
    S: str


class _Fields(msgspec.Struct, gc=False):
    mag: _Number
    place: _Text
    status: _Text
    depth: _Number


class _Map(msgspec.Struct, gc=False):
    M: _Fields


class _Item(msgspec.Struct, gc=False):
    sk: _Text
    data: _Map


class _Page(msgspec.Struct):
    Items: list[_Item]
    LastEvaluatedKey: msgspec.Raw = msgspec.Raw(b"")


class Floor:
    """Reads whole partitions of tables whose items have the fields of ``bench.fill``. ``port`` is DynamoDB Local's."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        self._answers = [cast("BufferedReader", connection.makefile("rb", _BUFFER)) for connection in self._sockets]
        self._signer = Signer(f"127.0.0.1:{port}", "us-east-1")
        self._keys = Credentials("bench", "bench")
        self._host = f"127.0.0.1:{port}".encode()
        self._decode: Callable[[bytes], _Page] = msgspec.json.Decoder(_Page).decode

    def answer(self, partitions: list[tuple[str, str]]) -> str:
        """Read all items of partitions (table, key), newest first; return the text of an answer."""
        items: list[_Item] = []
        waiting: list[tuple[str, str, bytes]] = [(table, key, b"") for table, key in partitions]
        while waiting:
            some, waiting = waiting[:CONNECTIONS], waiting[CONNECTIONS:]
            for connection, request in zip(self._sockets, some, strict=False):
                connection.sendall(self._make_request(*request))
            for answer, (table, key, _) in zip(self._answers, some, strict=False):
                page = self._decode(_read_body(answer))
                items += page.Items
                if last := bytes(page.LastEvaluatedKey):
                    waiting.append((table, key, last))
        items.sort(key=lambda item: item.sk.S, reverse=True)
        return f'{{"events":[{",".join(map(_join_item, items))}]}}'

    def _make_request(self, table: str, key: str, start: bytes) -> bytes:
        further = b',"ExclusiveStartKey":' + start if start else b""
        body = (
            f'{{"TableName":"{table}","ScanIndexForward":false,"ReturnConsumedCapacity":"TOTAL",'
            f'"KeyConditionExpression":"pk = :pk","ExpressionAttributeValues":{{":pk":{{"S":"{key}"}}}}'
        ).encode() + further
        body += b"}"
        headers = self._signer.make_headers("DynamoDB_20120810.Query", body, datetime.now(UTC), self._keys)
        return b"POST / HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: identity\r\nContent-Length: %d\r\n%s\r\n%s" % (
            self._host,
            len(body),
            headers,
            body,
        )


def _join_item(item: _Item) -> str:
    time, series, id = item.sk.S.split("#")
    data = item.data.M
    return (
        f'{{"series":"{series}","time":"{time}","id":"{id}","data":{{"mag":{data.mag.N},"place":"{data.place.S}",'
        f'"status":"{data.status.S}","depth":{data.depth.N}}}}}'
    )


def _read_body(answer: BufferedReader) -> bytes:
    """Read a body in one piece, or in chunks, as DynamoDB Local sends a long body."""
    length = None
    while (line := answer.readline()) != _LINE_END:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if length is not None:
        return answer.read(length)
    chunks = []
    while size := int(answer.readline(), 16):
        chunks.append(answer.read(size))
        answer.readline()
    answer.readline()
    return b"".join(chunks)
