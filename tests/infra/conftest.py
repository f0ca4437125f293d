"""The one shared synth."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra import synth
from tests.infra.synth import DELETE_ALL, SIGNED, TRACED, Template


@pytest.fixture(scope="session")
def dev() -> Template:
    """The example configuration for stage dev."""
    return synth.template()


@pytest.fixture(scope="session")
def local() -> Template:
    """The same for the emulator."""
    return synth.template("local")


@pytest.fixture(scope="session")
def signed() -> Template:
    """The API behind IAM, with tracing."""
    return synth.template("dev", SIGNED, TRACED)


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    """The document of the example configuration for stage prod."""
    return synth.template("prod").document


@pytest.fixture(scope="session")
def other() -> dict[str, Any]:
    """The same with what differs most: the API behind IAM, and every stream's tables deleted with the stack."""
    return synth.template("prod", SIGNED, *DELETE_ALL).document
