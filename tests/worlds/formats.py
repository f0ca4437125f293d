"""Stages in this process that are written to files and loaded from them, with archives in the deployed format."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from aws.archive.chosen_rows import OpenPart
from aws.archive.column_read import read_page
from aws.archive.parquet import Parquet
from aws.objects import S3Values
from tests.fakes.bucket import FakeBucketReader
from tests.fakes.queue import Message
from tests.fakes.stage import Stage
from tests.worlds.parts import read_part
from tidetable.archive.manifest import Part
from tidetable.archive.reading import ArchivedEvent
from tidetable.archive.wire import decode_columns, encode_columns
from tidetable.layout import Key, Layout
from tidetable.ports import ArchiveColumns, ArchiveRange, Blob, WholeRange
from tidetable.times import from_text, to_text
from wiring_upkeep import Upkeep

# The contents of files by their paths below the folder of the fixtures.
Files = dict[str, bytes]


class _PartReader(FakeBucketReader):
    """Reads archives of the deployed format from a bucket in memory."""

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        def open_part(part: Part) -> OpenPart:
            return OpenPart(pq.ParquetFile(BytesIO(self._bucket.objects[part.key])))

        return decode_columns(encode_columns(read_page(keys, self.manifest(keys.manifest), open_part).text))

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        return read_part(self._bucket.objects[part.key], keys, layout, ascending=ascending)


class FormatStage(Stage):
    """A stage whose archives are Parquet. It records the requests that created its tables."""

    def __init__(self, start: datetime, config: str) -> None:
        super().__init__(start, config)
        self.created: dict[str, Any] = {}
        call = self.dynamo.call

        def record_call(operation: str, payload: Any) -> Any:
            if operation == "CreateTable":
                self.created[payload["TableName"]] = payload
            return call(operation, payload)

        self.dynamo.call = record_call  # type: ignore[method-assign]

    @property
    def pipeline(self) -> Upkeep:
        pipeline = super().pipeline
        pipeline.format = Parquet()
        pipeline.archive_reader = _PartReader(self.bucket)
        return pipeline


class _Objects:
    """The client of S3, for the metadata of one object."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def put_object(self, *, Metadata: dict[str, str], **_: Any) -> None:  # noqa: N803
        self.facts["Metadata"] = Metadata

    def head_object(self, **_: Any) -> dict[str, Any]:
        return self.facts


def _describe_object(blob: Blob, written: datetime) -> dict[str, Any]:
    """Return the metadata of an object in S3, and when it was written."""
    client: Any = _Objects({"LastModified": to_text(written)})
    assert S3Values(lambda: client, "bucket").put(blob)
    facts: dict[str, Any] = client.facts
    return facts


def _read_owner(key: str, facts: dict[str, Any]) -> Key:
    client: Any = _Objects(facts)
    owner = S3Values(lambda: client, "bucket").owner(key)
    assert owner is not None
    return owner


def dump_stage(stage: FormatStage) -> Files:
    """Return everything that a stage stores, as files."""
    names = sorted(stage.dynamo.account.tables)
    tables = [stage.created[name] for name in names if name in stage.created]
    values = stage.values
    queues = {"overflow": stage.queue.messages, "dead_letters": stage.queue.dead}
    return {
        "tables.ndjson": encode_lines(tables),
        **{f"tables/{name}.ndjson": encode_lines(items) for name in names if (items := _list_items(stage, name))},
        **{f"archives/{key}": body for key, body in stage.bucket.objects.items()},
        **{f"values/{key}": blob.body for key, blob in values.blobs.items()},
        "values.json": encode_document(
            {key: _describe_object(blob, values.written[key]) for key, blob in sorted(values.blobs.items())}
        ),
        **{
            f"queues/{name}.ndjson": encode_lines([message.body for message in queue]) for name, queue in queues.items()
        },
    }


def load_stage(stage: FormatStage, files: Files) -> None:
    """Fill a stage, whose catalog is empty, with what ``dump_stage`` returned."""
    for request in read_lines(files["tables.ndjson"]):
        stage.client.create_table(**request)
        # The service throttles an account that creates many tables at once.
        stage.clock.sleep(1)
    stage.clock.sleep(120)
    stage.dynamo.account.settle()
    facts = json.loads(files["values.json"])
    for path, body in files.items():
        folder, _, name = path.partition("/")
        if folder == "tables":
            for item in read_lines(body):
                put = {"TableName": name.removesuffix(".ndjson"), "Item": item}
                stage.dynamo.account.engine.call("PutItem", put)
        elif folder == "archives":
            stage.bucket.objects[name] = body
        elif folder == "values":
            stage.values.blobs[name] = Blob(name, body, _read_owner(name, facts[name]))
            stage.values.written[name] = from_text(facts[name]["LastModified"])
    for text in read_lines(files["queues/overflow.ndjson"]):
        stage.queue.push(text)
    stage.queue.dead += [Message(text, stage.clock.now()) for text in read_lines(files["queues/dead_letters.ndjson"])]
    stage.settle()


def _list_items(stage: Stage, table: str) -> list[Any]:
    answer = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})
    return sorted(answer["Items"], key=lambda item: (item["pk"]["S"], item.get("sk", {"S": ""})["S"]))


def encode_document(document: Any) -> bytes:
    """Encode a document as JSON that people can read."""
    return (json.dumps(document, indent=1, ensure_ascii=False, default=_encode_binary) + "\n").encode()


def encode_lines(rows: list[Any]) -> bytes:
    """Encode values as NDJSON; bytes become Base64, as in DynamoDB's JSON."""
    lines = [json.dumps(row, ensure_ascii=False, sort_keys=True, default=_encode_binary) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def read_lines(body: bytes) -> list[Any]:
    """Read what ``encode_lines`` wrote."""
    return [json.loads(line, object_hook=_decode_binary) for line in body.decode().split("\n") if line]


def _encode_binary(value: Any) -> str:
    return b64encode(bytes(value)).decode()


def _decode_binary(value: Mapping[str, Any]) -> Any:
    inner = value.get("B")
    return {"B": b64decode(inner)} if len(value) == 1 and isinstance(inner, str) else value
