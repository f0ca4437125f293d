"""The text of a key: ``tt_<id>_<secret>``. The id is public and names the key; the secret is random.

A key that API Gateway made has another form: 20 to 128 characters without a prefix. Its id is calculated from its text, and
does not change when the key is rotated.
"""

from __future__ import annotations

import re
from hashlib import sha256

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 10
# 32 characters out of 62 possible characters hold 190 bits.
SECRET_LENGTH = 32
SALT_BYTES = 16
_ID = rf"[0-9A-Za-z]{{{ID_LENGTH}}}|gw[0-9a-f]{{{ID_LENGTH}}}"
_OWN = re.compile(rf"tt_({_ID})_[0-9A-Za-z]{{{SECRET_LENGTH}}}", re.ASCII)
# AWS, CreateApiKey: a value has 20 to 128 characters; the values that API Gateway draws have 40 letters and digits.
_OF_GATEWAY = re.compile(r"[!-~]{20,128}", re.ASCII)


def make_key_text(id: str, secret: str) -> str:
    """Return the text that a caller sends; ValueError if ``read_id`` could not read it."""
    text = f"tt_{id}_{secret}"
    if not _OWN.fullmatch(text):
        raise ValueError(f"an id has {ID_LENGTH} letters and digits, a secret {SECRET_LENGTH}")
    return text


def read_id(text: str) -> str | None:
    """Return the id of a key from its text; None if no key can have such a text."""
    own = _OWN.fullmatch(text)
    if own:
        return own[1]
    # A text that begins with tt_ but has another form was cut or misread: no key of API Gateway begins with tt_.
    if text.startswith("tt_") or not _OF_GATEWAY.fullmatch(text):
        return None
    return f"gw{sha256(b'tidetable gateway key ' + text.encode()).hexdigest()[:ID_LENGTH]}"


def hash_text(text: str, salt: bytes) -> bytes:
    """Return the hash that is kept of a key's text.

    Slow hashes such as scrypt protect texts that people choose, which can be guessed. A secret of 190 random bits cannot be
    guessed, even with a fast hash; and a slow hash would let a flood of wrong keys occupy the function.
    """
    return sha256(salt + text.encode()).digest()


def find_slot(id: str) -> str:
    """Return the slot of a key's id: two hexadecimal digits. The changes of keys are counted by slots."""
    return sha256(id.encode()).hexdigest()[:2]
