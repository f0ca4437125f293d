"""Start a stage on this machine with the user's configuration, for `make local`. The stage runs until `make stop`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "lambdas")]

from local import ENGINES, Deployed, Emulator, deploy
from local.emulator import Engine
from local.keep import RunningStage, end_remembered_stage, find_running_stage, remember_stage
from local.packages import begin_fetch
from local.stack import deploy_over
from tidetable.config import Config, load
from tidetable.errors import ConfigError

_EVENT = '{"series": "a", "data": {"n": 1}}'


def read_config(file: Path) -> Config:
    """Read the configuration; a mistake in it ends the program."""
    try:
        return load(file)
    except ConfigError as error:
        sys.exit(f"{file}: {error}")


def show_config(file: Path) -> Config:
    """Read the configuration, and print its name and its streams."""
    config = read_config(file)
    print(f"configuration: {file}, streams: {', '.join(config.streams)}", flush=True)
    return config


def describe_stage(log: Path, deployed: Deployed, file: Path, config: Config) -> str:
    """Describe the stage for the user: address, key, a first request for each stream, the command line's variables, the
    logs.
    """
    environment = deployed.environment | {"TIDETABLE_CONFIG": str(file.resolve())}
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(environment.items()))
    lines = [
        "",
        f"URL='{deployed.api}' KEY='{deployed.key}'",
        "",
        *([f"Look at it in a browser, with the key: {deployed.api}/console", ""] if config.api.console else []),
        "Send an event, and read it back:",
    ]
    for name, stream in config.streams.items():
        by_series = "series=a&" if stream.key.partition_by == "series" else ""
        url = f'"$URL/v1/streams/{name}/events'
        send = f"""  curl -s -H "x-api-key: $KEY" -H 'Content-Type: application/json' {url}" -d '{_EVENT}'"""
        read = f"""  curl -s -H "x-api-key: $KEY" {url}?{by_series}from=-1h&limit=3\""""
        # Only the pipeline itself writes the events of a rollup.
        lines += [read] if stream.source else [send, read]
    lines += [
        "",
        "The command line against this stage:",
        f"  export {variables}",
        "  bin/tidetable status",
        "",
        f"Logs: {log}",
        "`make local` deploys a changed file over it and keeps the data; `make stop` ends it.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Deploy over the running stage, or start one. With ``--fresh`` a running stage is ended first, with its data."""
    parser = argparse.ArgumentParser(description="Deploy a configuration into a local AWS emulator, and leave it up.")
    parser.add_argument("--config", type=Path, default=Path("tidetable.toml"), help="the configuration")
    parser.add_argument("--engine", choices=ENGINES, help="the engine of the tables; default: as it runs, or emulator")
    parser.add_argument("--fresh", action="store_true", help="begin anew, without the data of a running stage")
    options = parser.parse_args()
    config = show_config(options.config)
    running = None if options.fresh else find_running_stage()
    if running is None:
        log, deployed = _start_stage(options.config, options.engine or "emulator")
    else:
        log, deployed = _change_stage(running, options.config, options.engine)
    print(describe_stage(log, deployed, options.config, config), flush=True)


def _change_stage(running: RunningStage, file: Path, engine: str | None) -> tuple[Path, Deployed]:
    """Deploy over the running stage. A failure ends the program, and the stage stays as CloudFormation left it."""
    if engine not in (None, running.engine):
        sys.exit(f"the running stage has the engine {running.engine}: add FRESH=1 to begin anew, without its events")
    print("a stage is running: its data stay (FRESH=1 begins anew)", flush=True)
    try:
        return running.log, deploy_over(running, lambda text: print(text, flush=True), config=file)
    except RuntimeError as error:
        sys.exit(f"FAILED: {error}\nThe stage still runs. FRESH=1 begins anew.")


def _start_stage(file: Path, engine: Engine) -> tuple[Path, Deployed]:
    """Start an emulator and deploy into it. If an earlier stage is remembered, end it first."""
    if end_remembered_stage():
        print("the earlier stage is stopped", flush=True)
    begin_fetch()
    emulator = Emulator(engine=engine)
    try:
        emulator.start()
        deployed = deploy(emulator, lambda text: print(text, flush=True), config=file)
    except BaseException as error:
        emulator.stop()
        if isinstance(error, RuntimeError):
            sys.exit(f"FAILED: {error}")
        raise
    remember_stage(emulator)
    return emulator.log, deployed


if __name__ == "__main__":
    main()
