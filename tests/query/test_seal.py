"""The seal of cursors: what it hides and refuses, and how long a query may be."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import digest

import msgspec
import pytest

from tidetable.errors import InvalidCursor
from tidetable.problems import ProblemError
from tidetable.query.cursor import Seal, refuse_long


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """A query of one name, as MessagePack: one byte for the array, and three before a text of 256 bytes or more."""

    stream: str


SEALED = Seal(lambda: b"secret")


def test_a_cursor_is_read_back() -> None:
    text = SEALED.seal(Walk("quakes"))
    assert SEALED.open(text, Walk) == Walk("quakes")


# Made by hand from the description in decision 0141: 0x91 0xa6 "quakes" 0x80, padded to 256 bytes, and the secret "secret".
QUAKES = (
    "BTO5GE-4NKFfhKw6taOkSTsAo-mlGqmpSF_jtpgSu15K9euCXVMCf7SSzS-id6Y7ekFVezovuxBbGKYpBA5yBD2PEa-3UnOlDj30KY7UhNFFL8U4XhMu9f6GH_SA"
    "Ke0Q8bGEZuL2kliRck1fmZpDvCV7CdEUbPkK1QatFMzROdpGnOs5BVEjanwFdM7BMTPYooBJFPzvnLscD4w39VId9TpiXubOCBru8AAEN-a27hfqcsxuPAKit98W"
    "zeyPfv6iFjWPcFHRbX_RdoGCOtVneMVVkBbP-AXe1uhQTRMgSVlD3ENbxCI-wduqFQB5v0zFL8OiyHTInV-FQX6cIR9k-bRMSF6T-6ZTH_ArgFEeAbS_"
)


def read_bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_cursor_has_its_published_format() -> None:
    assert SEALED.seal(Walk("quakes")) == QUAKES
    assert SEALED.open(QUAKES, Walk) == Walk("quakes")


def test_a_cursor_does_not_show_its_content() -> None:
    raw = read_bytes(SEALED.seal(Walk("patient-74")))
    assert raw[0] == 5, "the version"
    assert not any(b"patient-74"[n : n + 3] in raw for n in range(8))
    # Content of many zeros and content of other zeros look like random bytes: few bytes are equal at one place.
    other = read_bytes(SEALED.seal(Walk("patient-75")))
    assert sum(a == b for a, b in zip(raw[1:], other[1:], strict=True)) < 20


@pytest.mark.parametrize("length", [0, 1, 30, 31, 32, 100, 252])
def test_the_length_of_a_cursor_does_not_tell_the_length_of_its_names(length: int) -> None:
    assert len(SEALED.seal(Walk("x" * length))) == 364


def test_names_that_do_not_fit_into_a_length_take_the_next_length() -> None:
    """A text of 253 bytes takes 2 bytes for its length, 1 for the array and 1 for the padding: 257."""
    assert len(SEALED.seal(Walk("x" * 253))) == len(SEALED.seal(Walk("x" * 507))) == 706


@pytest.mark.parametrize("name", ["", "\0", "a\0\0", "\x80", "\0" * 251, "\0" * 252, "é" * 480])
def test_a_content_that_looks_like_padding_is_read_back(name: str) -> None:
    assert SEALED.open(SEALED.seal(Walk(name)), Walk) == Walk(name)


def test_a_cursor_of_another_version_is_no_cursor() -> None:
    """Its fields may mean something else. Version 4 was signed, and anybody could read it."""
    content = msgspec.msgpack.encode(Walk("quakes"))
    signed = urlsafe_b64encode(digest(b"secret", b"\4" + content, sha256)[:16] + content).decode().rstrip("=")
    sealed = urlsafe_b64encode(b"\6" + read_bytes(QUAKES)[1:]).decode().rstrip("=")
    for text in (signed, sealed):
        with pytest.raises(InvalidCursor):
            SEALED.open(text, Walk)


def test_a_cursor_of_another_secret_is_no_cursor() -> None:
    with pytest.raises(InvalidCursor):
        Seal(lambda: b"another").open(SEALED.seal(Walk("quakes")), Walk)


@pytest.mark.parametrize("place", [0, 1, 16, 17, 18, 24, 25, 100, 272])
@pytest.mark.parametrize("bit", [1, 128])
def test_a_cursor_with_another_bit_anywhere_is_no_cursor(place: int, bit: int) -> None:
    raw = bytearray(read_bytes(QUAKES))
    raw[place] ^= bit
    with pytest.raises(InvalidCursor):
        SEALED.open(urlsafe_b64encode(raw).decode(), Walk)


@pytest.mark.parametrize("length", [0, 1, 2, 16, 17, 18, 272])
def test_a_cursor_that_was_cut_is_no_cursor(length: int) -> None:
    with pytest.raises(InvalidCursor):
        SEALED.open(urlsafe_b64encode(read_bytes(QUAKES)[:length]).decode(), Walk)


def test_a_query_of_5000_bytes_is_taken_and_a_longer_query_says_by_how_much() -> None:
    refuse_long(Walk("x" * 4_996))
    with pytest.raises(ProblemError) as refused:
        refuse_long(Walk("x" * 4_997))
    assert refused.value.problem.status == 400
    assert refused.value.problem.detail == (
        "names, conditions and fields are 1 bytes too long for one query: query less at once"
    )
