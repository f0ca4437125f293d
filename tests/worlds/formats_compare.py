"""Comparison of two sets of fixtures, without what depends on the versions of pyarrow and zstandard.

The bytes of a Parquet file and of compressed values may change with these packages, and every version reads them. So
rows, schema and metadata of Parquet files are compared, and the content of compressed values. Everything else is
compared byte by byte.
"""

import gzip
import json
import re
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from aws.zstd import Zstd
from tests.worlds.formats import Files, read_lines
from tidetable.large.forms import derive_version

_FRAME = b"\x28\xb5\x2f\xfd"


def read_files(folder: Path) -> Files:
    """Read the files of a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def find_differences(kept: Files, made: Files) -> list[str]:
    """Describe the differences between two sets of fixtures, one line per file."""
    names = {**_name_by_content(kept), **_name_by_content(made)}
    before, after = (
        {path: _make_comparable(path, body, names) for path, body in files.items()} for files in (kept, made)
    )
    return [
        f"{path}: {_describe_difference(before.get(path), after.get(path))}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _describe_difference(before: list[str] | None, after: list[str] | None) -> str:
    if before is None or after is None:
        return "the file is new" if before is None else "the file is missing"
    rows = zip([*before, ""], [*after, ""], strict=False)
    kept, made = next((old, new) for old, new in rows if old != new)
    start = next((at for at, pair in enumerate(zip(kept, made, strict=False)) if pair[0] != pair[1]), 0)
    cut = slice(max(start - 40, 0), start + 120)
    return f"was …{kept[cut]}…, is …{made[cut]}…"


def _name_by_content(files: Files) -> dict[str, str]:
    """Return the texts that are calculated from compressed bytes, each with a text that is calculated from the content."""
    names: dict[str, str] = {}
    for path, body in files.items():
        if path.endswith(".parquet"):
            size, digest = len(body), sha256(body).hexdigest()
            names[f'"size":{size},"sha256":"{digest}"'] = names[f'"size": {size},\n      "sha256": "{digest}"'] = path
        elif path.endswith(".parts.ndjson"):
            for payload in _join_chunks(body):
                names[derive_version(payload)] = sha256(Zstd().expand(payload)).hexdigest()[:24]
    for path, body in files.items():
        if path.endswith("_manifest.json"):
            # The catalog's entry of an archive has the size of all of its files.
            manifest = json.loads(body)
            names[f'"bytes": {{"N": "{manifest["size"]}"}}, "events": {{"N": "{manifest["events"]}"}}'] = path
            names[f'"size": {manifest["size"]},\n  "digest": "{manifest["digest"]}"'] = path
    return names


def _join_chunks(body: bytes) -> Iterator[bytes]:
    chunks: dict[str, dict[int, bytes]] = {}
    for item in read_lines(body):
        value, _, number = item["pk"]["S"].rpartition("#")
        chunks.setdefault(value, {})[int(number)] = item["b"]["B"]
    for numbered in chunks.values():
        yield b"".join(numbered[number] for number in sorted(numbered))


def _make_comparable(path: str, body: bytes, names: dict[str, str]) -> list[str]:
    if path.endswith(".parquet"):
        return list(_read_parquet(body))
    if body.startswith(_FRAME):
        return [Zstd().expand(body).decode()]
    text = gzip.decompress(body).decode() if path.endswith(".gz") else body.decode()
    # The description at the end of a Parquet file names the version of pyarrow.
    text = re.sub(r'("footer": ?)\d+', r"\1", text)
    if path.endswith(".parts.ndjson"):
        text = "\n".join(sorted({item["pk"]["S"].rpartition("#")[0] for item in read_lines(body)}))
    elif path.startswith("tables/"):
        text = "\n".join(json.dumps(_expand(item), ensure_ascii=False, default=repr) for item in read_lines(body))
    for name, content in names.items():
        text = text.replace(name, content)
    return text.split("\n")


def _expand(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _expand(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_expand(inner) for inner in value]
    return Zstd().expand(value) if isinstance(value, bytes) and value.startswith(_FRAME) else value


def _read_parquet(body: bytes) -> Iterator[str]:
    """Yield what a reader of a Parquet file sees: columns and their types, metadata, row groups, rows."""
    file = pq.ParquetFile(BytesIO(body))
    yield from (f"{field.name}: {field.type}" for field in file.schema_arrow)
    yield from (f"{name!r} = {value!r}" for name, value in sorted((file.schema_arrow.metadata or {}).items()))
    yield f"{file.num_row_groups} row groups"
    yield from map(repr, file.read().to_pylist())
