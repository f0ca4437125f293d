"""The journal of an import: what it takes over from a run that was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.journal import Journal, JournalError, fingerprint_file


def test_a_refusal_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    """The disk was full, or the machine stopped, while the line was written. Its row is sent again."""
    file = tmp_path / "rows.ndjson"
    file.write_text("{}\n{}\n")
    first = Journal(file, tmp_path / "state", {}, anew=False)
    first.note_refusal(0, "invalid", "no series", b'{"n": 1e400}', b'{"n":1e400 }')
    first.expect(1, 0)
    first.settle([])
    with first.refusals.open("a") as kept:
        kept.write('{"row": 1, "code": "inv')
    second = Journal(file, tmp_path / "state", {}, anew=False)
    assert (second.progress.rows, second.progress.stored, second.progress.refused) == (1, 0, {"invalid": 1})
    kept_line = '{"row":0,"code":"invalid","detail":"no series","event":{"n": 1e400},"text":"{\\"n\\":1e400 }"}\n'
    assert second.refusals.read_text() == kept_line


def test_a_file_is_another_if_its_end_its_beginning_or_its_length_is(tmp_path: Path) -> None:
    """A file of three megabytes is not read whole: only its first and its last megabyte."""
    file, size = tmp_path / "rows.csv", 3 << 20
    file.write_bytes(bytes(size))
    first = fingerprint_file(file)
    assert first == fingerprint_file(file)
    for content in (b"x" + bytes(size - 1), bytes(size - 1) + b"x", bytes(size + 1), bytes(size - 1)):
        file.write_bytes(content)
        assert fingerprint_file(file) != first


@pytest.mark.parametrize("text", ["{", "[]", '{"file": "x", "colour": 1}', '{"rows": 1}'])
def test_a_journal_that_cannot_be_read_says_how_to_begin_anew(tmp_path: Path, text: str) -> None:
    file, state = tmp_path / "rows.csv", tmp_path / "state"
    file.write_text("")
    state.write_text(text)
    with pytest.raises(JournalError, match=r"state cannot be read: .* --again imports from the first row on"):
        Journal(file, state, {}, anew=False)
    assert Journal(file, state, {}, anew=True).progress.rows == 0


def test_refusals_of_rows_that_come_again_are_dropped_and_the_others_are_counted(tmp_path: Path) -> None:
    """Rows 0 and 2 are refused and row 1 waits, so that the import goes on with row 1."""
    file = tmp_path / "rows.ndjson"
    file.write_text("{}")
    first = Journal(file, tmp_path / "state", {"stream": "s"}, anew=False)
    for row in (0, 1, 2, 3):
        first.expect(row, row)
    for row in (0, 2):
        first.note_refusal(row, "too_old", "", b"{}", b"")
    first.settle([0, 2, 3])
    assert (first.progress.rows, first.find_row(1)) == (1, (1, b""))
    second = Journal(file, tmp_path / "state", {"stream": "s"}, anew=False)
    assert (second.progress.rows, second.progress.stored, second.progress.refused) == (1, 0, {"too_old": 1})
    assert [json.loads(line)["row"] for line in second.refusals.read_text().splitlines()] == [0]
    # Begun anew, nothing is refused yet, and the refusals of the first import stay.
    third = Journal(file, tmp_path / "state", {"stream": "s"}, anew=True)
    assert (third.progress.rows, third.progress.refused) == (0, {})
    third.note_refusal(5, "too_old", "", b"{}", b"")
    assert [json.loads(line)["row"] for line in second.refusals.read_text().splitlines()] == [0]
    assert [json.loads(line)["row"] for line in third.refusals.read_text().splitlines()] == [5]
    # The progress names its own file before the first answer.
    fourth = Journal(file, tmp_path / "state", {"stream": "s"}, anew=False)
    assert fourth.refusals == third.refusals


def test_all_options_that_differ_are_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text("{}")
    Journal(file, tmp_path / "state", {"stream": "s", "url": "a"}, anew=False).settle([])
    with pytest.raises(JournalError, match=r"with other options \(stream, url\): --again begins a new one"):
        Journal(file, tmp_path / "state", {"stream": "t", "url": "b"}, anew=False)
