"""The commands that make, list, rotate and revoke the keys of callers."""

from __future__ import annotations

import secrets
from datetime import datetime
from math import ceil
from typing import Annotated, Any

import typer
from msgspec.structs import replace
from rich.text import Text

from cli import clock
from cli.account import AccountError
from cli.common import USAGE, app, fail, make_grid, out, print_json, say, warn
from cli.completion import complete_stream
from cli.credential_changes import (
    add_key,
    attempt_change,
    change_key,
    check_prefix,
    check_streams,
    connect_meters,
    describe_rotation,
    draw_text,
    fail_unknown,
    find_end,
    find_keyed_account,
    read_key,
    warn_of_prefix,
)
from cli.options import AsJson, Program, Target
from tidetable.access import SCOPES
from tidetable.credentials import CredentialRecord, Secret
from tidetable.credentials.rights import check_rights
from tidetable.credentials.ring import LIFE
from tidetable.credentials.text import ID_LENGTH, SALT_BYTES, SECRET_LENGTH, make_key_text
from tidetable.times import to_text

keys = Program(help="The keys with which callers use the API.", no_args_is_help=True)
app.add_typer(keys, name="keys")


KeyId = Annotated[str, typer.Argument(help="The key's id, as `keys list` shows it.")]
_BOUND = int(LIFE.total_seconds())


@keys.command()
def create(
    target: Target,
    name: Annotated[str, typer.Option(help="Who uses it, such as sensors: the access log shows it.")],
    stream: Annotated[
        list[str] | None,
        typer.Option(help="A stream that the key may use; may be repeated.", autocompletion=complete_stream),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all-streams", help="Every stream, also those that are added later.")
    ] = False,
    can: Annotated[str, typer.Option(help="What it may do: write, read, operate, with commas.")] = "write,read",
    series_prefix: Annotated[
        str | None, typer.Option(help="Only series that begin with this text, such as tenant7/, for one tenant.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="For how long it is accepted, such as 90d.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second; by default key_rate of [api].")] = None,
    burst: Annotated[int | None, typer.Option(help="Requests at once; by default twice the rate.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, and show it once: only a salted hash is kept."""
    if every is bool(stream):
        fail("add --stream NAME once for each stream, or --all-streams", USAGE)
    scopes = [scope for scope in can.replace(" ", "").split(",") if scope]
    access, problems = check_rights(name, None if every else stream or [], scopes, series_prefix or "")
    problems += check_prefix(series_prefix) + _check_limits(rate, burst)
    now = clock.read_clock()
    end = _read_end(expires, now, problems)
    if problems:
        fail("\n".join(problems), USAGE)
    account = find_keyed_account(target)
    check_streams(account, stream or [])
    warn_of_prefix(access)
    id = draw_text(ID_LENGTH)
    text, secret = _draw_secret(id)
    most = None if rate is None else burst or ceil(2 * rate)
    access = replace(access, key_id=id)
    record = CredentialRecord(id, name, access, now, (secret,), expires=end, rate=rate, burst=most)
    attempt_change(lambda: add_key(account, record))
    _show_key(text, record, as_json=as_json)


@keys.command("list")
def list_keys(
    target: Target,
    as_json: AsJson = False,
) -> None:
    """Show every key and what it may do, but never its secret."""
    account, now = find_keyed_account(target), clock.read_clock()
    records: list[CredentialRecord] = attempt_change(account.pipeline.keys.all)
    if as_json:
        print_json([_describe_record(record, now) for record in records])
        return
    headings = "id", "name", "state", "can", "streams", "series", "expires", "rate", "created", "rotated"
    grid = make_grid(*headings, title=f"keys of stage {target.stage}")
    colours = {"revoked": "dim", "expired": "red", "newer": "red", "rotating": "yellow"}
    for record in sorted(records, key=lambda record: record.created):
        shown = _describe_record(record, now)
        names = shown["streams"]
        state = shown["state"]
        grid.add_row(
            *(record.id, record.name, state, ", ".join(shown["can"])),
            *("all" if names is None else ", ".join(names), Text(f"{shown['series_prefix']}*")),
            *(_format_minute(record.expires), "" if record.rate is None else f"{record.rate:g}/s"),
            *(_format_minute(record.created), _format_minute(record.rotated)),
            style=colours.get(state),
        )
    out.print(grid)


@keys.command()
def rotate(
    target: Target,
    id: KeyId,
    overlap: Annotated[str, typer.Option(help="How long the former secret is accepted, too; 0s: not at all.")] = "7d",
    as_json: AsJson = False,
) -> None:
    """Give a key a new secret, and show it once. Its id, its rights and its end stay."""
    now = clock.read_clock()
    try:
        until = find_end(now, overlap)
    except ValueError as error:
        fail(f"--overlap: {error}", USAGE)
    account = find_keyed_account(target)
    record = read_key(account, id)
    if record.find_state(now) in ("revoked", "expired"):
        fail(f"key {id} is {record.find_state(now)}: make another by `tidetable keys create`")
    if record.newer:
        fail(f"a newer version wrote key {id}, and this version would lose what it does not know: use that version")
    text, secret = _draw_secret(id)
    rotated = record.rotate(secret, now, until - now)
    rotated = attempt_change(lambda: change_key(account, rotated, record))
    _show_key(text, rotated, as_json=as_json)
    if not as_json:
        say(describe_rotation(until, now))


@keys.command()
def revoke(
    target: Target,
    id: KeyId,
) -> None:
    """End a key for good. Functions that know the key accept it for a minute more, at the most."""
    account, now = find_keyed_account(target), clock.read_clock()
    record = read_key(account, id)
    if not attempt_change(lambda: account.pipeline.keys.revoke(id, now)):
        fail_unknown(id)
    # The key is revoked, and this is printed, before the next step can fail.
    say(f"key {id} ({record.name}) is revoked; it is refused everywhere within {_BOUND} seconds")
    try:
        connect_meters(account).detach(record)
    except AccountError as error:
        warn(f"{error}; the key gives no access any more, and `tidetable keys revoke {id}` tries again")


@keys.command()
def attach(
    target: Target,
) -> None:
    """Let the keys of a stage that was destroyed, and deployed again with its catalog, be counted by the new API."""
    account, now = find_keyed_account(target), clock.read_clock()
    meters = connect_meters(account)
    for record in attempt_change(account.pipeline.keys.all):
        if not record.meter or record.find_state(now) in ("revoked", "expired"):
            continue
        if meters.exists(record):
            attempt_change(lambda record=record: meters.join_plan(record))
            say(f"key {record.id} ({record.name}) is attached")
        else:
            warn(f"the gateway key of {record.id} ({record.name}) is gone: make another key, and revoke this one")


def _draw_secret(id: str) -> tuple[str, Secret]:
    """Draw the text of a key, and make the salted hash of it that is stored."""
    text = make_key_text(id, draw_text(SECRET_LENGTH))
    return text, Secret.of(text, secrets.token_bytes(SALT_BYTES))


def _check_limits(rate: float | None, burst: int | None) -> list[str]:
    problems = []
    if rate is not None and not 0.1 <= rate <= 10_000:
        problems.append("--rate is from 0.1 to 10000 requests per second")
    if burst is not None and (rate is None or not 1 <= burst <= 5_000):
        problems.append("--burst is from 1 to 5000 requests, beside --rate")
    return problems


def _read_end(expires: str | None, now: datetime, problems: list[str]) -> datetime | None:
    if expires is None:
        return None
    try:
        end = find_end(now, expires)
    except ValueError as error:
        problems.append(f"--expires: {error}")
        return None
    if end == now:
        problems.append("--expires must be longer than nothing, such as 90d")
    return end


def _show_key(text: str, record: CredentialRecord, *, as_json: bool) -> None:
    """Print a key's text. No command can show it later."""
    if as_json:
        print_json({"key": text, **_describe_record(record, record.rotated or record.created)})
        return
    typer.echo(text)
    warn("this is the only time that the key is shown")


def _describe_record(record: CredentialRecord, now: datetime) -> dict[str, Any]:
    access = record.access
    times = {"created": record.created, "expires": record.expires, "rotated": record.rotated, "revoked": record.revoked}
    return {
        "id": record.id,
        "name": record.name,
        "state": record.find_state(now),
        "can": [scope for scope in SCOPES if scope in access.can],
        "streams": None if access.streams is None else sorted(access.streams),
        "series_prefix": access.series_prefix,
        "rate": record.rate,
        "burst": record.burst,
        **{name: None if time is None else to_text(time) for name, time in times.items()},
    }


def _format_minute(time: datetime | None) -> str:
    return "" if time is None else f"{to_text(time)[:16]}Z"
