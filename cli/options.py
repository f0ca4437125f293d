"""The options that commands share, in groups: a command names a group, and Typer sees the options of the group."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT = Path("tidetable.toml")
ConfigFile = Annotated[Path, typer.Option("--config", envvar="TIDETABLE_CONFIG", help="The configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Region = Annotated[str | None, typer.Option(help="The AWS Region.", envvar="AWS_REGION")]


def check_address(address: str | None) -> str | None:
    """Return an endpoint unchanged; a usage error if it is not an address."""
    parts = urlsplit(address or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise typer.BadParameter(f"{address!r} is not an address; write such as http://127.0.0.1:4566")
    return address


@dataclass(frozen=True)
class Connection:
    """The way to an account."""

    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint-url",
            envvar="AWS_ENDPOINT_URL",
            help="An emulator's address, such as the demo's.",
            callback=check_address,
        ),
    ] = None
    profile: Annotated[str | None, typer.Option(help="The profile of the AWS configuration.", envvar="AWS_PROFILE")] = (
        None
    )
    region: Region = None


@dataclass(frozen=True)
class Target(Connection):
    """A stage in an account."""

    stage: Annotated[str, typer.Option(help="The deployed stage.", envvar="TIDETABLE_STAGE")] = "dev"


@dataclass(frozen=True)
class ApiTarget(Target):
    """The API of a command: its address and the caller's key, or a stage whose API is found."""

    url: Annotated[
        str | None,
        typer.Option(
            help="The API's address, by default that of --stage.", envvar="TIDETABLE_URL", callback=check_address
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(help="An API key, by default that of --stage.", envvar="TIDETABLE_KEY", show_envvar=True),
    ] = None
    sigv4: Annotated[bool, typer.Option("--sigv4", help='Sign with AWS credentials: for stages with auth = "iam".')] = (
        False
    )


class Program(typer.Typer):
    """Typer, with groups of options."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Command], Command]:
        """Register a command. A parameter whose type is a dataclass stands for the options that are its fields."""
        register = super().command(*args, **kwargs)

        def register_command(command: Command) -> Command:
            register(_spread_groups(command))
            return command

        return register_command


def _spread_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the options of its groups instead of the groups, after its own options."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: own.annotation for name, own in signature.parameters.items() if is_dataclass(own.annotation)
    }
    parameters = [own for name, own in signature.parameters.items() if name not in groups]
    for group in groups.values():
        parameters += inspect.signature(group, eval_str=True).parameters.values()

    @wraps(command)
    def run(**options: Any) -> Any:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        return command(**options)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {own.name: own.annotation for own in parameters}
    return run
