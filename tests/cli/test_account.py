"""How a command finds a deployed stage: the outputs of its stack, its clients, and the reason if there is none."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from cli.account import Account, AccountError, connect, name_stack
from wiring_upkeep import Upkeep

REQUIRED = [
    *("LifecycleFunction", "ArchiverFunction", "RestorerFunction", "OverflowQueueUrl", "DeadLetterQueueUrl"),
    "CatalogTable",
]
OUTPUTS = [*REQUIRED, "SweeperFunction", "FeedFunction", "RefresherFunction", "ApiId", "ApiUsagePlan"]


class Session:
    """A session of boto3 whose clients are their names; ``made`` has the options of each client."""

    made: dict[str, Any]
    options: dict[str, Any]
    outputs: list[str]
    error: Exception | None = None
    _session = SimpleNamespace(get_config_variable=lambda _: None)

    def client(self, name: str, **options: Any) -> Any:
        self.made[name] = options
        connection = SimpleNamespace(http_session=SimpleNamespace(_socket_options=[]))
        meta = SimpleNamespace(endpoint_url=options.get("endpoint_url") or "http://aws", region_name="r")
        return SimpleNamespace(name=name, describe_stacks=self.describe, _endpoint=connection, meta=meta)

    def describe(self, StackName: str) -> Any:  # noqa: N803 - boto3's names
        if self.error is not None:
            raise self.error
        self.made["stack"] = StackName
        outputs = [{"OutputKey": name, "OutputValue": f"the {name}"} for name in self.outputs]
        return {"Stacks": [{"StackStatus": "CREATE_COMPLETE", "Outputs": outputs}]}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    session = Session()
    session.made, session.outputs, session.options = {}, OUTPUTS, {}

    def begin(**options: Any) -> Session:
        session.options.update(options)
        return session

    monkeypatch.setattr("boto3.Session", begin)
    for name in ("TIDETABLE_STACK", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    return session


def test_each_output_of_the_stack_has_its_place(session: Session) -> None:
    account = connect("t", endpoint="http://e", profile="p", region="r")
    assert account.outputs == {name: f"the {name}" for name in OUTPUTS}
    pipeline: Any = account.pipeline
    tables = pipeline.catalog._table, pipeline.keys._table, pipeline.catalog_table
    assert (pipeline.stage, *tables) == ("t", *["the CatalogTable"] * 3)
    clients = account.functions, account.queues, account.metrics, account.gateway
    assert [client.name for client in clients] == ["lambda", "sqs", "cloudwatch", "apigateway"]
    assert session.options == {"profile_name": "p", "region_name": "r"}
    assert session.made["stack"] == "Tidetable-t"
    assert {options["endpoint_url"] for options in session.made.values() if isinstance(options, dict)} == {"http://e"}
    assert account.session is session


def test_a_stage_may_have_no_more_than_what_every_stage_has(session: Session) -> None:
    session.outputs = REQUIRED
    account = connect("t")
    assert sorted(account.outputs) == sorted(REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_stack_that_lacks_an_output_is_no_stage(session: Session, name: str) -> None:
    session.outputs = [own for own in OUTPUTS if own != name]
    with pytest.raises(AccountError, match=f"the stack Tidetable-t is CREATE_COMPLETE and has no output {name}"):
        connect("t")


def test_a_function_may_take_a_quarter_of_an_hour_and_is_called_once(session: Session) -> None:
    """A second call would archive or restore a period beside the first."""
    connect("t")
    config = session.made["lambda"]["config"]
    assert (config.read_timeout, config.retries, config.tcp_keepalive) == (910, {"total_max_attempts": 1}, True)


def test_tables_may_be_in_another_engine(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://tables")
    connect("t", endpoint="http://e")
    assert (session.made["dynamodb"], session.made["sqs"]) == (
        {"endpoint_url": "http://tables"},
        {"endpoint_url": "http://e"},
    )


def test_a_stack_of_another_app_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDETABLE_STACK", raising=False)
    assert name_stack("prod") == "Tidetable-prod"
    monkeypatch.setenv("TIDETABLE_STACK", "Shop")
    assert name_stack("prod") == "Shop"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NoRegionError(), "no Region is known: add --region, or set AWS_REGION"),
        (NoCredentialsError(), "there are no AWS credentials: set them in the environment, or add --profile"),
        (
            ClientError({"Error": {"Code": "ValidationError", "Message": "no such stack."}}, "DescribeStacks"),
            r"stage 't' could not be reached: .*no such stack\. Is it deployed \(make deploy STAGE=t\)",
        ),
        (EndpointConnectionError(endpoint_url="http://e"), r"stage 't' could not be reached: .*http://e"),
    ],
)
def test_a_stage_that_cannot_be_reached_says_what_to_do(session: Session, error: Exception, reason: str) -> None:
    session.error = error
    with pytest.raises(AccountError, match=reason):
        connect("t")


class Functions:
    """Lambda with one answer."""

    def __init__(self, body: bytes = b"null", error: Exception | None = None, **more: Any) -> None:
        self.body, self.error, self.more = body, error, more
        self.asked: list[Any] = []

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        self.asked.append((FunctionName, json.loads(Payload)))
        if self.error is not None:
            raise self.error
        return {"Payload": io.BytesIO(self.body), **self.more}


def make_account(functions: Functions) -> Account:
    return Account(
        Upkeep(), {"RestorerFunction": "restorer", "SweeperFunction": "sweeper", "FeedFunction": "feed"}, functions
    )


def test_a_function_that_cannot_be_called_is_named_by_its_task() -> None:
    for error in (
        ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "Invoke"),
        EndpointConnectionError(endpoint_url="http://lambda"),
    ):
        with pytest.raises(AccountError, match="the sweep could not be called: "):
            make_account(Functions(error=error)).sweep_objects(dry_run=True)
    failed = Functions(b'{"errorType": "Timeout"}', FunctionError="Unhandled")
    with pytest.raises(AccountError, match=r"the restorer failed: \{'errorType': 'Timeout'\}"):
        make_account(failed).run_restorer(status="s")


def test_a_function_may_answer_nothing() -> None:
    functions = Functions(b"")
    make_account(functions).redeliver_changes("s", "target", ["{}"])
    assert functions.asked == [("feed", {"feed": "s", "target": "target", "changes": ["{}"]})]
