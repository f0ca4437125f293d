"""Bodies as they travel: gzip or plain, and bounded in either form."""

from __future__ import annotations

import zlib

from tidetable.problems import refuse

_GZIP = b"\x1f\x8b"
# Members of a gzip body: each costs something, however empty, and no sender needs more than one for each event.
_MOST_MEMBERS = 1_000
_PIECE = 65_536


def inflate(body: bytes, max_body: int) -> bytes:
    """The body, decompressed if its first bytes say gzip: gateways and clients disagree on Content-Encoding.

    ProblemError if it has more than ``max_body`` bytes, which holds while it is decompressed, or if it is damaged.
    """
    if not body.startswith(_GZIP):
        if len(body) > max_body:
            raise _too_large(max_body)
        return body
    plain = bytearray()
    view, at = memoryview(body), 0
    try:
        for _ in range(_MOST_MEMBERS):  # a gzip file may have several members
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            while not member.eof:
                # A piece at a time, as what is left of it after a member is copied.
                piece = view[at : at + _PIECE]
                if not piece:
                    raise refuse(400, "unparseable", "the gzip body is cut short")
                plain += member.decompress(piece, max_body + 1 - len(plain))
                if len(plain) > max_body:
                    raise _too_large(max_body)
                at += len(piece) - len(member.unused_data)
            if at == len(body):
                return bytes(plain)
    except zlib.error as error:
        raise refuse(400, "unparseable", f"the gzip body is damaged: {error}") from error
    raise refuse(400, "unparseable", f"the gzip body has more than {_MOST_MEMBERS} members: compress it as one")


def _too_large(max_body: int) -> Exception:
    return refuse(
        413, "too_large", f"the body exceeds {max_body} bytes after decompression: send fewer events a request"
    )
