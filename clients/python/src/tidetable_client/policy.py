"""The settings by which a client collects events, sends requests and repeats them."""

from __future__ import annotations

from dataclasses import dataclass

from tidetable_client.errors import BufferFull


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of writing. Times are in seconds.

    batch_events, batch_bytes
        A request is sent when this number of events, or of bytes before compression, waits. 500 events suit packs: a
        larger number saves little (docs/design/packs.md), and the API takes 1,000 at the most.
    linger
        The longest time for which an event waits for other events of its request.
    buffer_bytes
        The memory of all events that are not acknowledged, including the bytes that Python needs per event.
    when_full, block_for
        With ``block``, a call waits up to ``block_for`` seconds for room (None: for ever) and then raises
        BufferFull; with ``raise`` it raises at once.
    in_flight
        The number of requests at the same time. With 1, events reach the API in the order in which they were written.
    retry_for
        A request is repeated for this time. Then its events are reported as ``unsent``.
    backoff, longest_backoff
        The wait before the n-th repetition is random: up to backoff * 2 ** n, but at most longest_backoff. The time of
        a Retry-After header is added.
    exit_timeout
        The time for which a process that ends without closing its client waits for the API.
    """

    batch_events: int = 500
    batch_bytes: int = 1_000_000
    linger: float = 1.0
    buffer_bytes: int = 32_000_000
    when_full: str = "block"
    block_for: float | None = 60.0
    in_flight: int = 1
    retry_for: float = 300.0
    backoff: float = 0.5
    longest_backoff: float = 30.0
    exit_timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("batch_events", "batch_bytes", "buffer_bytes", "in_flight"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("linger", "retry_for", "backoff", "longest_backoff", "exit_timeout"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if self.when_full not in ("block", "raise"):
            raise ValueError('when_full must be "block" or "raise"')


def refuse_full(policy: Policy, taken: int) -> BufferFull:
    """Make the error of a buffer that is full, or that was full for the whole allowed time."""
    waited = "" if policy.when_full == "raise" else f" after {policy.block_for:g} s"
    size = f"{policy.buffer_bytes:,} bytes"
    return BufferFull(taken, f"the buffer of {size} is full{waited}: {taken:,} events of this call are taken")
