"""The direction of imports: handlers -> wiring -> (aws, doors, bill, core); aws, doors, bill -> core; core -> nothing."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAMBDAS = ROOT / "lambdas"
PARSERS = {"google", "opentelemetry", "line_protocol_parser"}
WIRING = [LAMBDAS / "wiring.py", LAMBDAS / "wiring_upkeep.py"]
PARSING = LAMBDAS / "doors" / "parsers"
CORE = sorted((LAMBDAS / "tidetable").rglob("*.py"))
DOORS = sorted(file for file in (LAMBDAS / "doors").rglob("*.py") if PARSING not in file.parents)
BILL = sorted((LAMBDAS / "bill").rglob("*.py"))
PURE = [*CORE, *DOORS, *BILL]


@lru_cache(256)
def parse_nodes(file: Path) -> list[ast.AST]:
    """All nodes of a module, which several tests look at."""
    return list(ast.walk(ast.parse(file.read_text())))


@cache
def imports(file: Path) -> list[str]:
    """The imports of a module, also those inside of functions."""
    return list(name_imports(parse_nodes(file)))


def imports_at_once(file: Path) -> Iterator[str]:
    """The imports of a module itself: not those inside of functions, nor those for types only."""
    yield from name_imports(ast.parse(file.read_text()).body)


def name_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def tops(file: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(file)}


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", CORE, ids=name)
def test_the_core_imports_itself_msgspec_and_the_standard_library_only(file: Path) -> None:
    assert tops(file) - sys.stdlib_module_names <= {"tidetable", "msgspec"}


@pytest.mark.parametrize("file", [*DOORS, *BILL], ids=name)
def test_doors_and_the_bill_know_the_core_and_not_each_other(file: Path) -> None:
    room = file.relative_to(LAMBDAS).parts[0]
    assert tops(file) - sys.stdlib_module_names <= {room, "tidetable", "msgspec"}
    assert not [module for module in imports(file) if module.startswith("doors.parsers")]


@pytest.mark.parametrize("file", PURE, ids=name)
def test_the_core_reads_no_clock_and_no_environment_and_draws_no_lots(file: Path) -> None:
    assert not {"os", "time", "random", "socket"} & tops(file)
    called = {node.attr for node in parse_nodes(file) if isinstance(node, ast.Attribute)}
    assert not {"utcnow", "today"} & called
    assert "datetime.now(" not in file.read_text()


@pytest.mark.parametrize("file", PURE, ids=name)
def test_the_core_works_side_by_side_in_pools_that_are_handed_in(file: Path) -> None:
    """With its own pools or threads, simulations would not be reproducible."""
    taken = {
        f"{node.module}.{alias.name}"
        for node in parse_nodes(file)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    allowed = {"concurrent.futures.Executor", "concurrent.futures.Future", "threading.Lock"}
    assert {module for module in taken if module.startswith(("concurrent", "threading"))} <= allowed
    assert not {"asyncio", "multiprocessing"} & tops(file)


@pytest.mark.parametrize("file", sorted((LAMBDAS / "handlers").glob("*.py")), ids=name)
def test_handlers_reach_aws_and_the_parsers_through_the_wiring_only(file: Path) -> None:
    assert not {"aws", "boto3", "botocore", "pyarrow", *PARSERS} & tops(file)
    assert not [module for module in imports(file) if module.startswith("doors.parsers")]


@pytest.mark.parametrize("file", sorted((LAMBDAS / "aws").rglob("*.py")), ids=name)
def test_adapters_know_the_core_and_their_own_libraries(file: Path) -> None:
    # The adapter of CloudWatch's meters returns the amounts of the bill, which alone needs it.
    assert tops(file) - sys.stdlib_module_names - ({"bill"} if file.name == "meters.py" else set()) <= {
        "aws", "tidetable", "boto3", "botocore", "msgspec", "pyarrow", "ddsketch", "zstandard", "nanoarrow",
        "mypy_boto3_dynamodb", "mypy_boto3_events", "mypy_boto3_lambda", "mypy_boto3_s3", "mypy_boto3_sqs",
    }  # fmt: skip


@pytest.mark.parametrize("file", sorted((LAMBDAS / "aws" / "http").glob("*.py")), ids=name)
def test_the_http_client_knows_nothing_of_tidetable(file: Path) -> None:
    assert tops(file) - sys.stdlib_module_names <= {"aws", "msgspec"}
    ours = [module for module in imports(file) if module.startswith("aws")]
    assert [module for module in ours if not module.startswith("aws.http.")] == []
    assert "tidetable" not in file.read_text().lower()


@pytest.mark.parametrize("file", sorted(PARSING.rglob("*.py")), ids=name)
def test_parsers_know_the_core_and_their_own_libraries(file: Path) -> None:
    assert tops(file) - sys.stdlib_module_names <= {"doors", "tidetable", *PARSERS}


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


def test_the_modules_beside_the_handlers_import_each_other_in_no_circle() -> None:
    modules = {file.stem: tops(file) for file in LAMBDAS.glob("*.py")}
    reached = {stem: tops & modules.keys() for stem, tops in modules.items()}
    for _ in modules:
        reached = {stem: tops.union(*(reached[top] for top in tops)) for stem, tops in reached.items()}
    assert [stem for stem, tops in reached.items() if stem in tops] == []


def find_circle(arrows: dict[str, set[str]]) -> list[str]:
    """The modules of circles: whoever reads one of them needs the others. Empty if imports go one way."""
    while ends := {module for module, imported in arrows.items() if not imported & arrows.keys()}:
        arrows = {module: imported for module, imported in arrows.items() if module not in ends}
    while begins := set(arrows) - {module for imported in arrows.values() for module in imported}:
        arrows = {module: imported for module, imported in arrows.items() if module not in begins}
    return sorted(arrows)


@pytest.mark.parametrize(
    ("arrows", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}, ["b", "c"]),
    ],
    ids=["one way", "a circle of two"],
)
def test_a_circle_is_found(arrows: dict[str, set[str]], circle: list[str]) -> None:
    assert find_circle(arrows) == circle


def test_no_modules_of_the_functions_import_each_other_in_a_circle() -> None:
    """Imports inside of functions and for types count, too. A name that a package passes on counts as its own module's."""
    modules = {str(file.relative_to(LAMBDAS).with_suffix("")).replace("/", "."): file for file in LAMBDAS.rglob("*.py")}
    origins: dict[str, str] = {}
    arrows: dict[str, set[str]] = {}
    # Packages come first: they say where the names that they pass on come from.
    for module, file in sorted(modules.items(), key=lambda item: not item[0].endswith(".__init__")):
        package = module.removesuffix(".__init__")
        arrows[package] = set()
        for node in parse_nodes(file):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if package != module:
                    origins[f"{package}.{alias.name}"] = name
                    continue
                while name in origins:
                    name = origins[name]
                source = name if name in modules else name.rpartition(".")[0]
                arrows[module].add(source)
    assert len(arrows) > 250
    assert find_circle(arrows) == []


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
pipeline.ingest, pipeline.reader, pipeline.drain
heavy = ("boto3", "botocore.session", "pydantic", "aws_xray_sdk", "pyarrow", "ddsketch", "zstandard", "nanoarrow")
heavy += ("tidetable.query.aggregates", "tidetable.query.rankings", "tidetable.ingest.marks", "aws.dynamodb.rollups")
heavy += ("tidetable.query.aggregates", "tidetable.query.rankings", "tidetable.packs", "tidetable.ingest.columns")
heavy += ("tidetable.query.listings", "tidetable.query.sections", "tidetable.query.typed", "aws.arrow")
heavy += ("doors", "google.protobuf", "wiring_upkeep", "bill", "aws.meters")
print([name for name in heavy if name in sys.modules])
"""
    environment = {"TIDETABLE_STAGE": "t", "PATH": os.environ["PATH"], "POWERTOOLS_METRICS_NAMESPACE": "t"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


# Those with a field that no log may show, and those with an abstract base: a struct can have neither.
DATACLASSES = {"Decision", "KeyRecord", "Answer", "Events", "ComputedRows"}


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


@pytest.mark.parametrize("file", sorted(CLIENT.glob("*.py")), ids=name)
def test_the_client_needs_httpx_and_msgspec_only(file: Path) -> None:
    """It is installed without the rest of this repository. What an extra brings is imported where it is used."""
    at_once = {module.partition(".")[0] for module in imports_at_once(file)}
    assert at_once - sys.stdlib_module_names <= {"tidetable_client", "httpx", "msgspec"}
    assert tops(file) - at_once - sys.stdlib_module_names <= {"tidetable_client", "msgspec", "botocore"}


@pytest.mark.parametrize("module", ["answers", "errors", "outbox", "policy", "stamps", "tailing"])
def test_the_core_of_the_client_does_no_input_or_output(module: str) -> None:
    file = CLIENT / f"{module}.py"
    assert not {"httpx", "time", "threading", "asyncio", "random", "os", "socket", "logging"} & tops(file)
    assert "datetime.now(UTC)" not in file.read_text().replace('use datetime.now(UTC)"', "")


@pytest.mark.parametrize("file", sorted([*LAMBDAS.rglob("*.py"), *(ROOT / "infra").glob("*.py")]), ids=name)
def test_nothing_that_is_deployed_imports_the_client(file: Path) -> None:
    assert "tidetable_client" not in tops(file)


@pytest.mark.parametrize("file", sorted((ROOT / "infra").glob("*.py")), ids=name)
def test_infrastructure_knows_of_the_lambdas_no_more_than_the_core(file: Path) -> None:
    assert not {"handlers", "aws", "doors", "bill", "wiring", "wiring_upkeep", "settings"} & tops(file)


@pytest.mark.parametrize("file", sorted((ROOT / "strict").glob("*.py")), ids=name)
def test_the_tests_dynamodb_shares_no_code_with_what_it_tests(file: Path) -> None:
    assert tops(file) - sys.stdlib_module_names <= {"strict", "botocore", "urllib3"}


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("*.py")), ids=name)
def test_no_test_module_imports_another(file: Path) -> None:
    """Shared helpers are in tests/fakes and tests/worlds."""
    assert [module for module in imports(file) if module.startswith("tests.") and ".test_" in module] == []
