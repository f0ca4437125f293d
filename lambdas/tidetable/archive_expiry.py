"""Expired archives: the bucket deletes their files by its own rules, and readers must not look for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tidetable.catalog import Backfill, Entry
from tidetable.config import Config
from tidetable.ports import WALKED_AT_ONCE, CatalogReader, Clock

if TYPE_CHECKING:
    from tidetable.copies.reader import Copies


def find_archive_expiry(entry: Entry, config: Config) -> datetime | None:
    """Return the instant from which S3 may have deleted an entry's archive; None if there is no archive, or it is kept
    for ever.

    AWS: a lifecycle rule deletes an object at the first midnight (UTC) after the rule's number of days, or later.
    """
    lifetime, facts = config.find_keeping(entry.stream).expire_after, entry.archive
    return (facts.oldest or facts.at) + lifetime if lifetime and facts is not None else None


def mark_expired(entry: Entry, config: Config, now: datetime) -> Entry:
    """Return the entry at an instant: an archive that has expired by then is marked, if it is not marked yet."""
    expires = find_archive_expiry(entry, config)
    if entry.archive is None or entry.archive.expired_at is not None or expires is None or now < expires:
        return entry
    return replace(entry, archive=replace(entry.archive, expired_at=expires))


def show_present(catalog: CatalogReader, config: Config, clock: Clock, copies: Copies | None) -> CatalogReader:
    """Return the catalog for readers of events: the catalog itself if no archive expires and there are no copies."""
    # A removed stream has the rules of [archive].
    expires = any(config.find_keeping(stream).expire_after for stream in ("", *config.streams))
    return PresentCatalog(catalog, config, clock, copies) if expires or copies is not None else catalog


class ShownCatalog(msgspec.Struct):
    """A catalog for readers of events that shows each entry by a function of its own, which ``choose_view`` chooses."""

    catalog: CatalogReader

    def choose_view(self, stream: str) -> Callable[[Entry], Entry]:
        """Choose the function that shows the entries of a stream, once for each read."""
        raise NotImplementedError

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        return list(map(self.choose_view(stream), self.catalog.entries(stream, start, end, consistent=consistent)))

    def walk(
        self,
        stream: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        ascending: bool = False,
        consistent: bool = False,
        at_once: int = WALKED_AT_ONCE,
    ) -> Iterator[Entry]:
        options = {"ascending": ascending, "consistent": consistent}
        return map(self.choose_view(stream), self.catalog.walk(stream, start, end, at_once=at_once, **options))

    def backfills(self, stream: str) -> Sequence[Backfill]:
        return self.catalog.backfills(stream)

    def secret(self) -> bytes:
        return self.catalog.secret()

    def read_share(self, lease: str) -> datetime | None:
        return self.catalog.read_share(lease)


class PresentCatalog(ShownCatalog):
    """The catalog for readers of events: an archive expires at its exact instant, not when the catalog records it.

    With ``copies``, it is the catalog's own copy in another Region: only the tables with copies there can be read, and a
    consistent read sees only writes that have arrived there.
    """

    config: Config
    clock: Clock
    copies: Copies | None = None

    def choose_view(self, stream: str) -> Callable[[Entry], Entry]:
        """Choose the function that makes an entry of a stream as readers see it now."""
        expires, now, copies = self.config.find_keeping(stream).expire_after, self.clock.now(), self.copies

        def show(entry: Entry) -> Entry:
            shown = mark_expired(entry, self.config, now) if expires else entry
            return shown if copies is None else copies.show_entry(shown)

        return show
