"""The refresher seals a bucket as soon as every further event in it must have a mark. It reseals marked buckets.

The rollups of a stream are a work item: a run claims it, and runs that begin every minute work on different streams at
the same time. A run may stop after any request. Each step can be repeated: the next run does an unfinished step again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from operator import attrgetter
from zlib import crc32

import msgspec
from msgspec.structs import replace

from tidetable.errors import StoreUnavailable, TableThrottled, describe_error
from tidetable.ports.rollups import RollupState
from tidetable.query.model import RESERVE
from tidetable.remaining import limit_time
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import RefreshReport, RefreshRun
from tidetable.rollups.bucket_parts import PART, BucketPart, compute_part, list_parts, remove_parts
from tidetable.rollups.claims import SEAL, hold_sealing, shut_out_former
from tidetable.rollups.due import has_work, measure_lag, measure_waiting
from tidetable.rollups.seal import seal_stream
from tidetable.rollups.services import Divided, Services, ShareUsed, Superseded, Unfinished
from tidetable.work.claim import hold_claim, rests

# The seconds of a run that a stream may use before the other streams had a turn. A bucket that was begun is finished.
_SHARE = 60.0
_SIZES = msgspec.json.Decoder(dict[str, int]).decode


def refresh_rollups(
    definitions: Mapping[str, Sequence[Definition]], services: Services, owner: str, length: timedelta
) -> RefreshReport | None:
    """Refresh the rollups of all streams. ``definitions`` has them by the name of their source stream.

    Returns None while a run of a former version works. ``length`` is the longest time for which this run holds a claim
    (``bounds.choose_lease_length``). A stream that fails does not stop the others, a stream without due work costs one
    request, and a stream that another run has claimed is left to it. Each run begins with a stream that its ``owner``
    chooses: a stream with more work than a run has time for must not take the time of the other streams.
    """
    if not shut_out_former(services, length):
        return None
    return _Turns(definitions, services, owner, length).take()


class _Turns:
    """The turns of one run: of the streams, and of the parts of long buckets."""

    def __init__(
        self, definitions: Mapping[str, Sequence[Definition]], services: Services, owner: str, length: timedelta
    ) -> None:
        self._definitions = definitions
        self._services = services
        self._owner = owner
        self._length = length
        self._report = RefreshReport()
        self._pauses = services.work.list_pauses()
        self._parts = list_parts(services)
        # Of each stream: its marks and its lag after its turn.
        self._standings: dict[str, tuple[int, timedelta]] = {}

    def take(self) -> RefreshReport:
        """Take all turns for which there is time."""
        ordered = list(self._definitions)
        first = crc32(self._owner.encode()) % max(len(ordered), 1)
        waiting = deque(ordered[first:] + ordered[:first])
        while waiting:
            while waiting:
                source = waiting.popleft()
                if self._visit_stream(source):
                    waiting.append(source)
            if self._parts:
                waiting += self._work_on_parts()
        report = self._report
        report.marks = sum(marks for marks, _ in self._standings.values())
        report.lag = max((lag for _, lag in self._standings.values()), default=timedelta(0))
        report.finished &= all(part.item.done for part in self._parts)
        return report

    def _visit_stream(self, source: str) -> bool:
        """Do the due work of a stream, if no other run has it; return True if it needs another turn."""
        services, report = self._services, self._report
        share = limit_time(_SHARE, services.clock, services.remaining)
        definitions = sorted(self._definitions[source], key=attrgetter("every"))
        run = RefreshRun(source, definitions, services, report, share)
        state: RollupState | None = None
        again = False
        try:
            state = services.rollups.read_at_once(source)
            if has_work(definitions, state, services.clock.now()) and not rests(SEAL, source, self._pauses):
                state = None
                self._seal_stream(run)
        except ShareUsed:
            again = True
        except Divided:
            # The parts have their turns after the streams.
            self._parts = list_parts(services)
        except Unfinished:
            report.finished = False
        except Exception as error:  # for example a damaged pack of this stream, which each run finds again
            self._note_failure(source, error)
        with suppress(StoreUnavailable, TableThrottled):
            self._note_standing(run, state or services.rollups.read_at_once(source))
        return again

    def _seal_stream(self, run: RefreshRun) -> None:
        with hold_sealing(self._services, run.source, self._owner, self._length) as held:
            if held is None:
                return
            # Only the run that has the stream adds parts, so none are added from here on.
            own = replace(run, bucket_parts=list_parts(self._services, run.source), sizes=_SIZES(held.memo or "{}"))
            try:
                seal_stream(own)
            finally:
                held.memo = msgspec.json.encode(own.sizes, order="sorted").decode()

    def _note_failure(self, source: str, error: Exception) -> None:
        known = isinstance(error, StoreUnavailable | TableThrottled | Superseded)
        self._report.failed.append(f"{source}: {error if known else describe_error(error)}")

    def _note_standing(self, run: RefreshRun, state: RollupState) -> None:
        now = self._services.clock.now()
        lags = [measure_lag(definition, state, now) for definition in run.definitions]
        self._standings[run.source] = len(state.marks), max([*lags, measure_waiting(state, now)])

    def _work_on_parts(self) -> list[str]:
        """Work on parts, of each stream in turn, until the last part of a bucket is finished; return its stream.

        Returns an empty list if no part is free, or if the time is up.
        """
        services = self._services
        failed: set[str] = set()
        while services.remaining() > RESERVE:
            self._parts = list_parts(services)
            self._remove_unknown()
            free = [part for part in self._parts if part.source not in failed and self._is_free(part)]
            if not free:
                break
            for part in {part.source: part for part in reversed(free)}.values():
                try:
                    is_last = self._work_on_part(part)
                except Unfinished:
                    self._report.finished = False
                    return []
                except Exception as error:
                    failed.add(part.source)
                    self._note_failure(part.source, error)
                else:
                    if is_last:
                        return [part.source]
        return []

    def _is_free(self, part: BucketPart) -> bool:
        until = part.item.until
        busy = until is not None and self._services.clock.now() < until
        return not (part.item.done or busy or rests(SEAL, part.source, self._pauses))

    def _work_on_part(self, part: BucketPart) -> bool:
        """Compute a part; return True if it was the last of its bucket that was not finished."""
        services = self._services
        definition = self._find_definition(part)
        now, length = services.clock.now(), self._length
        with hold_claim(services.work, PART, part.item.name, self._owner, now, length, added=True) as held:
            if held is None or definition is None:
                return False
            compute_part(part, held, definition, services)
        siblings = list_parts(services, part.source)
        return all(other.item.done for other in siblings if other.bucket == part.bucket and other.rollup == part.rollup)

    def _find_definition(self, part: BucketPart) -> Definition | None:
        rollups = self._definitions.get(part.source, ())
        return next((definition for definition in rollups if definition.name == part.rollup), None)

    def _remove_unknown(self) -> None:
        """Remove the parts of rollups that the configuration does not have any more."""
        unknown = [part for part in self._parts if self._find_definition(part) is None]
        remove_parts(unknown, self._services)
        self._parts = [part for part in self._parts if part not in unknown]
