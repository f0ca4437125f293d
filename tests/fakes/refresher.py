"""The runs of the refresher and its workers, for tests. A stream that fails fails the test, unless the test expects it.

Failures are data of a report: a run goes on with the other streams, and the next run tries again. So a test that looks at
the cells alone would not notice that runs fail for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

from tidetable.rollups import refresh, worker
from tidetable.rollups.run import RefreshReport

_P = ParamSpec("_P")
_expected: list[str] = []


@contextmanager
def expect_failures(pattern: str) -> Iterator[None]:
    """Let streams fail with reasons in which the regular expression is found; also a decorator of a test."""
    _expected.append(pattern)
    try:
        yield
    finally:
        _expected.remove(pattern)


def _check(run: Callable[_P, RefreshReport | None]) -> Callable[_P, RefreshReport | None]:
    @wraps(run)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> RefreshReport | None:
        report = run(*args, **kwargs)
        failed = [] if report is None else report.failed
        unexpected = [reason for reason in failed if not any(re.search(pattern, reason) for pattern in _expected)]
        assert unexpected == [], unexpected
        return report

    return call


refresh_rollups = _check(refresh.refresh_rollups)
work_on_message = _check(worker.work_on_message)
