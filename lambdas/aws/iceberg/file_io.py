"""The objects of Iceberg's metadata. No other object of the bucket can be read, written or deleted through this class."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from types import TracebackType
from typing import Self

from pyiceberg.io import FileIO, InputFile, OutputFile

from tidetable.archive.ports import Objects
from tidetable.lake.lake_tables import LAKE


class MetadataFiles(FileIO):
    """The objects of one bucket whose keys begin with ``LAKE``. Their bytes pass through memory: pyarrow is not needed."""

    def __init__(self, objects: Objects, root: str) -> None:
        """``root`` is the address of the bucket, such as ``s3://bucket/``."""
        super().__init__()
        self._objects = objects
        self._root = root

    def find_key(self, location: str) -> str:
        """Find the key of an object; PermissionError if the object is not metadata of a table."""
        key = location.removeprefix(self._root)
        if not location.startswith(self._root) or not key.startswith(LAKE):
            raise PermissionError(f"{location} is not metadata of a table")
        return key

    def new_input(self, location: str) -> InputFile:
        return _Input(location, lambda: self._objects.find(self.find_key(location)))

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self, lambda body: self._objects.put(self.find_key(location), body))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._objects.clear(self.find_key(location if isinstance(location, str) else location.location))


class _Input(InputFile):
    def __init__(self, location: str, find: Callable[[], bytes | None]) -> None:
        super().__init__(location)
        self._find = find

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        return self._find() is not None

    def open(self, seekable: bool = True) -> BytesIO:  # noqa: ARG002 - pyiceberg's signature
        return BytesIO(self._read())

    def _read(self) -> bytes:
        body = self._find()
        if body is None:
            raise FileNotFoundError(self.location)
        return body


class _Output(OutputFile):
    def __init__(self, location: str, files: MetadataFiles, put: Callable[[bytes], None]) -> None:
        super().__init__(location)
        self._files = files
        self._put = put

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return self._files.new_input(self.location)

    def create(self, overwrite: bool = False) -> _Written:  # noqa: ARG002 - pyiceberg's signature
        # The names of metadata have random parts, so there is nothing to overwrite.
        return _Written(self._put)


class _Written(BytesIO):
    """The bytes of an object. They are put when it is closed, unless its block ends with an error."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._put = put

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            super().close()
        self.close()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        if not self.closed:
            body = self.getvalue()
            super().close()
            self._put(body)
