"""A request with new late events is stopped, or loses answers, at each of its calls: each event is in the cells exactly once.

A new late event and its mark are written by one transaction. The transaction's answer may be lost before or behind its
effect, and the effect may come after the request, also after the client has sent the request again. The refresher works
at any moment in between. The cells are compared with what was sent.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from strict.faults import Fault, Kind, NoAnswer
from strict.refusals import Refusal
from tests.fakes.stage import Killed, Stage, prepare_once
from tests.worlds.aggregates import ask_aggregate, rollups_of, rows_of, tally
from tests.worlds.killed import CONFIG, NOON
from tidetable.times import to_text

ROLLED = (
    CONFIG
    + """
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "60d"
[[streams.s.rollup]]
name = "halves"
every = "30m"
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "60d"
"""
)
HOUR, HALF = timedelta(hours=1), timedelta(minutes=30)
# The rollups begin here.
START = NOON + HOUR
_TRANSACTION = "TransactWriteItems"


def event(id: str, minutes: int, n: int, series: str) -> dict[str, Any]:
    return {"series": series, "id": id, "time": to_text(START + timedelta(minutes=minutes)), "data": {"n": n}}


FIRST = [event(f"e{n}", 60 + 10 * n, n, "ab"[n % 2]) for n in range(6)]
# A new event of a group that its hour does not have, a new event of a group that it has, and a corrected event.
LATE = [event("new", 95, 70, "c"), event("other", 71, 90, "b"), event("e3", 90, -7, "b")]
CORRECTED = [sent for sent in FIRST if sent["id"] != "e3"] + LATE


@prepare_once
def sealed() -> Stage:
    """Two hours are sealed, and no event is late. The time is 15:30."""
    stage = Stage(NOON + HALF, ROLLED)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    assert stage.refresh()
    stage.clock.time = START + 2 * HOUR
    assert send(stage, FIRST)
    stage.run_lifecycle()
    stage.clock.time = START + 2 * HOUR + HALF
    assert stage.refresh()
    return stage


def send(stage: Stage, events: list[dict[str, Any]]) -> bool:
    """Send a request; True if every event of it is acknowledged."""
    outcome = stage.send("s", json.dumps(events).encode())
    return (outcome.accepted + outcome.queued, outcome.rejections) == (len(events), [])


def find_stored(stage: Stage) -> list[dict[str, Any]]:
    """The events that were sent and are in the table: its items are read directly."""
    table = f"tidetable-lapse.s.{NOON:%Y-%m-%d}"
    items = stage.dynamo.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    stored = {(item["sk"]["S"].rpartition("#")[2], int(item["data"]["M"]["n"]["N"])) for item in items}
    assert len(stored) == len(items)
    sent = [sent for sent in FIRST + LATE if (sent["id"], sent["data"]["n"]) in stored]
    assert len(sent) == len(items)
    return sent


def check(stage: Stage, events: list[dict[str, Any]], what: object) -> set[str]:
    """Compare the aggregates with what was sent; return the rollups that answered."""
    # A read may be as old as a write whose function was stopped.
    stage.settle()
    used = set[str]()
    for step, by in ((HOUR, ["series"]), (HALF, [])):
        asked = {"step": f"{step // timedelta(minutes=1)}m", "stat": "count,sum,min,max,first,last", "field": "n"}
        found = ask_aggregate(stage, "s", START, START + 2 * HOUR, **asked, **({"by": "series"} if by else {}))
        assert rows_of(found) == tally(events, step, by), what
        used |= rollups_of(found)
    return used


class Struck:
    """A port that calls ``strike`` before each of its requests."""

    def __init__(self, port: Any, strike: Callable[[], None]) -> None:
        self._port, self._strike = port, strike

    def __getattr__(self, name: str) -> Any:
        self._strike()
        return getattr(self._port, name)


def send_struck(stage: Stage, moment: int, act: Callable[[], object]) -> int:
    """Send the late events, and call ``act`` before one of the request's calls, or behind the last; return the number of
    calls.
    """
    calls, ports = 0, (stage.store, stage.rollups, stage.catalog)

    def strike() -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            stage.store, stage.rollups, stage.catalog = ports
            act()

    struck: Any = [Struck(port, strike) for port in ports]
    stage.store, stage.rollups, stage.catalog = struck
    stage.restart()
    assert send(stage, LATE)
    stage.store, stage.rollups, stage.catalog = ports
    if calls < moment:
        act()
    return calls


class Lost:
    """The first transaction of a stage gets no answer. It takes effect ``"before"``, ``"never"`` or at ``arrive``."""

    def __init__(self, stage: Stage, effect: str) -> None:
        self._call, self._effect = stage.dynamo.call, effect
        self.held: list[Mapping[str, Any]] = []
        if effect == "later":
            stage.dynamo.call = self._hold  # type: ignore[method-assign]
        elif effect:
            kind = {"before": Kind.TIMEOUT_AFTER, "never": Kind.TIMEOUT_BEFORE}[effect]
            stage.dynamo.faults.add(Fault(kind, _TRANSACTION, times=1))

    def _hold(self, operation: str, payload: Mapping[str, Any]) -> Any:
        if operation == _TRANSACTION and self._effect:
            self._effect = ""
            self.held.append(payload)
            raise NoAnswer(Kind.TIMEOUT_BEFORE)
        return self._call(operation, payload)

    def arrive(self) -> None:
        """Let the transaction take effect now, unless its conditions refuse it."""
        while self.held:
            with suppress(Refusal):
                self._call(_TRANSACTION, self.held.pop())


def finish(stage: Stage, what: object) -> None:
    """Drain and refresh until everything is added or computed anew; then the cells are right."""
    for _ in range(3):
        stage.clock.sleep(300)
        stage.drain()
        report = stage.refresh()
        assert report is not None
        assert report.failed == [], what
    assert not stage.rollups.read_state("s").marks, what
    assert check(stage, find_stored(stage), what) == {"s-hours", "s-halves"}, what


def list_moments(effect: str) -> range:
    """The moments of a request: before each of its calls, and behind the last."""
    stage = sealed()
    Lost(stage, effect)
    return range(1, send_struck(stage, 1, lambda: None) + 2)


# How the first transaction ends, and what a request can leave that was stopped and is not sent again.
ALL = ("new", "other", "e3")
LEFT = {
    "": {(), ("new",), ("new", "other"), ALL},
    "before": {(), ("new",), ALL},
    "never": {(), ALL},
    "later": {(), ("new",), ALL},
}
IDS = ["answered", "lost behind its effect", "lost before its effect", "effect after the answer was lost"]


@pytest.mark.parametrize(("effect", "left"), LEFT.items(), ids=IDS)
def test_a_request_with_new_events_is_stopped_at_any_moment(effect: str, left: set[tuple[str, ...]]) -> None:
    stored, added = set[tuple[str, ...]](), set[int]()
    for moment in list_moments(effect):
        for works, resends in ((True, True), (False, True), (True, False)):
            stage, what = sealed(), (moment, works, resends)
            lost = Lost(stage, effect)

            def stop() -> None:
                raise Killed

            with pytest.raises(Killed):
                send_struck(stage, moment, stop)
            stage.dynamo.faults.clear()
            stage.restart()
            if works:
                lost.arrive()
                stage.clock.sleep(6)
                report = stage.refresh()
                assert report is not None
                added.add(report.added)
                check(stage, find_stored(stage), what)
            if resends:
                assert send(stage, LATE), what
                lost.arrive()
                assert sorted(map(str, find_stored(stage))) == sorted(map(str, CORRECTED)), what
            else:
                stored.add(tuple(sent["id"] for sent in find_stored(stage) if sent in LATE))
            finish(stage, what)
    assert (stored, added) == (left, {0, 1, 2} if not effect else {0, 1} if effect != "never" else {0})


@pytest.mark.parametrize("effect", LEFT, ids=IDS)
def test_a_refresher_works_at_any_moment_of_a_request_with_new_events(effect: str) -> None:
    for moment in list_moments(effect):
        stage = sealed()
        lost = Lost(stage, effect)

        def work() -> None:
            lost.arrive()  # noqa: B023
            # The items of a transaction without an answer can be written again.
            stage.clock.sleep(6)  # noqa: B023
            assert stage.refresh()  # noqa: B023

        send_struck(stage, moment, work)
        lost.arrive()
        assert sorted(map(str, find_stored(stage))) == sorted(map(str, CORRECTED)), moment
        check(stage, CORRECTED, moment)
        stage.refresh()
        # The client sends the request again, though it was acknowledged.
        assert moment % 2 or send(stage, LATE), moment
        check(stage, CORRECTED, moment)
        finish(stage, moment)
