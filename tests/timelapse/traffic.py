"""The senders: a tide over the day, bursts, late events, and events outside of the window. Each is sent until it is
acknowledged.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.timelapse.course import BEGINNING, is_storm
from tests.timelapse.sent import Name, Sending, Sent
from tests.timelapse.vocabulary import AHEAD, Policy
from tidetable.errors import StoreUnavailable
from tidetable.problems import ProblemError
from tidetable.times import to_text

# The values of the field that is indexed later.
KINDS: list[dict[str, Any]] = [{}, {"kind": "calm"}, {"kind": "storm"}, {"kind": ["calm"]}]
SERIES = [f"station/{number}#" for number in range(1, 7)]
# Events per step at mean tide.
MEANS = {"hourly": 0.5, "daily": 0.4, "texts": 0.2, "weekly": 0.1, "monthly": 0.1, "leaving": 0.2, "fleeting": 0.2}
# The streams whose events are sent again with other content, and how often per step.
CORRECTED = {"daily": 0.05, "texts": 0.08, "weekly": 0.03, "monthly": 0.04, "fleeting": 0.02}
# 120 KB compressed: a stream that keeps versions stores this outside of the item. 450 KB: no item can hold this.
LONG, LONGER = noise(240_000, 1), noise(900_000, 2)
# Senders give up after this time.
SLACK = timedelta(minutes=10)


class Traffic:
    """The senders of all streams. ``outcomes`` counts answers; ``complaints`` lists wrong answers."""

    def __init__(self, stage: Stage, outcomes: Counter[str], complaints: list[str]) -> None:
        self.stage = stage
        self.sent = Sent()
        self.outcomes = outcomes
        self.complaints = complaints
        self._numbers = iter(range(10**9))

    def send_all(self, policies: dict[str, Policy]) -> None:
        """Send the events of one step."""
        chance, now = self.stage.chance, self.stage.clock.now()
        tide = 0.5 + 0.5 * math.sin(2 * math.pi * now.hour / 24)
        for stream, policy in policies.items():
            count = int(chance.expovariate(1) * 2 * MEANS[stream] * tide + chance.random())
            if stream in ("hourly", "daily") and chance.random() < 0.0003:
                count += chance.randint(500, 900)
            if stream == "hourly" and is_storm(now) and now.minute < 20:
                self._storm(now)
            events = [self._event(stream, policy, now) for _ in range(count)]
            if stream in CORRECTED and chance.random() < CORRECTED[stream]:
                events += self._corrected(stream, policy, now)
            refused = {}
            if chance.random() < 0.02:
                event, code = self._outside(stream, policy, now)
                refused[len(events)] = code
                events.append(event)
            if events:
                self.send(stream, events, refused)
                if chance.random() < 0.05:
                    self.send(stream, events, refused)

    def _storm(self, now: datetime) -> None:
        """Send more events than a raised table takes with its unused units; at first the queue refuses, too."""
        self.stage.queue.refuses = now.minute < 10
        for _ in range(2):
            events = [self._made("hourly", now) for _ in range(900)]
            for event in events:
                event["data"]["text"] = "~" * 900
            self.send("hourly", events, {})

    def import_history(self, stream: str, span: tuple[datetime, datetime], count: int) -> None:
        """Send the events of a backfill."""
        start, end = span
        times = [start + self.stage.chance.random() * (end - start) for _ in range(count)]
        self.send(stream, [self._made(stream, time) for time in times], {})

    def _event(self, stream: str, policy: Policy, now: datetime) -> dict[str, Any]:
        chance, late = self.stage.chance, policy.late - SLACK
        back = chance.random() * late if chance.random() < 0.1 else timedelta(minutes=chance.uniform(0, 3))
        return self._made(stream, now - back)

    def _made(self, stream: str, time: datetime) -> dict[str, Any]:
        chance = self.stage.chance
        return {
            "series": chance.choice(SERIES),
            "time": to_text(time),
            "id": f"{stream}-{next(self._numbers)}",
            "data": self._data(stream),
        }

    def _data(self, stream: str) -> dict[str, Any]:
        chance = self.stage.chance
        data = {"n": next(self._numbers), "text": "~" * chance.choice([1, 50, 900]), **chance.choice(KINDS)}
        if stream in ("texts", "monthly"):
            data["raw"] = "raw " * chance.choice([1, 300])
        if stream in ("texts", "weekly") and chance.random() < (0.04 if stream == "texts" else 0.1):
            data["text"] = LONG if stream == "texts" else LONGER
            self.outcomes[f"large in {stream}"] += 1
        return data

    def _corrected(self, stream: str, policy: Policy, now: datetime) -> list[dict[str, Any]]:
        """An earlier event with other content, if its time is still in the window."""
        oldest = to_text(now - policy.late + 2 * SLACK)
        known: list[list[Sending]] = [
            sendings
            for name, sendings in reversed([*islice(reversed(self.sent.sendings.items()), 200)])
            if name[0] == stream and sendings[0].event["time"] > oldest and sendings[-1].at < now - SLACK
        ]
        if not known:
            return []
        event = self.stage.chance.choice(known)[-1].event
        self.outcomes[f"corrected in {stream}"] += 1
        return [event | {"data": self._data(stream)}]

    def _outside(self, stream: str, policy: Policy, now: datetime) -> tuple[dict[str, Any], str]:
        """An event outside of the window, and of every backfill, with the expected code."""
        beyond = timedelta(minutes=self.stage.chance.uniform(2, 60))
        if self.stage.chance.random() < 0.5:
            return self._made(stream, now + AHEAD + SLACK + beyond), "too_new"
        # A retention is at least two periods, so no table can take this event.
        time = now - policy.late - beyond if stream != "weekly" else BEGINNING - beyond
        return self._made(stream, time), "too_old"

    def send(self, stream: str, events: list[dict[str, Any]], refused: dict[int, str]) -> None:
        """Send like a client: repeat until the events are acknowledged. ``refused`` are the expected codes of refused
        events.
        """
        body = json.dumps(events).encode()
        names = [(stream, str(event["id"])) for event in events]
        good = [place for place in range(len(events)) if place not in refused]
        self.sent.refused |= {names[place] for place in refused}
        for _ in range(4):
            now = self.stage.clock.now()
            try:
                outcome = self.stage.send(stream, body)
            except ProblemError as error:
                self.outcomes[f"refused {error.problem.status}"] += 1
                if error.problem.status == 422:
                    if good:
                        self.complaints.append(f"{to_text(now)}: {len(good)} good events of {stream} were refused")
                    return
            except StoreUnavailable:
                self.outcomes["ingest failed"] += 1
            else:
                self._acknowledge(names, events, outcome, refused, now)
                return
            for place in good:
                self.sent.note(names[place], events[place], now, sure=False)
        self.outcomes["given up"] += 1

    def _acknowledge(
        self, names: list[Name], events: list[dict[str, Any]], outcome: Any, refused: dict[int, str], now: datetime
    ) -> None:
        codes = {rejection.index: rejection.code for rejection in outcome.rejections}
        if codes != refused:
            self.complaints.append(f"{to_text(now)}: {names[0][0]} refused {codes}, not {refused}")
        for count in ("accepted", "queued", "throttled"):
            self.outcomes[count] += getattr(outcome, count)
        self.outcomes["rejected"] += len(codes)
        for place, (name, event) in enumerate(zip(names, events, strict=True)):
            if place in codes:
                continue
            self.sent.note(name, event, now, sure=True)
            ref = outcome.refs[place]
            if ref is not None:
                self.sent.refs[name] = ref
            else:
                self.complaints.append(f"{to_text(now)}: no table was recorded for {event['time']} of {name}")
