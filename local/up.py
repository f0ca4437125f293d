"""Start a stage on this machine with the user's configuration, for `make local`. The stage runs until `make stop`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "lambdas")]

from local import ENGINES, Deployed, Emulator, deploy
from local.keep import end_remembered_stage, remember_stage
from tidetable.config import Config, load
from tidetable.errors import ConfigError

_EVENT = '{"series": "a", "data": {"n": 1}}'


def read_config(file: Path) -> Config:
    """Read the configuration and print its name; a mistake in it ends the program."""
    try:
        config = load(file)
    except ConfigError as error:
        sys.exit(f"{file}: {error}")
    print(f"configuration: {file}, streams: {', '.join(config.streams)}", flush=True)
    return config


def describe_stage(emulator: Emulator, deployed: Deployed, file: Path, config: Config) -> str:
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
        f"Logs: {emulator.log}",
        "`make stop` ends it.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Start the stage. If an earlier stage is still running, end it first."""
    parser = argparse.ArgumentParser(description="Deploy a configuration into a local AWS emulator, and leave it up.")
    parser.add_argument("--config", type=Path, default=Path("tidetable.toml"), help="the configuration")
    parser.add_argument("--engine", choices=ENGINES, default="emulator", help="the engine of the tables")
    options = parser.parse_args()
    config = read_config(options.config)
    if end_remembered_stage():
        print("the earlier stage is stopped", flush=True)
    emulator = Emulator(engine=options.engine)
    try:
        emulator.start()
        deployed = deploy(emulator, lambda text: print(text, flush=True), config=options.config)
    except BaseException as error:
        emulator.stop()
        if isinstance(error, RuntimeError):
            sys.exit(f"FAILED: {error}")
        raise
    remember_stage(emulator)
    print(describe_stage(emulator, deployed, options.config, config), flush=True)


if __name__ == "__main__":
    main()
