"""Today's code writes what the fixtures have: if it writes another format, somebody must decide and say so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.formats.make import FIXTURES, main
from tests.worlds.formats import Files
from tests.worlds.formats_compare import find_differences, read_files
from tests.worlds.formats_story import make_files

CHANGED = """A stored format changed. If that is meant: 1. Run `make fixtures` and look at the difference.
2. Raise CATALOG_FORMAT in lambdas/tidetable/version.py if older code would misread the format.
3. Say so in CHANGELOG.md.
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder: Path = tmp_path_factory.mktemp("formats") / "fixtures"
    main(folder)
    return read_files(folder)


def test_the_stored_formats_have_not_changed(made: Files) -> None:
    differences = find_differences(read_files(FIXTURES), made)
    assert not differences, "\n".join([CHANGED, *differences])


def test_the_same_code_makes_the_same_bytes_twice(made: Files) -> None:
    assert make_files() == made


def test_the_fixtures_are_small(made: Files) -> None:
    assert sum(map(len, made.values())) < 300_000


def _replace(path: str, old: bytes, new: bytes) -> Callable[[Files], Files]:
    def change(files: Files) -> Files:
        assert old in files[path]
        return files | {path: files[path].replace(old, new, 1)}

    return change


CATALOG = "tables/tidetable-lapse-catalog.ndjson"
PART = "archives/stream=times/period=2026-03-09/part-1773275422000-00000-001-00000.parquet"
OTHER = "archives/stream=times/period=2026-03-10/part-1773323940601-00000-001-00000.parquet"


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (CATALOG, _replace(CATALOG, b'"shards": {"N": "4"}', b'"shards": {"N": "5"}')),
        (CATALOG, _replace(CATALOG, b'"bytes": {"N": "1234"}', b'"bytes": {"N": "1235"}')),
        ("tables.ndjson", _replace("tables.ndjson", b"sk_near", b"sk_nearer")),
        ("queues/overflow.ndjson", _replace("queues/overflow.ndjson", b"queued", b"quoted")),
        ("texts.json", _replace("texts.json", b'"archived": "W', b'"archived": "X')),
        (PART, lambda files: files | {PART: files[OTHER]}),
        (PART, lambda files: {path: body for path, body in files.items() if path != PART}),
    ],
)
def test_a_difference_is_found_in_its_file(path: str, change: Callable[[Files], Files], files: Files) -> None:
    differences = find_differences(files, change(files))
    assert [line.partition(": ")[0] for line in differences] == [path]
