"""The lists of saved messages: what a worker takes from a page, in which order, and when it lists on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from zlib import crc32

from tidetable.ingest.saved_names import OF_STREAM, SAVED_PREFIX, count_backlog, read_stream
from tidetable.large.sweep_ports import Store, Stored

# AWS: a page of a list has 1,000 keys.
LISTED = 1_000
# So many events of a stream are written together, of so many objects. The bytes are compressed: a MB may be ten of JSON,
# and some hundred as objects of Python.
_TURN_EVENTS, _TURN_OBJECTS, _TURN_BYTES = 10_000, 200, 1_000_000


def list_objects(store: Store) -> Mapping[str, Sequence[Stored]]:
    """List the oldest saved messages of each stream, in order of time. "?" has the objects that are no saved messages."""
    objects: dict[str, list[Stored]] = {}
    for found in takewhile(lambda found: found.key < OF_STREAM, store.stored(SAVED_PREFIX)):
        objects.setdefault(read_stream(found.key), []).append(found)
    for stream in store.folders(OF_STREAM):
        objects.setdefault(stream, []).extend(list_stream(stream, store))
    return objects


def list_stream(stream: str, store: Store) -> Sequence[Stored]:
    """List the oldest saved messages of a stream."""
    return list(islice(store.stored(f"{OF_STREAM}{stream}/"), LISTED))


class StreamObjects:
    """The objects of a stream that a worker has not tried yet, of a page. A full page is followed by the next one.

    The objects of the worker's part come first, then the others, whose worker may have been lost. Of a full page the
    worker takes only its part, if there is any: the next page shows what the other workers have left.
    """

    def __init__(self, stream: str, page: Sequence[Stored], part: int, workers: int) -> None:
        self.stream = stream
        self._part, self._workers = part, workers
        self._waiting = deque[Stored]()
        self._left = set[str]()
        self._fill(page)

    def _fill(self, page: Sequence[Stored]) -> None:
        untried = [found for found in page if found.key not in self._left]
        own = [found for found in untried if self._is_own(found)]
        self._is_full = len(page) >= LISTED
        others = () if own and self._is_full else (found for found in untried if not self._is_own(found))
        self._waiting.extend((*own, *others))

    def _is_own(self, found: Stored) -> bool:
        return (crc32(found.key.encode()) - self._part) % self._workers == 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take_group(self) -> Sequence[Stored]:
        """Take the objects that are written together."""
        group, events, size = list[Stored](), 0, 0
        while self._waiting and len(group) < _TURN_OBJECTS:
            first = count_backlog([self._waiting[0]])
            events, size = events + first.events, size + first.bytes
            if group and (events > _TURN_EVENTS or size > _TURN_BYTES):
                break
            group.append(self._waiting.popleft())
        return group

    def leave(self, found: Stored) -> None:
        """Leave an object that cannot be written to a later run."""
        self._left.add(found.key)

    def put_back(self, found: Stored) -> None:
        """Put an object back, which is tried again in this run."""
        self._waiting.append(found)

    def list_on(self, store: Store) -> None:
        """List the next page if all objects of a full page were tried."""
        if self._is_full and not self._waiting:
            self._fill(list_stream(self.stream, store))
