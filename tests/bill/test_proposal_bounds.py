"""A proposed change at its edges: text that is no TOML, many problems, and the number of tables whose days are shown."""

import pytest

from bill import compare
from bill.compare import Proposal, compare_change, parse_change
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import NOON, configuration
from tidetable.problems import ProblemError


def propose(text: str, **changes: object) -> dict[str, list[object]]:
    """The bill before a change, with the days of its tables."""
    config = configuration(**{"capacity": 'mode = "on-demand"', "retention": 2} | changes)
    workload = Workload(spread_by_hour(1.0, None), 700, 0.0, 4096, 0.0, config.streams["s"])
    before: dict[str, list[object]] = compare_change(config, Proposal(workload, text), NOON, "us-east-1")["before"]
    return before


@pytest.mark.parametrize("text", ["retention =", "[streams.s", "retention = 1\nretention = 2"])
def test_text_that_is_no_toml_is_the_callers_mistake(text: str) -> None:
    with pytest.raises(ProblemError, match="change is not TOML: ") as caught:
        parse_change(text, "s")
    assert caught.value.problem.status == 400


def test_the_first_five_problems_of_a_change_are_named() -> None:
    text = "\n".join(f"wrong{number} = 1" for number in range(7))
    with pytest.raises(ProblemError) as caught:
        propose(text)
    assert [word.partition(")")[0] for word in caught.value.problem.detail.split("(line ")[1:]] == list("12345")


@pytest.mark.parametrize(("most", "shown"), [(5, True), (4, False)])
def test_days_are_shown_of_as_many_tables_as_a_caller_can_wait_for(
    most: int, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables ahead, today's, yesterday's, which takes late events, and one that is kept besides them."""
    assert compare._MOST_TABLES == 500
    monkeypatch.setattr(compare, "_MOST_TABLES", most)
    assert bool(propose("premake = 2")["days"]) is shown
