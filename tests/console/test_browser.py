"""The browser of the tests starts on a machine on which it never ran."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path

from tests.console.browser import Browser, unpack_chromium


def answer_version(folder: Path) -> str:
    """What Chromium says of itself, started by a process that had to unpack it."""
    return subprocess.run(  # noqa: S603 - our own file
        [unpack_chromium(folder), "--version"], check=True, capture_output=True, text=True
    ).stdout


def test_processes_that_unpack_at_the_same_time_all_have_a_whole_browser(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        answers = processes.map(answer_version, [tmp_path] * 2)
    assert [answer.split()[0] for answer in answers] == ["Chromium", "Chromium"]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_wait_goes_on_after_a_look_that_fails(chromium: Browser) -> None:
    chromium("open", url="about:blank")
    fails_at = "looks += 1; if (looks === %d) throw new Error('between two views'); return looks > 2;"
    for look in (1, 2):
        chromium.evaluate(f"(() => {{ globalThis.looks = 0; globalThis.look = () => {{ {fails_at % look} }}; }})()")
        chromium.wait("look()")
        assert chromium.evaluate("looks") == 3
