"""The checks of a new key's series prefix."""

from __future__ import annotations

from cli.common import warn
from tidetable.access import Access


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
