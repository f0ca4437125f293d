"""Checks of the archives' lifetime and storage class against S3's lifecycle rules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tidetable.config.bounds import check_bounds
from tidetable.config.model import Config

_DAY = timedelta(days=1)
# AWS: objects are at least 30 days old when they are put into the class Standard-Infrequent Access.
_LEAST_DAYS = {"infrequent-access": 30}


def check_keeping(config: Config, stream: str | None = None) -> Iterator[str]:
    """Yield the problems of ``[archive]``, or of a stream's own ``archive`` table."""
    policy = config.archive if stream is None else config.find_keeping(stream)
    if stream is not None and policy == config.archive:
        return
    path = "archive" if stream is None else ".archive"
    for name in ("expire_after", "storage_class_after"):
        length = getattr(policy, name)
        if length % _DAY:
            yield f"{path}.{name}: {length} is not a whole number of days; S3's rules count days, such as 365d"
    expires = policy.expire_after
    # 100 years: the day on which an archive expires must be a day of the calendar, which ends with the year 9999.
    yield from check_bounds(f"{path}.expire_after", expires, "0s", "36525d", '; "0s" keeps archives for ever')
    if expires and expires <= config.lifecycle.delete_grace:
        yield (
            f"{path}.expire_after: {expires} is not more than lifecycle.delete_grace, {config.lifecycle.delete_grace}: an"
            " archive would expire before its table is deleted"
        )
    if policy.storage_class == "standard":
        return
    after = policy.storage_class_after
    least = _LEAST_DAYS.get(policy.storage_class, 0)
    if after < timedelta(days=least):
        yield f"{path}.storage_class_after: {after} is too early; S3 takes {policy.storage_class} from {least}d on"
    if expires and expires <= after:
        yield f"{path}.expire_after: {expires} is not after storage_class_after, {after}; S3 refuses such a rule"
