"""The table of errors at the top of errors.py says of each error who tries again."""

import re
from pathlib import Path
from typing import Any

import pytest

from tidetable.errors import (
    ArchiveBusy,
    ArchiveFailed,
    CollectionFull,
    ConfigError,
    CopyRefused,
    NotOurs,
    NotReady,
    Outage,
    StaleEntry,
    StoreUnavailable,
    TableMissing,
    TableRefused,
    TableThrottled,
    TableUnusable,
    TidetableError,
    judge_failure,
)

LAMBDAS = Path(__file__).parents[2] / "lambdas"
_ROOT = "TidetableError"


def list_errors() -> set[str]:
    """The errors of the functions' code, by the class that they derive from."""
    bases = {
        match[1]: match[2]
        for file in LAMBDAS.rglob("*.py")
        for match in re.finditer(r"^class (\w+)\((\w+)[^)]*\):", file.read_text(), re.MULTILINE)
    }
    errors = {_ROOT}
    while more := {name for name, base in bases.items() if base in errors} - errors:
        errors |= more
    return errors - {_ROOT}


def test_each_error_has_a_row_in_the_table() -> None:
    text = (LAMBDAS / "tidetable" / "errors.py").read_text()
    rows = text.partition("# error ")[2].partition("\n#\n")[0]
    named = {name for line in rows.splitlines()[1:] for name in re.findall(r"\w+", line[:25])}
    errors = list_errors()
    assert {"TableMissing", "Undrainable", "DamagedPack", "DeployFailed"} <= errors
    assert named == errors


def test_a_failure_waits_for_a_later_run_or_needs_the_operator() -> None:
    assert judge_failure(NotReady("it is changing")) == ("deferred", "it is changing")
    assert judge_failure(ArchiveBusy("it is being archived")) == ("deferred", "it is being archived")
    stale = "period 2026-03-01 of s is in none of the states closed any more"
    assert judge_failure(StaleEntry("s", "2026-03-01", ["closed"])) == ("deferred", stale)
    assert judge_failure(TableRefused("in use", transient=True)) == ("deferred", "in use")
    assert judge_failure(TableRefused("the quota", transient=False)) == ("failed", "the quota")
    assert judge_failure(NotOurs("not tagged")) == ("failed", "not tagged")
    assert judge_failure(ArchiveFailed("damaged")) == ("failed", "damaged")
    assert judge_failure(KeyError("pk")) == ("failed", "KeyError: 'pk'")


FACTS: list[tuple[TidetableError, dict[str, Any], str]] = [
    (ConfigError(["a"]), {"problems": ("a",)}, "1 problem in the configuration:\n  - a"),
    (ConfigError(["a", "b"]), {"problems": ("a", "b")}, "2 problems in the configuration:\n  - a\n  - b"),
    (CollectionFull("t"), {}, "an item collection of table t holds 10 GB and takes nothing more"),
    (TableMissing("t"), {}, "table t does not exist"),
    (
        StoreUnavailable(Outage.OTHER, "again", "Internal"),
        {"cause": Outage.OTHER, "code": "Internal"},
        "Internal: again",
    ),
    (
        StoreUnavailable(Outage.NO_ANSWER, "reset"),
        {"cause": Outage.NO_ANSWER, "code": "no answer"},
        "no answer: reset",
    ),
    (TableThrottled("t"), {}, "table t is throttled"),
    (TableRefused("no", transient=True), {"transient": True, "crowded": False}, "no"),
    (TableRefused("no", transient=False, crowded=True), {"transient": False, "crowded": True}, "no"),
    (
        CopyRefused("t", "eu-west-1"),
        {},
        "eu-west-1 has a table t already, which is not a copy of this one; see the runbook, *Copies in other Regions*",
    ),
    (
        TableUnusable("t", "ARCHIVED"),
        {},
        "table t is ARCHIVED; see the runbook, *Tables that cannot be used*",
    ),
    (
        StaleEntry("s", "2026-03-01", ["open", "closed"]),
        {},
        "period 2026-03-01 of s is in none of the states open, closed any more",
    ),
]


@pytest.mark.parametrize(("error", "facts", "text"), FACTS, ids=lambda value: type(value).__name__)
def test_an_error_has_its_facts_and_says_them(error: TidetableError, facts: dict[str, Any], text: str) -> None:
    assert (vars(error), str(error)) == (facts, text)
