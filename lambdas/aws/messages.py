"""The reason of a dead letter, as an attribute of its message in SQS."""

from __future__ import annotations

REASON = "reason"
# AWS: the attributes count as part of a message, and a reason may hold text of a client.
_MAX_REASON = 500


def make_reason(text: str) -> str:
    """Return a reason that SQS accepts: cut, and with spaces in place of characters that are not printable.

    AWS: an attribute takes the same characters as a message body, and a body takes no control characters but tab and
    line ends. Source: Amazon SQS API Reference, "SendMessage".
    """
    return "".join(character if character.isprintable() else " " for character in text[:_MAX_REASON])
