"""Deploy the stack into the emulator with the real CDK command line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from local.emulator import REGION, ROOT, Emulator, Engine, clean_environment
from local.keep import RunningStage

STAGE = "local"
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}

# The CDK's command line prints this when an app has ended.
_SYNTHESISED = "Synthesis time"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Deployed:
    """A deployed local stage: the addresses of its API and its tables, the API key, and the stack's outputs."""

    endpoint: str
    api: str
    key: str
    outputs: dict[str, str]
    dynamodb: str = ""

    def make_client(self, service: str) -> Any:
        """Make a boto3 client of the emulator."""
        return make_aws_client(self.dynamodb or self.endpoint if service == "dynamodb" else self.endpoint, service)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which the command line, or any AWS client, reaches the stage."""
        variables = {**_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.endpoint, "TIDETABLE_STAGE": STAGE}
        separate = self.dynamodb not in ("", self.endpoint)
        return variables | ({"AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb} if separate else {})


def make_aws_client(endpoint: str, service: str) -> Any:
    """Make a boto3 client that can reach only the emulator."""
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the emulator takes any
        config=Config(read_timeout=300, retries={"total_max_attempts": 1}),
    )


def deploy(
    emulator: Emulator,
    progress: Progress = lambda _: None,
    *,
    config: Path | None = None,
    engine: Engine | None = None,
) -> Deployed:
    """Bootstrap and deploy a configuration, by default tidetable.toml.

    RuntimeError with the command's output if the deployment fails. If ``engine`` differs from the emulator's engine,
    the emulator restarts without any data: see Emulator.use.
    """
    if engine is not None:
        emulator.change_engine(engine)
    progress("cdk bootstrap, and cdk deploy at the same time; the first time, pip fetches the functions' packages")
    # A bootstrap mostly waits, and a deployment begins with a synth, which does not need it.
    bootstrapped = emulator.folder / "bootstrapped"
    with ThreadPoolExecutor(1) as pool:
        deployed = pool.submit(_deploy_stack, emulator, progress, *_name_config(config), after=bootstrapped)
        try:
            _run_cdk(emulator, "bootstrap", f"aws://000000000000/{REGION}")
            bootstrapped.write_text("complete")
        except BaseException:
            bootstrapped.write_text("failed")
            raise
        return deployed.result()


def deploy_over(
    emulator: Emulator | RunningStage, progress: Progress = lambda _: None, *, config: Path | None = None
) -> Deployed:
    """Deploy a configuration into an emulator that was bootstrapped. A stage that is deployed there keeps its data.

    RuntimeError with the command's output if the deployment fails.
    """
    progress("cdk deploy")
    return _deploy_stack(emulator, progress, *_name_config(config))


def _name_config(config: Path | None) -> tuple[str, ...]:
    """Return the CDK's options for a configuration."""
    return () if config is None else ("-c", f"config={config.resolve()}")


def _deploy_stack(
    emulator: Emulator | RunningStage, progress: Progress, *options: str, after: Path | None = None
) -> Deployed:
    """Deploy. If ``after`` is given, the synth ends when that file is there: see local/synth.py."""
    outputs_file = emulator.folder / "outputs.json"
    command = ["deploy", "--require-approval", "never", "--outputs-file", str(outputs_file), *options]
    if after is not None:
        command += ["--app", shlex.join([sys.executable, "-P", str(ROOT / "local" / "synth.py"), str(after)])]

    def read_line(line: str) -> None:
        if _SYNTHESISED in line:
            progress("the stack is synthesised: CloudFormation makes it")

    _run_cdk(emulator, *command, read_line=read_line)
    return find_stage(emulator, json.loads(outputs_file.read_text())[f"Tidetable-{STAGE}"])


def find_stage(emulator: Emulator | RunningStage, outputs: dict[str, str]) -> Deployed:
    """Find the addresses and the key of a stage in the emulator by the outputs of its stack."""
    endpoint = emulator.endpoint
    key = make_aws_client(endpoint, "apigateway").get_api_key(apiKey=outputs["ApiKeyId"], includeValue=True)
    return Deployed(endpoint, _find_api(endpoint, outputs["ApiUrl"]), key["value"], outputs, emulator.dynamodb)


def _find_api(endpoint: str, url: str) -> str:
    """Find the API's address at the emulator, which serves https://<id>.…/<stage>/ under a path of its own address."""
    parts = urlsplit(url)
    name = (parts.hostname or "").split(".")[0]
    return f"{endpoint}/restapis/{name}/{parts.path.strip('/')}/_user_request_"


def _run_cdk(
    emulator: Emulator | RunningStage,
    *arguments: str,
    app: Path = ROOT,
    read_line: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the CDK's command line; ``app`` is the folder of an app's ``cdk.json``, ``read_line`` gets what it prints."""
    if urlsplit(emulator.endpoint).hostname != "127.0.0.1":
        raise RuntimeError("the local stage is only ever deployed to this machine")
    environment = (
        clean_environment()
        | _CREDENTIALS
        | {
            "AWS_ENDPOINT_URL": emulator.endpoint,
            "AWS_ENDPOINT_URL_S3": emulator.endpoint,
            "AWS_CONFIG_FILE": str(Path(emulator.folder) / "no-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(Path(emulator.folder) / "no-credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            # The CDK's own check of the template is meant for a stage in AWS, and takes half of the time of a synth. It
            # runs at a deployment to AWS, and in tests/infra/test_rules.py.
            "CDK_VALIDATION": "false",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }
        # The CDK compares the times of the stack's events with its own time. So if the emulator's clock was moved, the
        # CDK gets the same time.
        | emulator.time_environment
    )
    cdk = [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments]
    options = ["-c", f"stage={STAGE}", "--no-notices", "--ci"]
    # Bootstrapping needs no synth. In a folder without cdk.json, the CDK does not synthesise.
    if arguments[0] != "bootstrap":
        options += ["--output", str(emulator.folder / "cdk.out")]
    folder = emulator.folder if arguments[0] == "bootstrap" else app
    with subprocess.Popen(  # noqa: S603
        [*cdk, *options], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            read_line(line)
    if process.returncode:
        raise RuntimeError(f"cdk {arguments[0]} failed:\n{''.join(lines)[-6000:]}")
