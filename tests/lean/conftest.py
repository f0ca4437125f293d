"""What several modules of the lean client's tests share."""

import pytest

from aws.http import client as lean


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-outs of a busy machine, as the server is in the same process."""
    monkeypatch.setattr(lean, "CONNECT_SECONDS", 60.0)
    monkeypatch.setattr(lean, "READ_SECONDS", 60.0)
