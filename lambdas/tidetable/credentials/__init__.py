"""Keys of callers: their text, the catalog's records of them, and the decision about a request."""

from tidetable.credentials.decide import Call, Decision, decide
from tidetable.credentials.ports import CredentialStore
from tidetable.credentials.records import CredentialRecord, Former, Secret
from tidetable.credentials.ring import CredentialRing

__all__ = ["Call", "Decision", "Former", "CredentialRecord", "CredentialRing", "CredentialStore", "Secret", "decide"]
