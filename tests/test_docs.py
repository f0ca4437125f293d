"""The documents agree with the code: links, commands, test vectors, routes."""

import json
import re
import shlex
import subprocess
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.main import get_command

from cli.app import app
from tidetable.config import load, parse
from tidetable.ingest.rejection import Code
from tidetable.layout import compute_suffix

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def test_there_are_documents_to_look_at() -> None:
    assert len(DOCUMENTS) > 150


def test_every_relative_link_leads_somewhere() -> None:
    dead = [
        (name(document), link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        if not (document.parent / link).exists()
    ]
    assert dead == []


def test_every_make_command_of_the_readme_exists() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test", "deploy", "destroy", "stop"} <= named <= rules


@pytest.mark.parametrize(
    "example", ["orders", "scores", "jobs", "telemetry", "weblogs", "follows", "orders_sql", "alerts"]
)
def test_an_example_is_deployed_by_the_command_of_its_readme(example: str) -> None:
    """As far as possible without AWS: the command that make would run, and a valid configuration."""
    readme = (ROOT / "examples" / example / "README.md").read_text()
    (command,) = re.findall(r"^ +make (deploy .*)$", readme, re.MULTILINE)
    done = subprocess.run(["make", "-n", *command.split()], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    (file,) = re.findall(r"cdk deploy -c stage=dev -c config=(\S+)", done.stdout)
    assert load(ROOT / file).streams


def test_the_published_vectors_are_what_the_code_calculates() -> None:
    rows = re.findall(
        r"^\| `(.*)` \| ([\d |]+) \|$", (ROOT / "docs" / "inside" / "suffix.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 5
    for value, numbers in rows:
        assert [int(number) for number in numbers.split("|")] == [
            compute_suffix(value, n) for n in (1, 2, 4, 10, 16, 256)
        ]


def test_the_api_description_names_every_route_and_no_other() -> None:
    described = set(re.findall(r"^## ([A-Z]+ /\S+)$", (ROOT / "docs" / "use" / "api.md").read_text(), re.MULTILINE))
    source = (ROOT / "lambdas" / "handlers" / "query.py").read_text()
    routes = {f"GET {path}" for path in re.findall(r'^    "(/v1/\S*)": \w+,$', source, re.MULTILINE)}
    operated = {f"GET /v1/{name}" for name in ("plan", "alarms", "activity", "cost")}
    assert described == routes | operated | {"POST /v1/streams/{stream}/events"}


def test_every_parameter_is_described() -> None:
    from tidetable.query.parse import KNOWN

    text = (ROOT / "docs" / "use" / "api.md").read_text()
    assert all(f"`{name}`" in text for name in KNOWN)


def test_troubleshooting_has_every_error_code_and_no_other() -> None:
    text = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
    whole, of_events = text.partition("## Codes of refused events")[::2]
    description = yaml.safe_load((ROOT / "docs" / "use" / "openapi.yaml").read_text())["components"]["schemas"]
    sources = [*(ROOT / "lambdas").rglob("*.py"), ROOT / "infra" / "api.py"]
    raised = set[str]()
    for source in sources:
        raised |= set(re.findall(r'(?:refuse_request|Problem)\(\s*\d{3},\s*"(\w+)"', source.read_text()))
        raised |= set(re.findall(r'_Answer\.\w+,\s*\d{3},\s*"(\w+)"', source.read_text()))
    codes = set(re.findall(r"^\| `(\w+)` \| \d{3} \| .+ \| .+ \|$", whole, re.MULTILINE))
    assert codes == raised == set(description["Problem"]["properties"]["code"]["enum"])
    assert {"too_many_groups", "throttled", "needs_index"} <= codes
    refusals = set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", of_events, re.MULTILINE))
    assert refusals == set(description["Refusal"]["properties"]["code"]["enum"]) == set(get_args(Code))


# A row of the page of limits, and the name and value in the code.
LIMITS = [
    ("| events | 1,000 (`max_events`", "max_events: int", "1000"),
    ("| members of a gzip body | 1,000 |", "_MOST_MEMBERS", "1_000"),
    ("| series, id | 480 bytes", "MAX_NAME_BYTES", "480"),
    ("| requests to tables of `latest` | 2,000,", "MAX_REQUESTS", "2_000"),
    ("| significant digits of a number | 38 |", "MAX_DIGITS", "38"),
    ("| characters of a number that is not whole | 400,", "MAX_NUMBER_CHARACTERS", "400"),
    ("| tags in a line of line protocol | 256 |", "MOST_KEY_BYTES, MOST_TAGS", "65_535, 256"),
    ("| measurement and tags of a line | 65,535 bytes", "MOST_KEY_BYTES, MOST_TAGS", "65_535, 256"),
    ("with a ref or an error for each event | 5.9 MB;", "MAX_ANSWER_BYTES, SURELY_ANSWERED", "5_900_000, 1_500"),
    ("| nesting | 31 levels |", "MAX_DEPTH", "31"),
    ("| value of an indexed field | 2,000 bytes |", "MAX_VALUE_BYTES", "2_000"),
    ("2.5 MB of JSON with", "MAX_EVENT_BYTES", "2_500_000"),
    ('with `versions = "keep"` | 160 KB |', "_VERSION_BARE_BYTES", "160_000"),
    ("| events per page | 10,000 |", "MAX_LIMIT", "10_000"),
    ("| bytes of an answer | 5 MB |", "MAX_PAGE_BYTES", "5_000_000"),
    ("| conditions | 10, with", "MAX_CONDITIONS", "10"),
    ("with 2,048 bytes together", "MAX_BYTES", "2048"),
    ("30 values per `in`", "MAX_VALUES", "30"),
    ("| names: `series`, `id` | 100 each |", "MAX_NAMES", "100"),
    ("| `fields` | 50 names", "MAX_FIELDS", "50"),
    ("| everything in a cursor | 5,000 bytes |", "MAX_QUERY_BYTES", "5_000"),
    ("| steps of an aggregate | 100,000", "MAX_STEPS", "100_000"),
    ("or 99,999 months (`mo`)", "_MOST_MONTHS", "99_999"),
    ("| `tz` | 64 characters", "_MOST_LETTERS", "64"),
    ("| groups in memory | 20,000; 10,000 with", "MAX_CELLS, MAX_SKETCHES", "20_000, 10_000"),
    ("| characters of the values of `by` | 20 million", "MAX_GROUP_TEXTS", "20_000_000"),
    ("| cells of a page of CSV | 2,000,000:", "MOST_CELLS, MOST_PATHS", "2_000_000, 20_000_000"),
    ("| characters of the paths of a flat page | 20 million", "MOST_CELLS, MOST_PATHS", "2_000_000, 20_000_000"),
    ("with the buckets of histograms | 500,000 |", "MOST_MESSAGES", "500_000"),
    ("that a query with `fields` compares | 40 MB", "MOST_UNITS", "5_000"),
    ("| indexes | 20 per table", "MAX_INDEXES", "20"),
    ("| open tables | 200:", "MAX_OPEN_TABLES", "200"),
    ("AWS raises it to 10,000 at most", "MAX_QUOTA", "10_000"),
    ("| units per second of a table | 40,000 |", "MAX_UNITS", "40_000"),
    ("| tables that a backfill opens | 200 |", "MAX_OPEN_TABLES", "200"),
    ("| time that a backfill is open | 30 days |", "LONGEST_OPEN", "timedelta(days=30)"),
    ("in `notify` | 20, 5 ", "MAX_ADDRESSES", "20"),
    ("| origins in `cors` | 20 |", "MAX_ORIGINS", "20"),
]


def test_a_published_limit_is_that_of_the_code() -> None:
    published = (ROOT / "docs" / "use" / "limits.md").read_text()
    source = "".join(file.read_text() for file in (ROOT / "lambdas").rglob("*.py"))
    set_lines = {line.lstrip(" ") for line in source.splitlines()}
    assert [row for row, *_ in LIMITS if row not in published] == []
    assert [(limit, value) for _, limit, value in LIMITS if f"{limit} = {value}" not in set_lines] == []


def _prose(document: Path) -> list[str]:
    """The lines of a document outside of tables and code."""
    fenced = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for line in fenced.splitlines() if not line.startswith(("|", "    "))]


def test_prose_is_folded() -> None:
    assert [(name(document), line) for document in DOCUMENTS for line in _prose(document) if len(line) > 120] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in DOCUMENTS if page.parent.parent == ROOT / "docs"}
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", index))
    assert linked == {page for page in pages if not page.startswith("decisions/")}


def test_every_section_that_a_link_names_exists() -> None:
    for document in DOCUMENTS:
        for link, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
            target = document.parent / link if link else document
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            names = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert section in names, f"{document.name}: {link}#{section}"


def test_every_command_of_the_tool_is_described_and_no_other() -> None:
    text = (ROOT / "docs" / "operate" / "commands.md").read_text().partition("## What else")[0]
    described = re.findall(r"^\| `([a-z]+)[^`]*` \|", text, re.MULTILINE)
    assert sorted(described) == sorted(get_command(app).commands)  # type: ignore[attr-defined]


COMMANDS = sorted(
    {
        line.partition("#")[0].strip()
        for document in DOCUMENTS
        for line in re.findall(r"^    bin/tidetable (\S.*)$", document.read_text(), re.MULTILINE)
        if line != "--help"
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_documents_is_one_that_the_tool_takes(line: str) -> None:
    """Only its name, options and arguments are checked. Nothing is run."""
    name, *words = shlex.split(line.replace("…", "1"))
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    assert command.make_context(name, words).params


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) >= 15


def test_the_configuration_of_the_first_page_can_be_used() -> None:
    text = (ROOT / "docs" / "start" / "get-started.md").read_text()
    (block,) = re.findall(r"^    (\[streams\.access\](?:\n    .*)+)", text, re.MULTILINE)
    (stream,) = parse(block.replace("\n    ", "\n")).streams.values()
    assert (stream.retention, stream.late, stream.key.partition_by) == (14, timedelta(hours=1), "time")


def test_every_make_command_of_the_documents_exists() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for named in re.findall(r"(?:^    |`)make ([a-z]+)", document.read_text(), re.MULTILINE):
            assert named in rules, f"{document.name}: make {named}"


def test_no_command_looks_among_the_first_hundred_resources_of_a_stack() -> None:
    """AWS, DescribeStackResources: only the first 100 resources are returned. A stage has 186 and more."""
    assert [document.name for document in DOCUMENTS if "describe-stack-resources" in document.read_text()] == []


def test_every_alarm_names_a_section_of_the_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "operate" / "runbook.md").read_text(), re.MULTILINE)
    alarms = tomllib.loads((ROOT / "infra" / "alarms.toml").read_text())
    assert len(alarms) > 5
    assert set(alarms) == set(headings)


def test_every_package_names_the_licence_that_lies_beside_it() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence.splitlines()[1]
    assert "Version 2.0" in licence.splitlines()[2]
    assert (ROOT / "cdk" / "LICENSE").read_text() == licence
    assert json.loads((ROOT / "package.json").read_text())["license"] == "Apache-2.0"
    for package in ("cdk", "clients/python"):
        assert tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


GUIDE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_guide_names_only_files_that_exist() -> None:
    """A path begins with a folder of the project, and may have an asterisk."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    paths = [path for path in re.findall(r"`([\w.*/-]+)`", GUIDE) if path.partition("/")[0] in folders and "/" in path]
    assert len(paths) > 60
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


def test_the_guide_names_what_its_files_have() -> None:
    """Each name that the guide looks for in a file, such as `Index` in `lambdas/tidetable/layout/index.py`."""
    pairs = re.findall(r"`(\w+)`\s(?:in|of)\s`([\w/.-]+\.(?:py|js))`", GUIDE)
    assert len(pairs) > 12
    lacking = [(name, path) for name, path in pairs if not re.search(rf"\b{name}\b", (ROOT / path).read_text())]
    assert lacking == []


def test_every_view_of_the_console_is_described() -> None:
    views = re.search(r"const VIEWS = \{(.*?)\n\};", (ROOT / "console/js/main.js").read_text(), re.DOTALL)
    assert views
    titles = re.findall(r'title: "(\w+)"', views[1])
    page = (ROOT / "docs/use/console.md").read_text()
    table = page.partition("| view | what it shows |\n|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == titles
