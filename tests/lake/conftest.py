"""A stream whose archives are files of a folder."""

from pathlib import Path

import pytest

from tests.worlds.lakes import MAG, LakeWorld


@pytest.fixture
def world(tmp_path: Path) -> LakeWorld:
    return LakeWorld(tmp_path, archive=MAG)
