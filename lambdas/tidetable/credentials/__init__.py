"""Keys of callers: their text, the catalog's records of them, and the decision about a request."""

from tidetable.credentials.decide import Call, Decision, decide
from tidetable.credentials.ports import Keys
from tidetable.credentials.records import Former, KeyRecord, Secret
from tidetable.credentials.ring import KeyRing

__all__ = ["Call", "Decision", "Former", "KeyRecord", "KeyRing", "Keys", "Secret", "decide"]
