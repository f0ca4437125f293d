"""The periods in which series have their last events: how they are packed into slots, and what they exclude.

A slot holds pairs of a hash of a series and the start of a period, sorted by the hash. Two series with one hash share a
pair, with the later of their periods. So a pair never says that a series has no event in a period where it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from struct import Struct

from tidetable.periods import Period
from tidetable.ports.rollups import LastPeriods, RollupState, Span
from tidetable.rollup_model.bounds import REBUILT
from tidetable.times import EPOCH, MOMENT

# Of 300 series, a slot has 3.6 KB. AWS: a read unit reads 4 KB, a write unit writes 1 KB.
_SLOT_SERIES, _MOST_SLOTS = 300, 8_192
_HASH_BYTES = 8
_HASHES = 1 << 8 * _HASH_BYTES
_PAIR = Struct(">QI")
_HOUR = timedelta(hours=1)
# It stands for the instant since which series are noted, in the record of a stream without rollups. A former version, whose
# requests put no marks, wrote another.
UNNOTED = EPOCH + MOMENT
# Such a record counts until so long after the next look was due.
_UNLOOKED = timedelta(hours=2)

# A hash, and the start of a period.
Pair = tuple[int, datetime]


def hash_series(series: str) -> int:
    """Compute the hash of a series."""
    return int.from_bytes(blake2b(series.encode(), digest_size=_HASH_BYTES).digest())


def choose_slots(series: int) -> int:
    """Choose the number of slots for a number of series."""
    return min(max(-(-series // _SLOT_SERIES), 1), _MOST_SLOTS)


def find_slot(hashed: int, slots: int) -> int:
    """Find the slot of a hash. Slots are in the order of hashes, whatever their number is."""
    return hashed * slots // _HASHES


def pack_pairs(pairs: Iterable[Pair]) -> bytes:
    """Make the content of a slot. Every period begins at a whole hour."""
    return b"".join(_PAIR.pack(hashed, (start - EPOCH) // _HOUR) for hashed, start in pairs)


def unpack_pairs(content: bytes) -> Iterator[Pair]:
    """Read the pairs of a slot."""
    return ((hashed, EPOCH + hours * _HOUR) for hashed, hours in _PAIR.iter_unpack(content))


def find_holes(state: RollupState) -> list[Span]:
    """Find the buckets that may have events of series that no pair knows: those with marks of writers."""
    return [(mark.bucket, mark.bucket + mark.length) for mark in state.marks if mark.length > REBUILT]


def is_within(period: Period, spans: Iterable[Span]) -> bool:
    """True if one of the spans has the whole period."""
    return any(start <= period.start and period.end <= end for start, end in spans)


class SeriesPeriods:
    """What is known of some series: none of them has an event in a covered period behind its last period.

    ``covered`` are spans of whole periods, except at their holes; ``starts`` has the start of each series' last period,
    None if the series has no event in a covered period.
    """

    def __init__(self, covered: Sequence[Span], starts: dict[str, datetime | None]) -> None:
        self._covered = covered
        self._starts = starts

    def list_possible(self, series: Iterable[str], period: Period) -> list[str]:
        """List those of the series that may have an event in a period."""
        if not is_within(period, self._covered):
            return list(series)
        lasts = ((name, self._starts[name]) for name in series)
        return [name for name, last in lasts if last is not None and period.start <= last]

    def find_next(self, series: Iterable[str], period: Period) -> tuple[datetime, datetime]:
        """Find how to go on behind a period in which none of the series has an event.

        Return the instant at or before which the next period begins that must be searched, and the instant since which
        none of the series has an event.
        """
        first = next(start for start, end in self._covered if start <= period.start < end)
        lasts = [last for last in map(self._starts.__getitem__, series) if last is not None and last >= first]
        return (max(lasts), period.start) if lasts else (first - MOMENT, first)


def find_usable(
    state: RollupState, since: datetime | None, held_since: datetime | None, now: datetime
) -> LastPeriods | None:
    """Return the record of a stream's last periods, whose series are noted ``since``; None if there is no record that
    counts.

    With rollups, it does not count if notes began anew since then, or if a former version has held the lease of the stage
    since then: this version has held it since ``held_since``. Without rollups, ``since`` is None, and it does not count if
    no run has looked at it for long: a former version may have worked meanwhile.
    """
    last = state.last
    if last is None:
        return None
    if since is None:
        return last if last.since == UNNOTED and now <= last.due + _UNLOOKED else None
    return last if (last.since, last.held) == (since, held_since) else None
