"""The one shared synth."""

from __future__ import annotations

import pytest

from tests.infra import synth
from tests.infra.shop import Shop, make_shop
from tests.infra.synth import DOORS, ROLLED_UP, SIGNED, TRACED, Template


@pytest.fixture(scope="session")
def dev() -> Template:
    """The example configuration for stage dev."""
    return synth.template()


@pytest.fixture(scope="session")
def local() -> Template:
    """The same configuration for the emulator."""
    return synth.template("local")


@pytest.fixture(scope="session")
def signed() -> Template:
    """The API behind IAM, with tracing."""
    return synth.template("dev", SIGNED, TRACED)


@pytest.fixture(scope="session")
def rolled() -> Template:
    """The example configuration with its rollup and with every door open: it has every function."""
    return synth.template("dev", *ROLLED_UP, *DOORS)


@pytest.fixture(scope="session")
def shop() -> Shop:
    """A stage in a stack of a user's app, with everything that the construct takes."""
    return make_shop()
