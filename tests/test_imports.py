"""The direction of imports: handlers -> wiring -> (aws, doors, bill, core); aws, doors, bill -> core; core -> nothing.

Each rule has one result, which names every file that breaks it.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.breaches import (
    ROOT,
    find_breaches,
    find_files,
    find_foreign,
    imports,
    imports_at_once,
    name,
    read_module,
    tops,
)

LAMBDAS = ROOT / "lambdas"
PARSERS = {"google", "opentelemetry", "line_protocol_parser"}
WIRING = [LAMBDAS / f"{name}.py" for name in ("wiring", "wiring_drain", "wiring_upkeep")]
PARSING = LAMBDAS / "doors" / "parsers"
CORE = find_files("lambdas/tidetable", 150)
DOORS = [file for file in find_files("lambdas/doors", 10) if PARSING not in file.parents]
BILL = find_files("lambdas/bill", 5)
PURE = [*CORE, *DOORS, *BILL]


def find_parsers(file: Path) -> set[str]:
    return {module for module in imports(file) if module.startswith("doors.parsers")}


def test_a_breach_is_named_with_its_file() -> None:
    """tests/conftest.py imports pytest, hypothesis and xdist, and calls no ``walk``; the finder of imports does."""
    files = [ROOT / "tests" / "conftest.py", ROOT / "tests" / "worlds" / "breaches.py"]
    assert find_breaches(files, find_foreign("pytest", "xdist")) == {"tests/conftest.py": ["hypothesis"]}
    assert find_breaches(files, lambda file: {"walk"} & read_module(file).attributes) == {
        "tests/worlds/breaches.py": ["walk"]
    }
    assert ("dataclasses", "dataclass") in read_module(files[1]).pairs


def test_the_core_imports_itself_msgspec_and_the_standard_library_only() -> None:
    assert find_breaches(CORE, find_foreign("tidetable", "msgspec")) == {}


def test_doors_and_the_bill_know_the_core_and_not_each_other() -> None:
    assert find_breaches(DOORS, find_foreign("doors", "tidetable", "msgspec")) == {}
    assert find_breaches(DOORS, find_parsers) == {}
    assert find_breaches(BILL, find_foreign("bill", "tidetable", "msgspec")) == {}


def find_chance(file: Path) -> set[str]:
    """What makes a result depend on the hour, the machine or a die."""
    clocks = {text for text in ("datetime.now(",) if text in read_module(file).text}
    modules = {"os", "time", "random", "socket"} & tops(file)
    return modules | clocks | ({"utcnow", "today"} & read_module(file).attributes)


def test_the_core_reads_no_clock_and_no_environment_and_draws_no_lots() -> None:
    assert find_breaches(PURE, find_chance) == {}


def find_pools(file: Path) -> set[str]:
    """What would work side by side without its caller's pool."""
    taken = {f"{module}.{taken}" for module, taken in read_module(file).pairs}
    allowed = {"concurrent.futures.Executor", "concurrent.futures.Future", "threading.Lock"}
    parallel = {module for module in taken if module.startswith(("concurrent", "threading"))}
    return parallel - allowed | ({"asyncio", "multiprocessing"} & tops(file))


def test_the_core_works_side_by_side_in_pools_that_are_handed_in() -> None:
    """With its own pools or threads, simulations would not be reproducible."""
    assert find_breaches(PURE, find_pools) == {}


def test_handlers_reach_aws_and_the_parsers_through_the_wiring_only() -> None:
    forbidden = {"aws", "boto3", "botocore", "pyarrow", *PARSERS}
    handlers = find_files("lambdas/handlers", 10)
    assert find_breaches(handlers, lambda file: (forbidden & tops(file)) | find_parsers(file)) == {}


def test_adapters_know_the_core_and_their_own_libraries() -> None:
    libraries = (
        "aws", "tidetable", "boto3", "botocore", "msgspec", "pyarrow", "ddsketch", "zstandard", "nanoarrow",
        "mypy_boto3_dynamodb", "mypy_boto3_events", "mypy_boto3_lambda", "mypy_boto3_s3", "mypy_boto3_sqs",
    )  # fmt: skip
    # The adapter of CloudWatch's meters returns the amounts of the bill, which alone needs it.
    meters = LAMBDAS / "aws" / "meters.py"
    tables = find_files("lambdas/aws/iceberg", 3)
    others = [file for file in find_files("lambdas/aws", 40) if file not in (meters, *tables)]
    assert find_breaches(others, find_foreign(*libraries)) == {}
    assert find_breaches(tables, find_foreign("aws", "tidetable", "pyiceberg")) == {}
    assert find_breaches([meters], find_foreign("bill", *libraries)) == {}


def find_project(file: Path) -> set[str]:
    """What ties a module of the HTTP client to the rest of the project."""
    own = {module for module in imports(file) if module.startswith("aws") and not module.startswith("aws.http.")}
    return own | {word for word in ("tidetable",) if word in read_module(file).text.lower()}


def test_the_http_client_knows_nothing_of_tidetable() -> None:
    files = find_files("lambdas/aws/http", 3)
    assert find_breaches(files, find_foreign("aws", "msgspec")) == {}
    assert find_breaches(files, find_project) == {}


def test_parsers_know_the_core_and_their_own_libraries() -> None:
    assert find_breaches(find_files("lambdas/doors/parsers", 2), find_foreign("doors", "tidetable", *PARSERS)) == {}


def test_only_the_doors_function_imports_the_parsers_and_their_libraries() -> None:
    """The wiring imports them inside of functions that only the doors' handler calls."""
    importers = {
        name(file)
        for file in LAMBDAS.rglob("*.py")
        if PARSERS & tops(file) or any(module.startswith("doors.parsers") for module in imports(file))
    }
    assert {file.rpartition("/")[0] for file in importers} == {"lambdas", "lambdas/doors/parsers"}
    assert not [module for wiring in WIRING for module in imports_at_once(wiring) if module.startswith("doors")]


def test_only_the_archives_own_functions_import_pyarrow() -> None:
    """The wiring imports those modules only inside of functions that only the archive's functions call."""
    importers = {name(file) for file in LAMBDAS.rglob("*.py") if "pyarrow" in tops(file)}
    assert {file.rpartition("/")[0] for file in importers} == {"lambdas/aws/archive"}
    assert not {"lambdas/aws/archive/clients.py"} & importers
    archive = {module for module in imports(LAMBDAS / "aws/archive/clients.py") if module.startswith("aws.archive")}
    begun = {module for wiring in WIRING for module in imports_at_once(wiring) if module.startswith("aws.archive")}
    assert archive == begun == set()


def test_only_the_function_of_iceberg_imports_pyiceberg() -> None:
    """The wiring imports those modules only inside of functions that only this function calls."""
    importers = {name(file) for file in LAMBDAS.rglob("*.py") if "pyiceberg" in tops(file)}
    assert {file.rpartition("/")[0] for file in importers} == {"lambdas/aws/iceberg"}
    assert not [module for wiring in WIRING for module in imports_at_once(wiring) if module.startswith("aws.iceberg")]


def test_the_modules_beside_the_handlers_import_each_other_in_no_circle() -> None:
    modules = {file.stem: tops(file) for file in LAMBDAS.glob("*.py")}
    reached = {stem: tops & modules.keys() for stem, tops in modules.items()}
    for _ in modules:
        reached = {stem: tops.union(*(reached[top] for top in tops)) for stem, tops in reached.items()}
    assert [stem for stem, tops in reached.items() if stem in tops] == []


def test_the_wiring_passes_no_port_by_its_place_in_a_tuple() -> None:
    """Two ports of one type in the wrong order would be accepted by the checker of types."""
    nodes = [node for wiring in WIRING for node in ast.walk(ast.parse(wiring.read_text()))]
    assert [ast.unparse(node) for node in nodes if isinstance(node, ast.Starred)] == []


@pytest.mark.parametrize("handler", ["ingest", "query"])
def test_what_a_caller_waits_for_imports_no_boto3_pydantic_or_x_ray(handler: str) -> None:
    """Runs in a separate process with everything that the first request needs. Powertools imports only the name of
    botocore.
    """
    program = f"""
import sys
sys.path.insert(0, {str(LAMBDAS)!r})
from pathlib import Path
import settings
settings.CONFIG_FILE = Path({str(ROOT / "tidetable.toml")!r})
from handlers import {handler}
import wiring
pipeline = wiring.get_pipeline()
pipeline.ingest, pipeline.reader
heavy = ("boto3", "botocore.session", "pydantic", "aws_xray_sdk", "pyarrow", "ddsketch", "zstandard", "nanoarrow")
heavy += ("tidetable.query.aggregates", "tidetable.query.rankings", "tidetable.ingest.marks", "aws.dynamodb.rollups")
heavy += ("tidetable.query.aggregates", "tidetable.query.rankings", "tidetable.packs", "tidetable.ingest.columns")
heavy += ("tidetable.query.listings", "tidetable.query.rollup_sources", "tidetable.query.typed", "aws.arrow")
heavy += ("doors", "google.protobuf", "wiring_drain", "wiring_upkeep", "bill", "aws.meters")
print([name for name in heavy if name in sys.modules])
"""
    environment = {"TIDETABLE_STAGE": "t", "PATH": os.environ["PATH"], "POWERTOOLS_METRICS_NAMESPACE": "t"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


# Those with a field that no log may show, and those with an abstract base: a struct can have neither.
DATACLASSES = {"Decision", "CredentialRecord", "Answer", "Events", "ComputedRows"}


@pytest.mark.parametrize("handler", ["ingest", "query", "authorizer"])
def test_a_cold_start_defines_structs(handler: str) -> None:
    """Python compiles the methods of each dataclass anew in each process: docs/decisions/0140."""
    program = f"""
import inspect, sys
from dataclasses import is_dataclass
from pathlib import Path
sys.path.insert(0, {str(LAMBDAS)!r})
import settings, wiring, handlers.{handler}
settings.CONFIG_FILE = Path({str(ROOT / "tidetable.toml")!r})
pipeline = wiring.get_pipeline()
pipeline.ingest, pipeline.reader
ours = [module for module in list(sys.modules.values()) if (getattr(module, "__file__", "") or "").startswith({str(LAMBDAS)!r})]
assert len(ours) > 30, ours
print(*{{name for module in ours for name, thing in vars(module).items() if inspect.isclass(thing) and is_dataclass(thing)}})
"""
    environment = {"TIDETABLE_STAGE": "t", "PATH": os.environ["PATH"], "POWERTOOLS_METRICS_NAMESPACE": "t"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert set(done.stdout.split()) <= DATACLASSES


CLIENT = ROOT / "clients" / "python" / "src" / "tidetable_client"


def find_needs(file: Path) -> set[str]:
    """What the client would need beside its two libraries. What an extra brings is imported where it is used."""
    at_once = {module.partition(".")[0] for module in imports_at_once(file)}
    later = tops(file) - at_once - {"tidetable_client", "msgspec", "botocore"}
    return (at_once - {"tidetable_client", "httpx", "msgspec"} | later) - sys.stdlib_module_names


def test_the_client_needs_httpx_and_msgspec_only() -> None:
    """It is installed without the rest of this repository."""
    assert find_breaches(find_files("clients/python/src/tidetable_client", 8), find_needs) == {}


@pytest.mark.parametrize("module", ["answers", "errors", "outbox", "policy", "stamps", "tailing"])
def test_the_core_of_the_client_does_no_input_or_output(module: str) -> None:
    file = CLIENT / f"{module}.py"
    assert not {"httpx", "time", "threading", "asyncio", "random", "os", "socket", "logging"} & tops(file)
    assert "datetime.now(UTC)" not in file.read_text().replace('use datetime.now(UTC)"', "")


def test_nothing_that_is_deployed_imports_the_client() -> None:
    files = find_files("lambdas", 300) + find_files("infra", 20)
    assert find_breaches(files, lambda file: {"tidetable_client"} & tops(file)) == {}


def test_infrastructure_knows_of_the_lambdas_no_more_than_the_core() -> None:
    forbidden = {"handlers", "aws", "doors", "bill", "wiring", "wiring_drain", "wiring_upkeep", "settings"}
    assert find_breaches(find_files("infra", 20), lambda file: forbidden & tops(file)) == {}


def test_the_tests_dynamodb_shares_no_code_with_what_it_tests() -> None:
    assert find_breaches(find_files("strict", 10), find_foreign("strict", "botocore", "urllib3")) == {}


def find_other_tests(file: Path) -> list[str]:
    return [module for module in imports(file) if module.startswith("tests.") and ".test_" in module]


def test_no_test_module_imports_another() -> None:
    """Shared helpers are in tests/fakes and tests/worlds. Only a file with ``.test_`` in its text can break the rule."""
    files = [file for file in find_files("tests", 500) if ".test_" in file.read_text()]
    assert find_breaches(files, find_other_tests) == {}
