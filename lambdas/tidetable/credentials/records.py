"""The catalog's record of a key: its rights, and salted hashes of its text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Literal

import msgspec

from tidetable.access import Access
from tidetable.credentials.text import SALT_BYTES, hash_text

# Why the right text of a key is refused.
Former = Literal["expired", "revoked", "rotated"]
Refused = Former | Literal["wrong secret", "newer"]


class Secret(msgspec.Struct, frozen=True):
    """A salted hash of a key's text. The text is accepted before ``until`` (None: as long as the key is accepted)."""

    salt: bytes
    hash: bytes
    until: datetime | None = None

    @classmethod
    def of(cls, text: str, salt: bytes) -> Secret:
        """Return the secret of a text; the salt must be random."""
        return cls(salt, hash_text(text, salt))

    def matches(self, text: str) -> bool:
        """True if this is the hash of the text. The comparison takes the same time for every text."""
        return compare_digest(self.hash, hash_text(text, self.salt))

    def is_accepted(self, now: datetime) -> bool:
        """True if the text is accepted at an instant, as far as the key is."""
        return self.until is None or now < self.until


# No text matches this secret. With it, refusing an unknown key takes as long as refusing a wrong secret.
_NOBODY = Secret(b"\0" * SALT_BYTES, b"\0" * 32)


@dataclass(frozen=True, slots=True)
class CredentialRecord:
    """A key.

    ``access`` says what the key may do. ``secrets`` are the hashes of its texts, the newest first. The key is refused
    from ``expires`` on, and after it was ``revoked``. ``meter`` is the value of the API Gateway key by which the
    gateway counts and throttles the requests; if it is empty, the value is the text of the key itself. ``gateway_key``
    and ``plan`` are the ids of that API Gateway key and its usage plan, if the command line made them. ``origin`` is
    the id of API Gateway's key from which the text was taken, if any. ``rate`` (requests per second) and ``burst`` are
    the key's own limits; None if the stage's limits hold. ``newer`` is the format of a record of newer code, which this
    code does not understand: such a key has no rights and no secrets here. It is 0 for any other record. ``uncounted`` says
    that older versions wrote the record, and may change it without counting the change; it is not stored.
    """

    id: str
    name: str
    access: Access
    created: datetime
    secrets: tuple[Secret, ...]
    expires: datetime | None = None
    revoked: datetime | None = None
    rotated: datetime | None = None
    meter: str = field(default="", repr=False)
    gateway_key: str = ""
    plan: str = ""
    origin: str = ""
    rate: float | None = None
    burst: int | None = None
    newer: int = 0
    uncounted: bool = False

    def is_expired(self, now: datetime) -> bool:
        """True if the key's time is over."""
        return self.expires is not None and now >= self.expires

    def find_refusal(self, text: str, now: datetime) -> Refused | None:
        """Return why a text is refused; None if it is accepted.

        All hashes are compared, even after a hash has matched.
        """
        matching = [secret for secret in self.secrets if secret.matches(text)]
        if self.newer:
            refuse_unknown(text)
            return "newer"
        if not matching:
            return "wrong secret"
        if self.revoked is not None:
            return "revoked"
        if self.is_expired(now):
            return "expired"
        if not any(secret.is_accepted(now) for secret in matching):
            return "rotated"
        return None

    def rotate(self, secret: Secret, now: datetime, overlap: timedelta) -> CredentialRecord:
        """Return the key with a new secret. The earlier secrets are accepted for at most ``overlap`` from now."""
        end = now + overlap
        former = tuple(
            msgspec.structs.replace(old, until=end if old.until is None else min(old.until, end))
            for old in self.secrets
            if old.is_accepted(now)
        )
        return replace(self, secrets=(secret, *former), rotated=now)

    def find_state(self, now: datetime) -> str:
        """``revoked``, ``expired``, ``newer``, ``rotating`` (a former secret is accepted, too) or ``active``."""
        if self.revoked is not None:
            return "revoked"
        if self.newer:
            return "newer"
        if self.is_expired(now):
            return "expired"
        former = any(secret.until is not None and secret.is_accepted(now) for secret in self.secrets)
        return "rotating" if former else "active"


def refuse_unknown(text: str) -> None:
    """Spend the time that the check of a wrong secret takes."""
    _NOBODY.matches(text)
