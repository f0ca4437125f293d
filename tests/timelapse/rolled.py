"""The checks of rollups while a stage lives: an aggregate from them is that of the events, and outlives the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.stage import Stage
from tests.timelapse.course import START
from tests.timelapse.sent import Sent
from tests.worlds.aggregates import STATS, Rows, ask_aggregate, rollups_of, rows_of, tally
from tidetable.times import to_text

HOUR = timedelta(hours=1)
PERCENTILES = f"{STATS},p50,p99"
# By stream: the step, the groups, and the statistics of the field n (None: the number of events) of each query.
QUERIES: dict[str, list[tuple[timedelta, tuple[str, ...], str | None]]] = {
    "daily": [(HOUR, ("series",), PERCENTILES), (24 * HOUR, (), STATS), (HOUR, ("kind",), None)],
    "fleeting": [(HOUR, ("series",), PERCENTILES), (6 * HOUR, (), STATS)],
}
# The first buckets begin some minutes after the deploy. What was sent before is lost with its table.
FIRST = START + 6 * HOUR
# After its window a step is remembered: by then it changes no more.
CLOSED = timedelta(hours=8)


class RollupChecks:
    """Compares aggregates from rollups with those from events, with the sent events, and with earlier answers."""

    def __init__(self, stage: Stage, sent: Sent, outcomes: Counter[str], complain: Callable[[str], None]) -> None:
        self.stage = stage
        self.sent = sent
        self.outcomes = outcomes
        self.complain = complain
        # By query, step and group: the row of a step that changes no more.
        self.remembered: dict[tuple[str, int], Rows] = {}

    def check(self, start: datetime | None = None) -> None:
        """Compare every query of the last two days, or from a start on."""
        stage = self.stage
        faults, stage.dynamo.faults.active = stage.dynamo.faults.active, []
        stage.settle()
        now = stage.clock.now()
        since = max(start or now.replace(hour=0, minute=0, second=0, microsecond=0) - 48 * HOUR, FIRST)
        since = since.replace(hour=since.hour // 6 * 6)
        for stream, queries in QUERIES.items():
            # What waits in the queue or in the bucket is in no answer.
            quiet = not any(f'"{stream}"' in message.body for message in stage.queue.messages)
            quiet &= not any(key.startswith(f"saved/stream={stream}/") for key in stage.values.blobs)
            events, unsure = self._events(stream, since, now)
            for number, (step, by, stats) in enumerate(queries):
                begin = since if step < 24 * HOUR else since.replace(hour=0) + 24 * HOUR * (since.hour > 0)
                if begin < now:
                    self._compare((stream, number), begin, now, step, by, stats, events if quiet else None, unsure)
        stage.dynamo.faults.active = faults

    def _compare(
        self,
        name: tuple[str, int],
        start: datetime,
        now: datetime,
        step: timedelta,
        by: tuple[str, ...],
        stats: str | None,
        events: list[Mapping[str, Any]] | None,
        unsure: set[datetime],
    ) -> None:
        asked = {"step": f"{step // timedelta(minutes=1)}m", "stat": stats or "count"}
        asked |= {"by": ",".join(by)} if by else {}
        asked |= {"field": "n"} if stats else {}
        rolled = ask_aggregate(self.stage, name[0], start, now, **asked)
        raw = ask_aggregate(self.stage, name[0], start, now, **asked, rollups="false")
        for rollup in rollups_of(rolled):
            self.outcomes[f"answered by {rollup}"] += 1
        if rolled.gaps:
            self.complain(f"{name} has gaps with rollups: {rolled.gaps}")
        # What was deleted without an archive is behind the gaps of what the events answer.
        gone = to_text(max((gap.end for gap in raw.gaps), default=start))
        shown, own = (rows_of(answer, asked["stat"]) for answer in (rolled, raw))
        self._complain_of(name, "events", shown, own, lambda key: key[0] >= gone)
        if events is not None:
            vague = {to_text(start + (time - start) // step * step) for time in unsure if time >= start}
            sent = tally(
                (event for event in events if event["time"] >= to_text(start)), step, by, "n" if stats else None
            )
            plain = {key: {stat: row[stat] for stat in sent.get(key, row)} for key, row in shown.items()}
            self._complain_of(name, "sent", plain, sent, lambda key: key[0] not in vague)
            known = self.remembered.setdefault(name, {})
            self._complain_of(
                name,
                "remembered",
                {key: row for key, row in shown.items() if key in known},
                {key: row for key, row in known.items() if key[0] >= to_text(start)},
                lambda _: True,
            )
            if name[0] == "fleeting":
                known |= {key: row for key, row in shown.items() if key[0] < to_text(now - step - CLOSED)}
        self.outcomes["aggregated rows"] += len(shown)
        self.outcomes["aggregated rows of deleted events"] += sum(key[0] < gone for key in shown)

    def _complain_of(
        self, name: tuple[str, int], what: str, shown: Rows, wanted: Rows, counts: Callable[[tuple[str, Any]], bool]
    ) -> None:
        wrong = [key for key in shown.keys() | wanted.keys() if counts(key) and shown.get(key) != wanted.get(key)]
        for key in sorted(wrong, key=str)[:3]:
            self.complain(
                f"{name} from rollups at {key}: {shown.get(key)}, {what}: {wanted.get(key)} ({len(wrong)} rows)"
            )

    def _events(self, stream: str, start: datetime, end: datetime) -> tuple[list[Mapping[str, Any]], set[datetime]]:
        """The events of a range as they must be stored, and the times of those of which that is not known."""
        events: list[Mapping[str, Any]] = []
        unsure: set[datetime] = set()
        first, last = to_text(start), to_text(end)
        for (name, id), sendings in self.sent.sendings.items():
            if name != stream or not first <= sendings[0].event["time"] < last:
                continue
            allowed = self.sent.may_show((name, id))
            if len(allowed) == 1 and sendings[-1].sure:
                events.append(allowed[0])
            else:
                unsure.add(datetime.fromisoformat(sendings[0].event["time"]))
        return events, unsure
