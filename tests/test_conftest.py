"""What a worker of xdist reports to the process that shows the results: nothing but what says something."""

from typing import Any

import pytest

from tests.conftest import _send_what_tells


@pytest.mark.parametrize(
    ("when", "outcome", "duration", "sent"),
    [
        ("setup", "passed", 0.004, False),
        ("teardown", "passed", 0.004, False),
        ("call", "passed", 0.0, True),
        ("setup", "passed", 0.005, True),
        ("teardown", "passed", 0.005, True),
        ("setup", "failed", 0.0, True),
        ("setup", "skipped", 0.0, True),
        ("teardown", "failed", 0.0, True),
    ],
)
def test_a_report_is_sent_unless_it_is_of_a_quick_preparation_or_end(
    when: str, outcome: str, duration: float, sent: bool
) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    data = {"when": when, "outcome": outcome, "duration": duration}
    _send_what_tells(lambda name, **values: events.append((name, values)), "testreport", data=data)
    assert events == [("testreport", {"data": data})] * sent


def test_a_test_that_begins_is_not_reported_and_one_that_has_ended_is() -> None:
    names: list[str] = []
    for name in ("logstart", "logfinish", "runtest_protocol_complete", "workerfinished"):
        _send_what_tells(lambda name, **_: names.append(name), name, nodeid="a")
    assert names == ["logfinish", "runtest_protocol_complete", "workerfinished"]
