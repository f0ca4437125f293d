"""Stages with the stored fixtures, in today's code."""

import json
from typing import Any

import pytest

from tests.formats.make import FIXTURES
from tests.worlds.formats import Files, FormatStage, load_stage
from tests.worlds.formats_compare import read_files
from tests.worlds.formats_events import CONFIG, END


@pytest.fixture(scope="session")
def files() -> Files:
    return read_files(FIXTURES)


@pytest.fixture(scope="session")
def texts(files: Files) -> Any:
    """The cursors and the refs of the fixtures."""
    return json.loads(files["texts.json"])


def _load(files: Files) -> FormatStage:
    stage = FormatStage(END, CONFIG)
    load_stage(stage, files)
    return stage


@pytest.fixture(scope="module")
def stage(files: Files) -> FormatStage:
    """A stage that tests only read."""
    return _load(files)


@pytest.fixture
def changing(files: Files) -> FormatStage:
    """A stage that a test may change."""
    return _load(files)
