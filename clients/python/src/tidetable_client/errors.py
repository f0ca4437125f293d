"""The errors of the client: exceptions, and records of single events that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from tidetable_client.widths import fits_double

# The code of an event that the API did not acknowledge. The event may even be stored: sending it again is harmless.
UNSENT = "unsent"


class TidetableError(Exception):
    """The base of every error of this package."""


class EventInvalid(TidetableError, ValueError):
    """An event cannot be sent: it has no series, or its data cannot be written as JSON."""


class ApiError(TidetableError):
    """The API refused a request: its status, its stable ``code``, its ``detail``, and the whole problem document."""

    def __init__(self, status: int, code: str, detail: str, document: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail, self.document = status, code, detail, dict(document or {})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error: a pool of processes passes on the errors of its workers in this way."""
        return type(self), (self.status, self.code, self.detail, self.document)


class Unreachable(TidetableError):
    """The API did not answer, although the client tried again for the whole allowed time."""


class BufferFull(TidetableError):
    """The buffer is full: the API accepts events more slowly than they are written, or does not answer.

    The first ``taken`` events of the call are in the buffer. So ``taken`` is the index of the first event that is not
    in the buffer.
    """

    def __init__(self, taken: int, detail: str) -> None:
        super().__init__(detail)
        self.taken = taken

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error: a pool of processes passes on the errors of its workers in this way."""
        return type(self), (self.taken, str(self))


@dataclass(frozen=True, slots=True)
class Failure:
    """An event that is not acknowledged, and the reason.

    ``index`` is the number of the event among all events of this client, from 0. ``code`` is the API's code
    (``too_old``, ``invalid``, ``forbidden`` ...), or ``unsent``. ``status`` is the status of the answer, 0 if there was
    no answer. ``window`` has the times that the stream accepts, None if the answer did not have them. ``line`` is the
    event as JSON, as it was sent: with the time and the id that the client added.
    """

    stream: str
    index: int
    code: str
    detail: str
    line: bytes = field(repr=False)
    status: int = 0
    window: Mapping[str, Any] | None = None

    @property
    def event(self) -> dict[str, Any]:
        """The event, with the time and the id that the client added.

        A number that a float cannot hold is a Decimal; a number that no Decimal can hold is its text.
        """
        event: dict[str, Any] = _DECODER.decode(self.line)
        return event


def _read_number(text: str) -> float | Decimal | str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return float(text) if fits_double(number) else number


_DECODER = msgspec.json.Decoder(float_hook=_read_number)


class WriteFailed(TidetableError):
    """Some events were not acknowledged; ``failures`` has all of these events. All other events are acknowledged."""

    def __init__(self, failures: Sequence[Failure], taken: int | None = None) -> None:
        self.failures = list(failures)
        self.taken = taken
        super().__init__(describe_failures(self.failures))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error: a pool of processes passes on the errors of its workers in this way."""
        return type(self), (self.failures, self.taken)


class NotFlushed(TidetableError):
    """The timeout of ``flush`` is over. ``pending`` events are still in the buffer, and will be sent."""

    def __init__(self, pending: int) -> None:
        super().__init__(f"{pending:,} events are not acknowledged yet; they stay in the buffer and will be sent")
        self.pending = pending

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error: a pool of processes passes on the errors of its workers in this way."""
        return type(self), (self.pending,)


def describe_failures(failures: Sequence[Failure]) -> str:
    """Describe the number of failed events per stream and code, and the detail of the first failure."""
    counts = Counter(f"{failure.stream}: {failure.code}" for failure in failures)
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common(5))
    first = f"; the first: {failures[0].detail}" if failures else ""
    return f"{len(failures):,} events are not stored ({kinds}){first}"
