"""A bucket in memory, and a format for parts that is quick to write and read."""

from collections.abc import Callable, Sequence

from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import read_archive
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message, encode_message
from tidetable.ports import ArchivePage, ArchiveRange


class FakeBucket:
    """``strike`` is called before each request, and may raise."""

    def __init__(self, strike: Callable[[], None] = lambda: None) -> None:
        self.objects: dict[str, bytes] = {}
        self._strike = strike

    def put(self, key: str, body: bytes) -> None:
        self._strike()
        self.objects[key] = body

    def get(self, key: str) -> bytes:
        self._strike()
        return self.objects[key]

    def clear(self, prefix: str) -> None:
        self._strike()
        for key in [one for one in self.objects if one.startswith(prefix)]:
            del self.objects[key]


class FakeFormat:
    """Parts as overflow messages."""

    def encode(self, events: Sequence[Event]) -> bytes:
        return encode_message("", events).encode()

    def decode(self, body: bytes) -> Sequence[Event]:
        return decode_message(body.decode())[1]


class FakeBucketReader:
    """Reads archives from a FakeBucket; what was decoded is kept."""

    def __init__(self, bucket: FakeBucket) -> None:
        self._bucket = bucket
        self._parts: dict[str, Sequence[Event]] = {}
        self._manifests: dict[bytes, Manifest] = {}

    def manifest(self, key: str) -> Manifest:
        body = self._bucket.objects[key]
        if body not in self._manifests:
            self._manifests[body] = Manifest.decode(body)
        return self._manifests[body]

    def events(self, part: Part, low: str, high: str) -> Sequence[Event]:
        if part.sha256 not in self._parts:
            self._parts[part.sha256] = FakeFormat().decode(self._bucket.objects[part.key])
        return self._parts[part.sha256]

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        return read_archive(keys, self, limit=limit, ascending=ascending)
