"""What a command says if a file, the account or the stage is not what it needs: the reason, and no traceback."""

import gzip
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from typer.testing import Result

from cli import common
from cli.account import AccountError, connect
from cli.connection import find_api
from cli.options import Target
from cli.sources import Columns, SourceError, open_source
from tests.fakes.stage import Stage
from tests.worlds.commands import run


def ends_with_a_reason(result: Result, reason: str) -> bool:
    return result.exit_code == 1 and isinstance(result.exception, SystemExit) and reason in result.output


@pytest.mark.parametrize("kept", [b"not compressed at all", gzip.compress(b'{"series": "a", "time": 1}\n' * 999)[:-20]])
@pytest.mark.parametrize("name", ["rows.ndjson.gz", "rows.csv.gz"])
def test_a_file_that_is_no_whole_gzip_file_is_named(tmp_path: Path, name: str, kept: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(kept)
    with pytest.raises(SourceError, match=f"{name} cannot be decompressed: "):
        list(open_source(file, None, Columns(utc=True)).read())


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_beyond_every_calendar_spoils_its_row_alone(tmp_path: Path, unit: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("series,time\na,99999999999999999999999.5\nb,1000\n")
    rows = list(open_source(file, None, Columns(time_unit=unit)).read())
    assert [row.event is None for row in rows] == [True, False]


def test_a_file_that_cannot_be_written_is_named(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    assert ends_with_a_reason(run("cost", "--days", "1", "--svg", str(taken)), "taken")


def test_a_port_that_another_program_has_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    account = replace(common.connect("t"), outputs={"ConsoleUrl": "https://api/console"})  # type: ignore[attr-defined]
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert ends_with_a_reason(run("console", "--no-open", "--port", port), "in use")
    assert run("console", "--no-open", "--port", "65536").exit_code == 64


@pytest.mark.parametrize(
    "error, reason",
    [
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not you"}}, "Query"), "not you"),
        (EndpointConnectionError(endpoint_url="https://dynamodb"), "https://dynamodb"),
    ],
)
@pytest.mark.parametrize("words", [("archive", "s", "2026-03-15T09"), ("backfill", "s"), ("status",)])
def test_a_catalog_that_refuses_ends_a_command_with_its_reason(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: Exception, reason: str
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    for name in ("entries", "walk", "backfills"):
        monkeypatch.setattr(stage.catalog, name, refuse)
    assert ends_with_a_reason(run(*words), reason)


class Stacks:
    """CloudFormation, where the first deployment of the stack has failed or is under way: it has no outputs yet."""

    def describe_stacks(self, **_: Any) -> Any:
        return {"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE"}]}


def test_a_stack_without_outputs_is_no_stage_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("boto3.Session.client", lambda *_, **__: Stacks())
    with pytest.raises(AccountError, match=r"Tidetable-t .*ROLLBACK_COMPLETE.*CatalogTable"):
        connect("t", region="us-east-1")
    with pytest.raises(BaseException) as ended:
        find_api(Target(stage="t", region="us-east-1"))
    assert getattr(ended.value, "exit_code", None) == 1
    assert "has no API" in capsys.readouterr().err


def test_a_reader_of_another_region_names_the_region_of_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [{"OutputKey": "Origin", "OutputValue": "us-east-1"}, {"OutputKey": "ApiUrl", "OutputValue": "https://a"}]
    stacks = SimpleNamespace(describe_stacks=lambda **_: {"Stacks": [{"StackStatus": "X", "Outputs": outputs}]})
    monkeypatch.setattr("boto3.Session.client", lambda *_, **__: stacks)
    with pytest.raises(AccountError, match="a reader of us-east-1: add --region us-east-1"):
        connect("t", region="eu-central-1")


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "create", "--name", "a", "--all-streams", "--expires", "9999999d"),
        ("keys", "rotate", "an-id", "--overlap", "9999999d"),
    ],
)
def test_a_length_that_ends_beyond_every_calendar_is_refused(stage: Stage, words: tuple[str, ...]) -> None:
    result = run(*words)
    assert (result.exit_code, f"{words[-2]}: 9999999d ends after the year 9999" in result.output) == (64, True)
