"""The demo's options, refusals and exit status. Nothing is deployed."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples.earthquakes import demo, steps
from examples.earthquakes.data import drop_closing
from local import Deployed
from local.up import read_config
from tests.worlds.configs import CONFIG, ROOT


class FakeEmulator:
    """The methods of an emulator that the demo calls."""

    endpoint = "http://127.0.0.1:1"
    log = Path("emulator.log")

    def __init__(self, engine: str, clock: bool) -> None:
        self.engine = engine
        self.clock = clock
        self.pids: list[int] = []
        self.stopped = False

    def start(self) -> None:
        self.pids = [1]

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The demo's emulator, and the remembered emulators."""
    found: list[Any] = []

    def make(engine: str, clock: bool) -> FakeEmulator:
        emulator = FakeEmulator(engine, clock)
        found.append(emulator)
        return emulator

    monkeypatch.setattr(demo, "Emulator", make)
    monkeypatch.setattr(demo, "remember_stage", found.append)
    monkeypatch.setattr(demo, "end_remembered_stage", lambda: False)
    monkeypatch.setattr(demo, "deploy", lambda *_, **__: Deployed("http://127.0.0.1:1", "http://api", "key", {}))
    monkeypatch.setattr(demo, "run_steps", lambda *_, **__: None)
    monkeypatch.setattr(demo, "make_queue", lambda _: None)
    monkeypatch.setattr(demo, "begin_fetch", lambda: None)
    return found


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["demo", "--config", str(CONFIG), *words])
    try:
        demo.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


@pytest.mark.parametrize(
    "failure", [SystemExit("FAILED: a check"), RuntimeError("a batch was refused"), KeyError("events")]
)
def test_keep_leaves_it_up_whatever_the_demo_says(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: BaseException
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(demo, "run_steps", fail)
    assert run(monkeypatch, "--keep") == 1
    emulator, remembered = made
    assert remembered is emulator
    assert not emulator.stopped
    shown = capsys.readouterr()
    assert "FAILED" in shown.err
    assert "URL='http://api' KEY='key'" in shown.out
    assert "AWS_ENDPOINT_URL=http://127.0.0.1:1" in shown.out
    assert "Logs: emulator.log" in shown.out


def test_keep_leaves_the_emulator_up_when_the_deployment_failed(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("cdk deploy failed")

    monkeypatch.setattr(demo, "deploy", fail)
    assert run(monkeypatch, "--keep") == 1
    assert not made[0].stopped
    assert "its log: emulator.log" in capsys.readouterr().out


def test_the_demo_holds_at_any_hour() -> None:
    """Late in the day the oldest table may be of a day without events; it expires before the table of the oldest event."""
    assert steps.has_expired(["2026-11-15"], "2026-11-15")
    assert steps.has_expired(["2026-11-14", "2026-11-15"], "2026-11-15")
    assert not steps.has_expired(["2026-11-15", "2026-11-16"], "2026-11-15")
    assert not steps.has_expired(["2026-11-14"], "2026-11-15")
    assert not steps.has_expired([], "2026-11-15")


@pytest.mark.parametrize(
    ("time", "oldest"),
    [
        ("00:00", "2026-11-20T00:01"),
        ("12:30", "2026-11-20T12:31"),
        ("22:55", "2026-11-20T22:56"),
        ("22:56", "2026-11-21T00:00"),
        ("23:59", "2026-11-21T00:00"),
    ],
)
def test_no_table_of_the_demo_closes_when_the_clock_moves(time: str, oldest: str) -> None:
    """The clock moves to four minutes after the next hour. A table closes seven days after its day."""
    now = datetime.fromisoformat(f"2026-11-27T{time}:00+00:00")
    minutes = [now - timedelta(minutes=count) for count in range(7 * 24 * 60)]
    events = [{"time": minute.strftime("%Y-%m-%dT%H:%M:%S.%fZ")} for minute in reversed(minutes)]
    kept = drop_closing(events, now)
    assert (kept[0]["time"][:16], kept[-1]) == (oldest, events[-1])


@pytest.mark.parametrize("hour", range(24))
def test_a_table_closes_after_the_clock_is_moved_or_can_be_archived_at_once(hour: int) -> None:
    """The clock is moved to some minutes after the next hour. Tables close at midnight, and settle for 15 minutes."""
    moved = datetime(2026, 11, 27, tzinfo=UTC) + timedelta(hours=hour + 1) + steps.AFTER_HOUR
    assert timedelta() < steps.AFTER_HOUR < timedelta(hours=1)
    assert moved - moved.replace(hour=0, minute=0) > timedelta(minutes=15)


def test_the_configuration_is_shown_once_with_the_streams_that_the_demo_adds(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    assert len(made) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("[")]
    assert lines == [
        f"configuration: {CONFIG}, streams: quakes, stations, reports",
        "the demo adds: packed, quakes-hours",
    ]


def test_without_keep_nothing_stays(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "--engine", "dynamodb-local") == 0
    (emulator,) = made
    assert emulator.stopped
    assert emulator.engine == "dynamodb-local"


def test_a_configuration_without_the_demos_streams_is_refused_before_anything_is_started(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ROOT / "examples" / "orders" / "tidetable.toml"
    monkeypatch.setattr(sys, "argv", ["demo", "--config", str(file)])
    with pytest.raises(SystemExit, match=f"no 'quakes'. For a configuration of your own: make local CONFIG={file}"):
        demo.main()
    assert made == []
    assert f"configuration: {file}, streams: orders" in capsys.readouterr().out


def test_the_demo_adds_a_stream_in_packs_unless_there_is_one(tmp_path: Path) -> None:
    copy = demo.add_streams(CONFIG, tmp_path)
    assert copy != CONFIG
    streams = read_config(copy).streams
    assert set(streams) == {*read_config(CONFIG).streams, "packed"}
    assert streams["packed"].layout.pack == (86_400, 65_536)
    assert streams["packed"].retention == streams["quakes"].retention
    assert demo.add_streams(copy, tmp_path / "another") == copy


def test_the_demo_adds_a_rollup_of_the_quakes(tmp_path: Path) -> None:
    streams = read_config(demo.add_streams(CONFIG, tmp_path, rollup=demo.ROLLUP_OF_QUAKES)).streams
    (rollup,) = streams["quakes"].rollup
    assert (rollup.every, rollup.by, rollup.fields) == (timedelta(hours=1), ("series",), ("mag",))
    assert steps.ROLLUP in streams


def test_the_demo_leaves_the_rollups_of_a_configuration_as_they_are(
    made: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    own = demo.ROLLUP_OF_QUAKES.replace('"hours"', '"days"').replace('"1h"', '"1d"')
    file.write_text(CONFIG.read_text() + own)
    found: list[Any] = []

    def run_nothing(*_: Any, **options: Any) -> None:
        found.append(options)

    monkeypatch.setattr(demo, "run_steps", run_nothing)
    monkeypatch.setattr(sys, "argv", ["demo", "--config", str(file)])
    demo.main()
    assert found == [{"feeds": True, "rolls": False}]


def test_the_clock_goes_forward_to_some_minutes_after_the_present_hour() -> None:
    """Functions that run while a clock is set back may wait for hours."""
    moves: list[timedelta] = []
    emulator: Any = SimpleNamespace(move_clock=moves.append)
    for ahead in (timedelta(), timedelta(hours=-7), timedelta(days=2, minutes=3)):
        end = steps.pass_hour(emulator, ahead)
        assert (end.minute, end.second, end.microsecond) == (0, 0, 0)
        assert timedelta(minutes=20) < moves.pop() - ahead <= timedelta(minutes=80)
    assert moves == []


def test_the_hours_are_computed_when_no_run_and_no_mark_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"finished": True, "left_to_others": [], "marks": 0, "lag_seconds": 0}
    left: list[dict[str, Any]] = [
        {"skipped": "another run refreshes the rollups"},
        done | {"finished": False},
        done | {"left_to_others": ["quakes"]},
        done | {"marks": 3},
        done | {"lag_seconds": 60},
        done,
        done,
    ]
    monkeypatch.setattr(steps, "invoke_refresher", lambda _: left.pop(0))
    monkeypatch.setattr(steps, "_PAUSE", 0.0)
    steps.compute_hours(Deployed("http://127.0.0.1:1", "http://api", "key", {}))
    assert left == [done]
