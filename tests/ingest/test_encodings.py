"""Bodies with a Content-Encoding, and byte order marks within them, at the API's route."""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from typing import Any, cast

import pytest

import wiring
from tests.api.gateway import Context
from tests.worlds.functions import environment
from tests.worlds.intake import World, event

__all__ = ["environment"]
BODY = json.dumps([event(1), event(2)]).encode()


def post(body: bytes, **headers: str) -> tuple[int, Any, World]:
    from handlers import ingest

    world, context = World(), cast("Any", Context())
    request = {
        "pathParameters": {"stream": "quakes"},
        "headers": {name.replace("_", "-").title(): value for name, value in headers.items()},
        "body": b64encode(body).decode(),
        "isBase64Encoded": True,
        "requestContext": {"requestId": "r1"},
    }
    with wiring.serve_pipeline(world.pipeline()):
        answer = ingest.handler(request, context)
    return answer["statusCode"], json.loads(answer["body"]), world


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("deflate", zlib.compress(BODY)),
        # A gateway may have decompressed the body, and left the header.
        ("deflate", BODY),
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        (" GZIP ", gzip.compress(BODY)),
        ("identity", BODY),
        ("", BODY),
    ],
)
def test_known_encodings_are_read(encoding: str, body: bytes) -> None:
    status, document, world = post(body, content_type="application/json", content_encoding=encoding)
    assert (status, document["accepted"], world.stored()) == (200, 2, 2)


@pytest.mark.parametrize("encoding", ["br", "zstd", "snappy", "compress", "gzip, gzip"])
def test_other_encodings_are_415(encoding: str) -> None:
    status, document, world = post(BODY, content_type="application/json", content_encoding=encoding)
    assert (status, document["code"], world.stored()) == (415, "unsupported_media_type", 0)
    assert document["detail"] == f"Content-Encoding '{encoding}' is not understood: send gzip, or none"


@pytest.mark.parametrize("body", [zlib.compress(BODY)[:-5], b"\x78\x9cno deflate"])
def test_damaged_deflate_is_unparseable(body: bytes) -> None:
    status, document, world = post(body, content_type="application/json", content_encoding="deflate")
    assert (status, document["code"], world.stored()) == (400, "unparseable", 0)


@pytest.mark.parametrize("rest", [zlib.compress(BODY), b"x", b"\0"])
def test_what_follows_a_deflate_body_is_not_dropped(rest: bytes) -> None:
    body = zlib.compress(BODY) + rest
    status, document, world = post(body, content_type="application/json", content_encoding="deflate")
    assert (status, document["code"], world.stored()) == (400, "unparseable", 0)
    assert "something follows the compressed body" in document["detail"]


def test_a_deflate_bomb_is_given_up_at_the_limit() -> None:
    status, document, _ = post(zlib.compress(b" " * 10**8), content_type="application/json", content_encoding="deflate")
    assert (status, document["code"]) == (413, "too_large")


def test_byte_order_marks_in_front_of_lines_are_skipped() -> None:
    """Files that are joined have them in front of several lines."""
    body = b"".join(b"\xef\xbb\xbf" + json.dumps(event(number)).encode() + b"\n" for number in range(3))
    status, document, world = post(body, content_type="application/x-ndjson")
    assert (status, document["accepted"], world.stored()) == (200, 3, 3)
