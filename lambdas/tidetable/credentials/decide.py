"""Decide on a request: find the key that it presents, and check if this key may call the route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from tidetable.access import Access, find_scopes
from tidetable.credentials.presented import find_key_texts
from tidetable.credentials.records import CredentialRecord, refuse_unknown
from tidetable.credentials.ring import CredentialRing
from tidetable.credentials.text import read_id
from tidetable.version import KEY_FORMAT


class Call(msgspec.Struct, frozen=True):
    """The gateway's facts about a request, before the decision; ``stream`` is None if its path does not name a stream."""

    method: str
    resource: str
    stream: str | None = None
    headers: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    parameters: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a request. ``refusal`` is for the access log: the caller learns only that the request is refused.

    ``record`` is the key whose right text was presented, even if the request is refused. ``text`` is the presented
    text. ``former`` says that the text was right earlier, but the key has expired or was rotated. ``newer`` says that newer
    code wrote the key's record, so that nobody knows here if the text is right.
    """

    refusal: str = ""
    record: CredentialRecord | None = None
    text: str = field(default="", repr=False)
    former: bool = False
    newer: bool = False

    @property
    def allowed(self) -> bool:
        return not self.refusal

    @property
    def meter(self) -> str:
        """The value of the API Gateway key that counts this request."""
        return "" if self.record is None else self.record.meter or self.text

    def context(self) -> dict[str, str]:
        """Return the facts for the functions and the access log; every value is a text."""
        record = self.record
        shown = {} if record is None else record.access.context() | {"key_id": record.id, "key_name": record.name}
        return shown | ({"refusal": self.refusal} if self.refusal else {})


def decide(call: Call, ring: CredentialRing, now: datetime) -> Decision:
    """Decide on a request at an instant. Errors of the ring are passed on."""
    texts = find_key_texts(call.headers, call.parameters, call.resource)
    if not texts:
        return Decision("no key")
    if len(texts) > 1:
        # If two keys were accepted, a hidden order would decide which of them counts, and which of them is in the log.
        return Decision("two keys")
    text = texts.pop()
    id = read_id(text)
    if id is None:
        return Decision("not a key")
    record = ring.find(id, now)
    if record is None:
        refuse_unknown(text)
        return Decision(f"unknown key {id}")
    refusal = record.find_refusal(text, now)
    if refusal == "wrong secret":
        # Another process may have given the key a new secret since this process read it.
        newer = ring.find_newer(id, now)
        if newer is not None and newer is not record:
            record, refusal = newer, newer.find_refusal(text, now)
    if refusal == "newer":
        return Decision(f"key {id} has format {record.newer}, and this version reads {KEY_FORMAT}", newer=True)
    if refusal == "wrong secret":
        return Decision(f"wrong secret of key {id}")
    if refusal is not None:
        return Decision(refusal, record, text, former=refusal != "revoked")
    return Decision(_find_refusal(call, record.access), record, text)


def _find_refusal(call: Call, access: Access) -> str:
    """Return why a key may not call a route; empty if it may.

    The functions check series, because only they know them.
    """
    scopes = find_scopes(call.method, call.resource, access)
    if access.can.isdisjoint(scopes):
        return f"needs {' or '.join(sorted(scopes))}"
    # A route without a stream in its path names it elsewhere in the request: its function decides about the stream.
    if call.stream is not None and not access.sees(call.stream):
        return "another stream"
    if access.streams is not None and not access.streams:
        return "no stream"
    return ""
