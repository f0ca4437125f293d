"""The journal of an import: what it takes over from a run that was stopped."""

from __future__ import annotations

from pathlib import Path

from cli.journal import Journal


def test_a_refusal_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    """The disk was full, or the machine stopped, while the line was written. Its row is sent again."""
    file = tmp_path / "rows.ndjson"
    file.write_text("{}\n{}\n")
    first = Journal(file, tmp_path / "state", {}, anew=False)
    first.note_refusal(0, "invalid", "no series", {})
    first.expect(1, 0)
    first.settle([])
    with first.refusals.open("a") as kept:
        kept.write('{"row": 1, "code": "inv')
    second = Journal(file, tmp_path / "state", {}, anew=False)
    assert (second.progress.rows, second.progress.stored, second.progress.refused) == (1, 0, {"invalid": 1})
    assert second.refusals.read_text() == '{"row": 0, "code": "invalid", "detail": "no series", "event": {}}\n'
