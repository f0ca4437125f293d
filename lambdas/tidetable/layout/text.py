"""Series and ids inside keys: escaped so that every ``#`` is a separator."""

from __future__ import annotations

from collections.abc import Sequence

# A sort key holds 27 characters of time, two separators and both names: 27 + 2 + 2 * 480 stays within DynamoDB's 1,024 bytes.
MAX_NAME_BYTES = 480


def escape(name: str) -> str:
    """Write a name with ``%25`` and ``%23`` in place of ``%`` and ``#``."""
    if "%" in name or "#" in name:
        return name.replace("%", "%25").replace("#", "%23")
    return name


def escape_all(names: Sequence[str]) -> Sequence[str]:
    """Escape several names; usually none of them needs it."""
    together = "".join(names)
    return list(map(escape, names)) if "#" in together or "%" in together else names


def unescape(text: str) -> str:
    """Read a name that ``escape`` wrote."""
    return text.replace("%23", "#").replace("%25", "%") if "%" in text else text
