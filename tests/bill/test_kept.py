"""Bills that are kept for a minute, because each of them reads metrics that cost money."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bill.kept import KeptAnswers

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


def make_counter() -> Callable[[], dict[str, Any]]:
    bills: list[int] = []

    def compute() -> dict[str, Any]:
        bills.append(1)
        return {"number": len(bills)}

    return compute


@pytest.mark.parametrize(
    ("seconds", "number"), [(0, 1), (59.999, 1), (60, 2), (3600, 2), (-1, 2)], ids=lambda value: str(value)
)
def test_a_bill_is_kept_for_a_minute(seconds: float, number: int) -> None:
    kept, compute = KeptAnswers(), make_counter()
    assert kept.find_or_compute("a", NOW, compute) == {"number": 1}
    assert kept.find_or_compute("a", NOW + timedelta(seconds=seconds), compute) == {"number": number}


def test_use_does_not_make_a_bill_live_longer() -> None:
    kept, compute = KeptAnswers(), make_counter()
    numbers = [kept.find_or_compute("a", NOW + timedelta(seconds=n), compute)["number"] for n in range(0, 130, 10)]
    assert numbers == [1] * 6 + [2] * 6 + [3]


def test_twenty_bills_are_kept_and_the_one_that_was_used_least_recently_goes() -> None:
    kept, compute = KeptAnswers(), make_counter()
    for number in range(20):
        kept.find_or_compute(number, NOW, compute)
    assert kept.find_or_compute(0, NOW, compute) == {"number": 1}
    assert kept.find_or_compute("more", NOW, compute) == {"number": 21}
    assert kept.find_or_compute(0, NOW, compute) == {"number": 1}
    assert kept.find_or_compute(1, NOW, compute) == {"number": 22}


def test_an_error_is_not_kept() -> None:
    kept = KeptAnswers()

    def fail() -> dict[str, Any]:
        raise OSError

    with pytest.raises(OSError):
        kept.find_or_compute("a", NOW, fail)
    assert kept.find_or_compute("a", NOW, make_counter()) == {"number": 1}
