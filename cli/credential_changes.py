"""Changes of callers' keys, in the catalog and in API Gateway, which counts their requests; and checks of new keys."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from time import sleep
from typing import Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from cli.account import Account, AccountError
from cli.common import USAGE, fail, find_account, run_task, warn
from cli.meters import Meters
from cli.options import Target
from tidetable.access import Access
from tidetable.credentials import CredentialRecord
from tidetable.credentials.ring import LIFE, RECHECK
from tidetable.credentials.text import ALPHABET
from tidetable.durations import parse_length
from tidetable.errors import TidetableError
from tidetable.problems import describe_unknown_stream
from tidetable.times import to_text


def find_keyed_account(target: Target) -> Account:
    """Find the account of a stage that checks keys. If the stage does not take keys, end the command."""
    account = find_account(target)
    if "ApiUsagePlan" not in account.outputs:
        fail(f'stage {target.stage} takes no keys: its [api] auth is "iam"')
    return account


def check_streams(account: Account, streams: Iterable[str]) -> None:
    """End the command if the stage lacks one of the streams and rollups that a key is for."""
    policies = attempt_change(account.pipeline.catalog.list_policies)
    known = sorted(policy.stream for policy in policies if policy.removed is None)
    unknown = [stream for stream in streams if stream not in known]
    if unknown:
        problems = [f"--stream: {describe_unknown_stream(stream, known)}" for stream in unknown]
        fail("\n".join(problems) + "\nto add a stream, deploy it first", USAGE)


def connect_meters(account: Account) -> Meters:
    """Connect to API Gateway's keys of a stage, with which the gateway counts the requests of callers."""
    api, plan = account.outputs["ApiId"], account.outputs["ApiUsagePlan"]
    return Meters(
        account.gateway,
        account.pipeline.stage,
        api,
        plan,
        lambda text, seconds: run_task(text, partial(sleep, seconds)),
    )


def add_key(account: Account, record: CredentialRecord) -> None:
    """Make the gateway's key, then the caller's key: without the gateway's key, the gateway would refuse the caller's
    key.
    """
    meters = connect_meters(account)
    attached = meters.attach(record, lambda: draw_text(8))
    try:
        added = account.pipeline.keys.add(attached)
    except TidetableError:
        meters.detach(attached)
        raise
    if not added:
        meters.detach(attached)
        raise AccountError(f"there is a key {record.id} already, by a rare chance: try again")


def change_key(account: Account, rotated: CredentialRecord, before: CredentialRecord) -> CredentialRecord:
    """Give a key another secret. The gateway counted the stage's first key by the key's own text, so that this key gets
    a gateway key now.
    """
    meters, made = connect_meters(account), not before.meter
    if made:
        rotated = meters.attach(rotated, lambda: draw_text(8))
    if not account.pipeline.keys.rotate(rotated, before):
        if made:
            meters.detach(rotated)
        raise AccountError("somebody else changed the key at this moment: look at `tidetable keys list`, and try again")
    return rotated


def attempt_change(act: Any) -> Any:
    """Call ``act`` and return its result. If AWS refuses it, end the command with the reason."""
    try:
        return act()
    except (AccountError, ClientError, BotoCoreError, TidetableError) as error:
        fail(f"the keys could not be read or changed: {error}")


def read_key(account: Account, id: str) -> CredentialRecord:
    """Read a key by its id. If there is no such key, end the command."""
    record: CredentialRecord | None = attempt_change(lambda: account.pipeline.keys.find(id))
    if record is None:
        fail_unknown(id)
    return record


def fail_unknown(id: str) -> NoReturn:
    """End the command.

    It shows only the beginning of the id: if a user has pasted a whole key, the key must not get into a log.
    """
    fail(f"there is no key {id[:12]!r}: `tidetable keys list` shows the ids")


def find_end(now: datetime, length: str) -> datetime:
    """Compute the end of a length such as 90d that begins now; ValueError says what is wrong with it."""
    try:
        return now + parse_length(length)
    except OverflowError as error:
        raise ValueError(f"{length} ends after the year 9999: write a shorter time, such as 90d") from error


def describe_rotation(until: datetime, now: datetime) -> str:
    """Say when the secrets of a rotated key work, if the former secret ends at an instant.

    Functions that know the key read it again after ``RECHECK`` if a secret seems wrong, otherwise after ``LIFE``.
    """
    former = f"accepted until {to_text(until)[:19]}Z"
    if until - now < LIFE:
        former = f"refused everywhere within {LIFE.total_seconds():.0f} seconds"
    return f"the new secret works within {RECHECK.total_seconds():.0f} seconds; the former secret is {former}"


def draw_text(length: int) -> str:
    """Draw ``length`` random characters for a key."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def check_prefix(prefix: str | None) -> list[str]:
    """Return the problem of an empty prefix; no problem if the option is missing."""
    if prefix != "":
        return []
    # An unset variable of a shell becomes an empty text. It must not give a tenant every series.
    return ["--series-prefix is empty: leave it out for a key to all series, or name the beginning of the key's series"]


def warn_of_prefix(access: Access) -> None:
    """Warn of a prefix that may mean more than its author thinks, and of a right that has no effect with a prefix."""
    prefix = access.series_prefix
    if prefix and prefix[-1].isalnum():
        warn(
            f"the prefix {prefix!r} is also the beginning of {prefix + '1'!r}: end it with a separator, such as {prefix}/"
        )
    if prefix and "operate" in access.can:
        warn("the routes of operators show figures of all series, so they refuse a key with a series prefix")
