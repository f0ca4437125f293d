"""A pipeline builds a use case from its ports by the names of the use case's fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from wiring import Pipeline


@dataclass
class UseCase:
    clock: Any
    store: Any
    remaining: Any
    limit: int = 3
    _kept: list[str] = field(default_factory=list)


def test_a_use_case_gets_the_ports_with_the_names_of_its_fields() -> None:
    built = Pipeline(clock="a clock", store="a store", jitter="a jitter").build(UseCase, remaining="a countdown")
    assert built == UseCase("a clock", "a store", "a countdown", 3, [])


def test_a_named_port_replaces_the_port_of_the_pipeline() -> None:
    """A port that is replaced is not made."""
    built = Pipeline(clock="a clock").build(UseCase, store="another store", remaining="a countdown", limit=5)
    assert (built.store, built.limit) == ("another store", 5)


def test_a_use_case_without_one_of_its_ports_is_not_built() -> None:
    with pytest.raises(TypeError, match="remaining"):
        Pipeline(clock="a clock", store="a store").build(UseCase)
