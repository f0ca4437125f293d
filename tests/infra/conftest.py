"""The one shared synth."""

from __future__ import annotations

import pytest

from tests.infra.synth import Template, template


@pytest.fixture(scope="session")
def dev() -> Template:
    """The example configuration for stage dev."""
    return template()


@pytest.fixture(scope="session")
def local() -> Template:
    """The same for the emulator."""
    return template("local")


@pytest.fixture(scope="session")
def signed() -> Template:
    """The API behind IAM, with tracing."""
    return template("dev", ('auth = "api-key"', 'auth = "iam"'), ("tracing = false", "tracing = true"))
