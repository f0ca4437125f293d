"""The number of days of the time-lapse: what is refused, and what a shorter life leaves out."""

import pytest

from tests.conftest import read_days
from tests.timelapse.least import least_outcomes, unproven


@pytest.mark.parametrize("text", ["0", "-3", "", "ten", "1.5", "٣"])
def test_a_number_of_days_that_proves_nothing_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="TIDETABLE_DAYS must be a whole number of days from 1 on"):
        read_days(text)


def test_a_whole_number_of_days_is_taken() -> None:
    assert read_days("12") == 12


def test_a_shorter_life_names_what_it_leaves_out_and_a_full_life_leaves_nothing_out() -> None:
    assert {"scaled", "restored", "import ended", "change 26", "swept expired"} <= set(unproven(5))
    assert {"change 4", "accepted", "sealed"} & set(unproven(5)) == set()
    assert unproven(27) == []
    assert unproven(26) == ["change 26"]


def test_each_length_of_life_has_something_to_prove() -> None:
    for days in range(1, 60):
        least = least_outcomes(days)
        assert min(least.values()) >= 0
        assert least["accepted"] == 80 * days
