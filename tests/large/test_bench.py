"""The benchmark that counts units: it runs to its end, and the documentation has its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import large, results


def test_the_units_of_large_values_are_those_of_the_documentation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")

    large.main()

    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("write units: {'plain': 1306.0, 'small': 300.0, 'apart': 500.0}")
    assert printed[1].endswith("read units: {'plain': 46.0, 'small': 3.5, 'apart': 2.5}")
    assert "write_units_over_formula 1.00" in printed
