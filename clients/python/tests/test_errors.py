"""The errors of the client: what of them survives on the way between processes."""

from __future__ import annotations

import pickle

import pytest

from tidetable_client import ApiError, BufferFull, Failure, NotFlushed, TidetableError, WriteFailed

FAILURE = Failure("quakes", 7, "too_old", "older than the window", b'{"series":"s"}', 400)


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ApiError(404, "unknown_stream", "no stream", {"title": "t"}), {"status": 404, "document": {"title": "t"}}),
        (BufferFull(3, "the buffer is full"), {"taken": 3}),
        (WriteFailed([FAILURE], 2), {"failures": [FAILURE], "taken": 2}),
        (NotFlushed(5), {"pending": 5}),
    ],
)
def test_an_error_reaches_another_process(error: TidetableError, fields: dict[str, object]) -> None:
    """A pool of processes pickles the errors of its workers."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own text
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert {name: getattr(copy, name) for name in fields} == fields
