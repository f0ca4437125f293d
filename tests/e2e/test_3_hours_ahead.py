"""A rollup in the deployed stage: sealed by its schedule and the moved clock, it answers, and late events are seen at once."""

from datetime import datetime, timedelta

import pytest

from local import Deployed, Emulator
from local.emulator import can_move_clock
from local.http import Api
from tests.e2e.conftest import eventually
from tests.e2e.rollups import HOUR, Hour, move_to, reading, run_refresher, send

pytestmark = pytest.mark.skipif(not can_move_clock(), reason="an hour is sealed after it has ended")


def test_a_sealed_hour_is_answered_by_its_rollup_as_by_its_events(hour: Hour, api: Api) -> None:
    rows, sources = hour.aggregate(api)
    raw, read = hour.aggregate(api, rollups="false")
    assert rows == raw == hour.expected()
    assert rows["us"] == [15, 225, 1, 29]
    assert [source.get("rollup") for source in sources] == ["quakes-hours"]
    assert not any("rollup" in source for source in read)


def test_what_a_stream_has_is_listed(hour: Hour, api: Api) -> None:
    asked = {"start": hour.start.isoformat(), "to": (hour.start + HOUR).isoformat()}
    listed = api.query("quakes", "series", **asked)
    assert [(row["series"], row["first_within"]) for row in listed.body["series"]] == [("ci", "1h"), ("us", "1h")]
    assert {source.get("rollup") for source in listed.body["sources"]} == {"quakes-hours"}
    fields = api.query("quakes", "fields", **asked).body["fields"]
    assert [(row["field"], row["types"]) for row in fields] == [("mag", ["number"]), ("status", ["string"])]
    values = api.query("quakes", "fields/status/values", **asked).body["values"]
    assert [row["value"] for row in values] == ["automatic"]


def test_a_late_event_is_seen_at_once_and_its_hour_is_sealed_anew(
    stage: tuple[Emulator, Deployed], hour: Hour, api: Api
) -> None:
    emulator, deployed = stage
    late = reading(hour.start + timedelta(minutes=45), 45, "nn", "reviewed")
    send(api, [late])
    hour.events.append(late)
    rows, sources = hour.aggregate(api)
    assert rows == hour.expected()
    assert rows["nn"] == [1, 45, 45, 45]
    assert not any("rollup" in source for source in sources)
    # A mark is cleared when no writer of it can be alive.
    move_to(emulator, deployed, hour.start + timedelta(minutes=75))

    def look() -> tuple[object, list[object]]:
        run_refresher(deployed)
        rows, sources = hour.aggregate(api)
        return rows, [source.get("rollup") for source in sources]

    assert eventually(look, lambda answer: answer[1] == ["quakes-hours"])[0] == hour.expected()
    asked = {"start": hour.start.isoformat(), "to": (hour.start + HOUR).isoformat()}
    values = api.query("quakes", "fields/status/values", **asked).body["values"]
    assert [row["value"] for row in values] == ["automatic", "reviewed"]


def test_an_answer_reaches_from_sealed_hours_to_the_newest_event(
    stage: tuple[Emulator, Deployed], hour: Hour, api: Api
) -> None:
    """The events of the present hour are read, those of the hour before are not."""
    answer = api.query("quakes", "aggregate", start=hour.start.isoformat(), to=_later(hour, 2), step="1h")
    before = sum(row["count"] for row in answer.body["aggregates"])
    # Without a time of its own an event is of the moment.
    send(api, [{"series": "now", "id": "now", "data": {"mag": 1}}])
    answer = api.query("quakes", "aggregate", start=hour.start.isoformat(), to=_later(hour, 2), step="1h")
    assert sum(row["count"] for row in answer.body["aggregates"]) == before + 1
    assert [source.get("rollup") for source in answer.body["sources"]] == ["quakes-hours", None]


def _later(hour: Hour, hours: int) -> str:
    instant: datetime = hour.start + hours * HOUR
    return instant.isoformat()
