"""The files of an import: local files, or objects in S3, which are fetched one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cli.errors import CommandError
from cli.journal import fingerprint_file

_S3 = "s3"


class Input(NamedTuple):
    """A file: its name, a text that changes with its content, and its bytes. ``key`` is set if it is an object in S3."""

    name: str
    fingerprint: str
    size: int
    bucket: str = ""
    key: str = ""


def list_inputs(names: Sequence[str], open_s3: Callable[[], Any]) -> list[Input]:
    """List the files of arguments, in their order; a prefix in S3 stands for its objects, in the order of their keys."""
    found: list[Input] = []
    for name in names:
        parts = urlsplit(name)
        if parts.scheme == _S3:
            own = list(_list_objects(parts.netloc, parts.path.lstrip("/"), open_s3()))
            if not own:
                raise CommandError(f"{name} has no objects")
            found += own
            continue
        path = Path(name)
        if not path.is_file():
            raise CommandError(f"{name} is not a file")
        found.append(Input(name, fingerprint_file(path), path.stat().st_size))
    if len({own.name for own in found}) < len(found):
        raise CommandError("a file is named twice")
    return found


def _list_objects(bucket: str, prefix: str, client: Any) -> Iterator[Input]:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            key = entry["Key"]
            # Some programs write empty objects that stand for folders, or say that a job is done.
            if entry["Size"] and not key.rpartition("/")[2].startswith("_"):
                yield Input(f"s3://{bucket}/{key}", entry["ETag"], entry["Size"], bucket, key)


@contextmanager
def open_input(own: Input, folder: Path, open_s3: Callable[[], Any]) -> Iterator[Path]:
    """Yield the path of a file; an object is fetched into the folder, and removed afterwards."""
    if not own.key:
        yield Path(own.name)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / own.key.rpartition("/")[2]
    try:
        answer = open_s3().get_object(Bucket=own.bucket, Key=own.key)
        if answer["ETag"] != own.fingerprint:
            raise CommandError(f"{own.name} has changed since it was listed: --again begins anew")
        with path.open("wb") as file:
            for piece in answer["Body"].iter_chunks(1 << 20):
                file.write(piece)
        yield path
    finally:
        path.unlink(missing_ok=True)
