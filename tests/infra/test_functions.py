"""The functions: their code, their environment variables and their runtime."""

from __future__ import annotations

import ast
import json
import re

import pytest

from bill import prices
from tests.infra.synth import EVERYTHING, LARGEST, LIMITED, LOGGED, ROOT, Template, template

# The environment variables of every function; {name} is its own name.
EVERYWHERE = {
    "TIDETABLE_STAGE": "dev",
    "TIDETABLE_CATALOG_TABLE": "tidetable-dev-catalog",
    "POWERTOOLS_SERVICE_NAME": "tidetable-dev-{name}",
    "POWERTOOLS_METRICS_NAMESPACE": "Tidetable",
    "POWERTOOLS_LOG_LEVEL": "INFO",
}
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "134217728"}
# A reference is shown as its target: a queue, a bucket, or a function.
BUCKET = {"TIDETABLE_ARCHIVE_BUCKET": "-> StorageArchive"}
TIME = {"TIDETABLE_ALLOW_TIME_TRAVEL": "off"}
STATE = {"TIDETABLE_ROLLUPS_TABLE": "-> StorageRollups"}
CONTROL = {
    "TIDETABLE_ARCHIVER_FUNCTION": "-> archiver",
    "TIDETABLE_FEED_FUNCTION": "-> feed",
    **TIME,
    **STATE,
    **BUCKET,
}
READER = {"TIDETABLE_ARCHIVE_READER_FUNCTION": "-> archive_reader"}
MORE = {
    "ingest": {"TIDETABLE_OVERFLOW_QUEUE_URL": "-> IngestOverflow", **BUCKET, **STATE, **ALLOCATOR},
    "doors": {
        "TIDETABLE_OVERFLOW_QUEUE_URL": "-> IngestOverflow",
        # Its metrics are those of ingest.
        "POWERTOOLS_SERVICE_NAME": "tidetable-dev-ingest",
        **BUCKET,
        **STATE,
        **ALLOCATOR,
    },
    "drain": {
        "TIDETABLE_OVERFLOW_QUEUE_URL": "-> IngestOverflow",
        "TIDETABLE_DEAD_LETTER_QUEUE_URL": "-> IngestDeadLetters",
        **BUCKET,
        **STATE,
    },
    "query": {**READER, **BUCKET, **STATE, **ALLOCATOR},
    "lifecycle": {
        "TIDETABLE_OVERFLOW_QUEUE_URL": "-> IngestOverflow",
        "TIDETABLE_DEAD_LETTER_QUEUE_URL": "-> IngestDeadLetters",
        **CONTROL,
    },
    "deployment": CONTROL,
    "archiver": {
        "TIDETABLE_WORK_QUEUE_URL": "-> WorkArchives",
        "TIDETABLE_LAKE_QUEUE_URL": "-> WorkLake",
        **BUCKET,
        **TIME,
    },
    "lake": {"TIDETABLE_WORK_QUEUE_URL": "-> WorkLake", **BUCKET},
    "restorer": {"TIDETABLE_WORK_QUEUE_URL": "-> WorkRestores", **BUCKET, **STATE},
    "feed": {"TIDETABLE_FEED_DEAD_LETTER_QUEUE_URL": "-> FeedDeadLetters", **BUCKET},
    "archive_reader": BUCKET,
    "sweeper": {"TIDETABLE_WORK_QUEUE_URL": "-> WorkFiles", **BUCKET},
    "refresher": {"TIDETABLE_WORK_QUEUE_URL": "-> WorkLight", **READER, **BUCKET, **STATE},
    "authorizer": {},
    "console": {},
    "operations": {"TIDETABLE_LIFECYCLE_FUNCTION": "-> lifecycle", **STATE},
}


def test_the_bill_prices_each_function_with_the_memory_that_it_has() -> None:
    functions = template("dev").functions() | template("dev", *EVERYTHING).functions()
    memory = {name: function["MemorySize"] for name, function in functions.items()}
    priced = {
        "ingest": prices.INGEST_GB,
        "drain": prices.DRAIN_GB,
        "authorizer": prices.KEYS_GB,
        "query": prices.QUERY_GB,
        "archiver": prices.ARCHIVER_GB,
        "refresher": prices.WORKER_GB,
        "feed": prices.FEED_GB,
    }
    assert {name: memory[name] / 1024 for name in priced} == priced


def _value(template: Template, value: object) -> object:
    """A variable's value, with the target of a reference instead of its generated id."""
    if not isinstance(value, dict):
        return value
    handlers = {template.id_of(name): name for name in template.functions()}
    return f"-> {handlers.get(value['Ref'], re.sub(r'[0-9A-F]{8}$', '', value['Ref']))}"


# The functions by the kind of their code.
CODE = {
    "slim": {
        *("ingest", "drain", "query", "authorizer", "operations", "feed", "lifecycle", "deployment", "sweeper"),
        "refresher",
    },
    "archive": {"archive_reader", "archiver", "restorer"},
    "doors": {"doors"},
    "iceberg": {"lake"},
}


def test_a_function_runs_the_code_with_the_packages_that_it_imports(rolled: Template) -> None:
    """Without pyarrow the archive's functions could not start; with it, the others would start slowly."""
    assert rolled.folder is not None
    found: dict[str, set[str]] = {}
    for name, function in rolled.functions().items():
        asset = rolled.folder / f"asset.{function['Code']['S3Key'].removesuffix('.zip')}"
        (kind,) = (path.stem for path in asset.iterdir()) if name != "console" else ("console",)
        found.setdefault(kind, set()).add(name)
    assert found == CODE | {"console": {"console"}}


def test_every_handler_is_a_function_and_no_other(rolled: Template) -> None:
    modules = {path.stem for path in (ROOT / "lambdas" / "handlers").glob("[!_]*.py")}
    assert rolled.functions().keys() == modules == MORE.keys()


def test_a_stage_without_rollups_has_no_refresher(dev: Template) -> None:
    assert dev.functions().keys() == MORE.keys() - {"refresher", "doors"}


def test_a_stage_whose_closed_tables_are_read_for_their_series_has_a_refresher() -> None:
    made = template("dev", ("retention = 4\n", "retention = 21\n"))
    assert "refresher" in made.functions()
    assert any(id.startswith("AlarmsWorkWaiting") for id in made.resources)


@pytest.mark.parametrize("name", MORE)
def test_a_handler_is_defined_in_its_module(name: str) -> None:
    tree = ast.parse((ROOT / "lambdas" / "handlers" / f"{name}.py").read_text())
    assert "handler" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name, more", MORE.items())
def test_a_function_is_told_what_it_needs_and_nothing_else(rolled: Template, name: str, more: dict[str, str]) -> None:
    dev = rolled
    found = dev.functions()[name]["Environment"]["Variables"]
    expected = {key: value.replace("{name}", name) for key, value in EVERYWHERE.items()} | more
    assert {key: _value(dev, value) for key, value in found.items()} == expected


def test_what_settings_read_is_supplied(dev: Template) -> None:
    tree = ast.parse((ROOT / "lambdas" / "settings.py").read_text())
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    read = {text for text in texts if text.startswith("TIDETABLE_")}
    supplied = {name for function in dev.functions().values() for name in function["Environment"]["Variables"]}
    assert read
    # Of alarms in another app's stack only; a checkout's stage knows its own without it.
    # Only a reader has an origin.
    assert read - {"TIDETABLE_ALARM_PREFIX", "TIDETABLE_ORIGIN"} == {
        name for name in supplied if name.startswith("TIDETABLE_")
    }


def test_functions_run_on_arm_except_in_the_emulator(dev: Template, local: Template) -> None:
    assert {(function["Runtime"], *function["Architectures"]) for function in dev.functions().values()} == {
        ("python3.13", "arm64")
    }
    assert {(function["Runtime"], *function["Architectures"]) for function in local.functions().values()} == {
        ("python3.13", "x86_64")
    }


def test_time_travel_is_for_the_local_stage_only(dev: Template, local: Template) -> None:
    def travel(template: Template) -> set[str]:
        names = ("lifecycle", "deployment", "archiver")
        return {template.functions()[name]["Environment"]["Variables"]["TIDETABLE_ALLOW_TIME_TRAVEL"] for name in names}

    assert travel(dev) == {"off"}
    assert travel(local) == {"on"}


def test_no_function_reserves_concurrency(dev: Template) -> None:
    assert not [name for name, function in dev.functions().items() if "ReservedConcurrentExecutions" in function]


def test_every_function_has_a_log_group_that_forgets(dev: Template) -> None:
    groups = dev.all("AWS::Logs::LogGroup")
    named = [function["LoggingConfig"]["LogGroup"]["Ref"] for function in dev.functions().values()]
    assert len(set(named)) == len(named)
    assert {groups[id]["RetentionInDays"] for id in named} == {30}


def test_every_log_is_kept_as_long_as_the_configuration_says() -> None:
    """The access log, too: it has the addresses of callers."""
    made = template("dev", *LOGGED)
    kept = {id: group["RetentionInDays"] for id, group in made.all("AWS::Logs::LogGroup").items()}
    assert {id: days for id, days in kept.items() if days != 7} == {}


def test_functions_log_at_the_level_of_the_configuration() -> None:
    levels = {
        one["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] for one in template("dev", *LOGGED).functions().values()
    }
    assert levels == {"DEBUG"}


def test_tracing_is_switched_by_the_configuration(dev: Template, signed: Template) -> None:
    assert not [name for name, function in dev.functions().items() if "TracingConfig" in function]
    assert {function["TracingConfig"]["Mode"] for function in signed.functions().values()} == {"Active"}


def test_stages_of_one_account_count_apart(dev: Template, local: Template) -> None:
    def services(template: Template) -> set[str]:
        return {
            function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
            for function in template.functions().values()
        }

    assert not services(dev) & services(local)


def test_functions_behind_the_api_start_from_a_snapshot_if_the_configuration_says_so(dev: Template) -> None:
    """SnapStart holds for published versions, so the API must call an alias of one."""
    made = template("dev", ("snap_start = false", "snap_start = true"))
    for name in ("ingest", "query"):
        assert made.functions()[name]["SnapStart"] == {"ApplyOn": "PublishedVersions"}
        assert "SnapStart" not in dev.functions()[name]
    aliases = made.all("AWS::Lambda::Alias")
    (authorizer,) = made.all("AWS::ApiGateway::Authorizer").values()
    assert any(id in json.dumps(authorizer["AuthorizerUri"]) for id in aliases)
    assert {alias["Name"] for alias in aliases.values()} == {"live"}
    methods = [method for method in made.all("AWS::ApiGateway::Method").values() if method["HttpMethod"] != "OPTIONS"]
    uris = [json.dumps(method["Integration"]["Uri"]) for method in methods]
    seldom = [made.id_of("console"), made.id_of("operations")]
    assert all(any(id in uri for id in [*aliases, *seldom]) for uri in uris)


def test_only_functions_that_callers_wait_for_all_day_have_a_snapshot() -> None:
    """A snapshot is paid for by the second, called or not: $0.0000015046 per GB and second."""
    made = template("dev", *LARGEST)
    snapped = {name: one["MemorySize"] for name, one in made.functions().items() if "SnapStart" in one}
    assert snapped == {"ingest": 512, "query": 1024, "authorizer": 512, "doors": 1024}
    assert len(made.all("AWS::Lambda::Version")) == len(made.all("AWS::Lambda::Alias")) == 4
    # What docs/design/configuration.md says, for 730 hours: with the doors, and without them.
    dollars = [megabytes / 1024 * 0.0000015046 * 730 * 3600 for megabytes in (3072, 2048)]
    assert [round(one, 1) for one in dollars] == [11.9, 7.9]


def test_no_executions_are_reserved_by_default(dev: Template) -> None:
    """A new account has 10 executions in all, and AWS keeps 100 of an account's unreserved."""
    assert not [name for name, function in dev.functions().items() if "ReservedConcurrentExecutions" in function]


def test_concurrency_reserves_executions_for_each_function_that_answers_requests() -> None:
    made = template("dev", *LIMITED)
    reserved = {
        handler: function["ReservedConcurrentExecutions"]
        for handler, function in made.functions().items()
        if "ReservedConcurrentExecutions" in function
    }
    assert reserved == {"ingest": 100, "query": 100, "doors": 100, "operations": 100}


def test_a_key_without_a_rate_has_what_the_configuration_says() -> None:
    made = template("dev", *LIMITED)
    (plan,) = made.all("AWS::ApiGateway::UsagePlan").values()
    assert plan["Throttle"] == {"RateLimit": 3.5, "BurstLimit": 9}
