"""Answers about closed time: what identifies them, what may change them, and the pages that a process keeps.

Closed time is older than the window of the stream. Nevertheless its events may change: by events that waited in the
overflow, by a backfill, by a restore, by new cells of a rollup. So a process keeps a page for ``KEPT`` only, and a client
that has a page asks whether the page still holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec.structs import replace

from tidetable.archive_expiry import ShownCatalog
from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.query.model import Query, QueryBased, Reader, Selection
from tidetable.query.page import Answer
from tidetable.query.plan import plan_page
from tidetable.query.render import AnswerForm
from tidetable.query.rollup_sources import list_definitions
from tidetable.version import VERSION

# A kept page is at most this old.
KEPT = timedelta(seconds=5)
# The most pages that a process keeps, and their most bytes.
MOST_PAGES, MOST_BYTES = 64, 16_000_000
# A tag of archived time is made of at most this number of the catalog's entries: to compare it takes up to 25 read units.
MOST_ENTRIES = 400
_OF_ARCHIVES = re.compile(r"(\d{1,3})([+.])-[0-9a-f]{32}")
_encode = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode
_Page = TypeVar("_Page")


def compute_digest(*parts: Any, body: str = "") -> str:
    """Compute a digest of values and of a body, which is the same in each process."""
    return sha256(_encode(parts) + body.encode()).hexdigest()[:32]


class _SeenCatalog(ShownCatalog):
    """A catalog that remembers how often it was read, the entries that it has shown, and its last walk."""

    seen: list[Entry] = msgspec.field(default_factory=list)
    reads: int = 0
    walked: Iterator[Entry] = iter(())

    def choose_view(self, stream: str) -> Callable[[Entry], Entry]:  # noqa: ARG002 - see ShownCatalog
        """Choose the entry itself, and remember it."""
        self.reads += 1

        def show(entry: Entry) -> Entry:
            self.seen.append(entry)
            return entry

        return show

    def walk(self, *args: Any, **options: Any) -> Iterator[Entry]:
        self.walked = super().walk(*args, **options)
        return self.walked


class PastQuestion(msgspec.Struct):
    """A question about closed time. ``reader`` is for its answer: it remembers which entries the answer needs.

    Two questions with one ``identity`` have one answer, as long as nothing stored changes.
    """

    query: Selection
    reader: Reader
    identity: str
    catalog: _SeenCatalog

    @classmethod
    def make(cls, query: Selection, form: AnswerForm, policy: Stream, reader: Reader, rights: Any) -> Self:
        """Make the question of a caller with ``rights``.

        The rights are in the identity, so no page and no tag passes from a key to a key with other rights. Whatever
        changes answers about archived time without a change of an entry belongs into the identity: the version of the
        code, the configuration of the stream and, if stored events can be erased, the number of the last erasure.
        """
        catalog = _SeenCatalog(reader.catalog)
        identity = compute_digest(VERSION, query, form, policy, rights)
        return cls(query, replace(reader, catalog=catalog), identity, catalog)

    def make_tag(self, answer: Answer) -> str | None:
        """Make a tag that proves, without reading an event, that the answer still holds; None if there is no such proof.

        The answer is about archived and deleted periods only. Their events change only if a period is restored, which
        its entry shows for ever: each archive has its own time. The tag has the number of the entries that the answer
        needed, and ``.`` if the answer has the end of its range: then a further entry would change it.

        Callers with a series prefix get none: entries depend on the events of other series. Answers from rollups
        depend on cells, too.
        """
        seen = list(self._choose_entries(self.catalog.seen))
        rolled = isinstance(self.query, QueryBased) and list_definitions(self.query.stream, self.reader)
        if self.reader.access.series_prefix or rolled or self.catalog.reads != 1 or len(seen) > MOST_ENTRIES:
            return None
        # The events of a table may change, and no entry shows it.
        if any(entry.live for entry in seen):
            return None
        return f"{len(seen)}{'+' if answer.next else '.'}-{compute_digest(self.identity, seen)}"

    def _choose_entries(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Choose the entries of the range: a read of the catalog also has the period that begins where the range ends."""
        return (entry for entry in entries if entry.period.start < self.query.end)

    def find_valid(self, tags: Iterable[str]) -> str | None:
        """Find the first tag of archived time, if the catalog proves that its answer still holds."""
        found = next(filter(None, map(_OF_ARCHIVES.fullmatch, tags)), None)
        if found is None or int(found[1]) > MOST_ENTRIES:
            return None
        count, query, catalog = int(found[1]), self.query, _SeenCatalog(self.catalog.catalog)
        if isinstance(query, Query):
            # The plan begins the walk over exactly the entries of this page. Other questions walk from the oldest on.
            plan_page(catalog, query, consistent=False)
        else:
            after = query.query.after if isinstance(query, QueryBased) else None
            catalog.walk(query.stream, after.time if after else query.start, query.end, ascending=True)
        present = list(islice(self._choose_entries(catalog.walked), count + (found[2] == ".")))
        made = f"{len(present)}{found[2]}-{compute_digest(self.identity, present)}"
        return made if made == found[0] else None


class KeptPages(Generic[_Page]):
    """The pages that a process keeps, by the identities of their questions: at most ``MOST_PAGES`` and ``MOST_BYTES``."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[datetime, int, _Page]] = {}

    def find(self, identity: str, now: datetime) -> tuple[_Page, timedelta] | None:
        """Find a page and its age; None if there is none, or if it is too old."""
        kept = self._pages.get(identity)
        # A clock that was set back says nothing about the age.
        if kept is None or not timedelta(0) <= now - kept[0] < KEPT:
            return None
        return kept[2], now - kept[0]

    def keep(self, identity: str, page: _Page, size: int, now: datetime) -> None:
        """Keep a page of ``size`` bytes that was read since ``now``, and drop the oldest pages that have no room."""
        pages = {name: kept for name, kept in self._pages.items() if name != identity and now - kept[0] < KEPT}
        pages[identity] = now, size, page
        while len(pages) > MOST_PAGES or sum(kept[1] for kept in pages.values()) > MOST_BYTES:
            del pages[next(iter(pages))]
        self._pages = pages
