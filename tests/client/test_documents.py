"""The examples of the client's documents, run as they are written."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.gateway import NOON
from tests.worlds.served import Served, serve
from tidetable_client import Clock

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "clients" / "python" / "README.md", ROOT / "docs" / "use" / "sending.md"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_example_runs(
    document: Path, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Clock, "read_date", lambda _: NOON)
    blocks = re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {"URL": served.url, "KEY": "key"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{document.name}, example {number}", "exec"), names)  # noqa: S102 - the repository's own text
    if document.name == "README.md":
        shown = capsys.readouterr().out
        assert "too_old {'series': 'ci', 'time': '2001-01-01T00:00:00Z'" in shown
        assert "ci 2026-03-15T12:00:00.000000Z 4.2\n" in shown
        assert sorted(names["frame"]["mag"]) == [1.1, 2.0, 4.2, 4.2]


def test_the_table_of_promises_names_the_defaults() -> None:
    from tidetable_client import Policy

    text = DOCUMENTS[0].read_text()
    policy = Policy()
    assert (policy.retry_for, "`retry_for` (5 minutes)" in text) == (300.0, True)
    assert (policy.buffer_bytes, "32 MB" in text) == (32_000_000, True)
    assert (policy.block_for, "a minute at most" in text) == (60.0, True)
    assert (policy.exit_timeout, "for 30 seconds at most" in text) == (30.0, True)
    assert (policy.longest_backoff, "grows to 30 seconds" in text) == (30.0, True)
    assert (policy.batch_events, policy.linger, policy.in_flight) == (500, 1.0, 1)
