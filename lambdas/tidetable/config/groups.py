"""The base of every table of the configuration: frozen, and without unknown keys."""

from __future__ import annotations

import msgspec


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration: frozen, and an unknown key in it is an error."""
