"""Which tests share a process: those of a folder, as they share what is expensive to start. The longest begin first.

A file that deploys a stack of its own shares nothing with its folder, so it is a scope of its own.
"""

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# A busy machine is no failure, and a new example that fails is for a person to look at, not for a release to stumble over.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# The CDK's own check of a template is half of a synth's time. tests/infra/test_rules.py runs it, and the wheel's user does.
os.environ["CDK_VALIDATION"] = "false"

# Each worker's Node.js would print a banner of its own.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

# A handler's module reads this when it is imported, and some modules of tests import one. Whichever comes first must not
# decide whether metrics have a namespace.
os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "test")

ROOT = Path(__file__).parents[1]
# The time-lapse's days until the first month has expired; a shorter life proves less.
FULL_DAYS = 28


def read_days(text: str) -> int:
    """The number of days of the time-lapse. Raises ``pytest.UsageError``: less than a day would prove nothing and pass."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise pytest.UsageError(f"TIDETABLE_DAYS must be a whole number of days from 1 on, not {text!r}")
    return int(text)


SEED = int(os.environ.get("TIDETABLE_SEED", "1"))
DAYS = read_days(os.environ.get("TIDETABLE_DAYS", str(FULL_DAYS)))
ALONE = ("tests/e2e/test_4_first_deploy.py",)
# By processor time, which docs/decisions/0258 and 0270 list, and by waits: those that wait begin beside one that computes.
LONGEST = (
    "e2e",
    "timelapse",
    "console",
    "rollups",
    "iam",
    "query",
    "cdk",
    "infra",
    "api",
    *ALONE,
    "contract",
    "own",
    "archive",
    "cli",
    "examples",
    "crash",
    "lifecycle",
    "clients",
    "local",
    "doors",
    "ingest",
    "lean",
)

# New objects until the garbage collector runs. Python's own figure is 700.
_OBJECTS_PER_COLLECTION = 200_000


# A preparation, or an end, that took less than these seconds is not reported if it passed.
_UNREPORTED_SECONDS = 0.005


def pytest_configure() -> None:
    """Collect no garbage while tests are collected: a quarter of that time, for almost no garbage."""
    gc.disable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker of xdist report less: of most tests only the call, and that it has finished.

    Six messages for each test, most of which say nothing, were two thirds of the time of a test that does nothing.
    """
    for worker in (plugin for plugin in session.config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent")):
        worker.sendevent = partial(_send_what_tells, worker.sendevent)
        if session.config.args == session.config.getini("testpaths"):
            _compile_share(session.config.workerinput)  # type: ignore[attr-defined]


def _compile_share(worker: dict[str, Any]) -> None:
    """Import each worker's share of the modules first. In a new clone each worker would otherwise compile all of them."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # The collection shows what is wrong with a module.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def _send_what_tells(send: Callable[..., None], name: str, **values: Any) -> None:
    if name == "logstart":
        return
    if name == "testreport":
        report = values["data"]
        quick = report["outcome"] == "passed" and report["duration"] < _UNREPORTED_SECONDS
        if quick and report["when"] != "call":
            return
    send(name, **values)


def pytest_report_header() -> str:
    return f"time-lapse: {DAYS} days, seed {SEED} (TIDETABLE_DAYS, TIDETABLE_SEED)"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes never name a test: what was made at import may differ between two workers, which must collect the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {folder: place for place, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(_scope(item.nodeid), len(LONGEST)))


def pytest_collection_finish() -> None:
    """Spend less on collecting garbage: what was imported and collected until here stays until the end.

    With Python's thresholds the collector went through those objects again and again: an eighth of the time-lapse's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, 20, 20)
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    # This process collects no tests itself.
    gc.enable()
    return ByFolder(config, log)


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """A folder's tests go to one process. xdist's own groups are written into names that pytest no longer reads."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _scope(nodeid: str) -> str:
    """The folder in tests/, or the file if it is in none or stands alone."""
    file = nodeid.partition("::")[0]
    return file if file in ALONE else file.removeprefix("tests/").partition("/")[0]
