"""The error of a stage that cannot be synthesised."""

from __future__ import annotations


class UsageError(ValueError):
    """The parameters or the configuration cannot be used; the message names the parameter or the key, and the fix."""
