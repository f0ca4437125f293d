"""The rights of a request's caller: the streams, the scopes and the series of its key.

The authorizer hands this to the functions as the context of the request. A request that has no such context is signed, and
IAM has decided about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal
from urllib.parse import quote, unquote

import msgspec

from tidetable.problems import ProblemError, refuse_request, refuse_unknown_stream

Scope = Literal["write", "read", "operate"]
SCOPES: tuple[Scope, ...] = ("write", "read", "operate")
ALL_STREAMS = "*"
_STREAMS, _PERIODS = "/v1/streams", "/v1/streams/{stream}/periods"
_OPERATIONS = frozenset({"/v1/plan", "/v1/alarms", "/v1/activity", "/v1/cost"})
_READING = frozenset({"GET", "HEAD"})


class Access(msgspec.Struct, frozen=True):
    """The rights of a key.

    ``streams`` is None for all streams, also for streams that are configured later. ``series_prefix`` is empty, or the
    beginning of the name of every series that the key may write and read.
    """

    key_id: str = ""
    streams: frozenset[str] | None = None
    can: frozenset[Scope] = frozenset(SCOPES)
    series_prefix: str = ""

    @classmethod
    def of(cls, context: Mapping[str, Any] | None) -> Access:
        """Read the rights from an authorizer's context (``context()``); every right if the context does not name a key."""
        if not context or not context.get("key_id"):
            return FULL
        names = str(context.get("streams", ""))
        scopes = str(context.get("can", "")).split(",")
        return cls(
            str(context["key_id"]),
            None if names == ALL_STREAMS else frozenset(filter(None, names.split(","))),
            frozenset(scope for scope in SCOPES if scope in scopes),
            unquote(str(context.get("series_prefix", ""))),
        )

    def context(self) -> dict[str, str]:
        """Write the rights as an authorizer's context: lists with commas, the prefix percent-encoded."""
        return {
            "key_id": self.key_id,
            "streams": ALL_STREAMS if self.streams is None else ",".join(sorted(self.streams)),
            "can": ",".join(scope for scope in SCOPES if scope in self.can),
            "series_prefix": quote(self.series_prefix, safe=""),
        }

    def sees(self, stream: str) -> bool:
        """True if the key has any right on a stream."""
        return self.streams is None or stream in self.streams

    def covers(self, series: str) -> bool:
        """True if the key may write and read the series."""
        return series.startswith(self.series_prefix)

    def require(self, stream: str, *scopes: Scope) -> None:
        """Raise ProblemError 403, unless the key has one of the scopes for the stream."""
        if not self.sees(stream) or self.can.isdisjoint(scopes):
            raise forbid_stream(stream, " or ".join(sorted(scopes)))

    def require_known(self, stream: str, known: Collection[str]) -> None:
        """Raise ProblemError 404 with the configured streams that the key sees, unless the stream is configured."""
        if stream not in known:
            raise refuse_unknown_stream(stream, {name: None for name in known if self.sees(name)})


# Every right: for a signed request, which IAM has allowed.
FULL = Access()


def forbid_stream(stream: str, what: str) -> ProblemError:
    """The error 403 for a key without a right on a stream."""
    return refuse_request(403, "forbidden", f"this key may not {what} the stream {stream[:64]!r}: use a key that may")


def forbid_series(access: Access, why: str) -> ProblemError:
    """Make the error 403 for a request beyond a key's series prefix; ``why`` names what is outside of the prefix."""
    return refuse_request(403, "forbidden_series", f"{why}: {describe_prefix(access.series_prefix)}")


def describe_prefix(prefix: str) -> str:
    """Describe the series that a key with a prefix may use."""
    return f"this key is for series that begin with {prefix[:64]!r}"


def find_scopes(method: str, resource: str, access: Access) -> frozenset[Scope]:
    """Find the scopes for a route. A key needs one of them."""
    if method not in _READING:
        return frozenset({"write"})
    if resource == _STREAMS:
        return frozenset({"write", "read", "operate"})
    if resource in _OPERATIONS:
        return frozenset({"operate"})
    if resource == _PERIODS:
        # The route shows sizes and states of whole tables, which a key for some of their series must not see.
        return frozenset({"operate"} if access.series_prefix else {"operate", "read"})
    return frozenset({"read"})
