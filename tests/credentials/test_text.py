"""The text of keys, and the hashes that are kept of it."""

import hmac
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.credentials.records import NOW, SALT, record
from tidetable.credentials import records
from tidetable.credentials.records import Secret
from tidetable.credentials.text import ALPHABET, hash_text, make_key_text, read_id

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
TEXT = f"tt_0123456789_{SECRET}"
GATEWAY = "Zq3vTn8mLx2KbW7cRj5yHd9sFg1aPe4uNw6iOkVt"


def test_a_key_is_its_id_and_its_secret() -> None:
    assert make_key_text("0123456789", SECRET) == TEXT
    assert read_id(TEXT) == "0123456789"


def test_a_key_of_api_gateway_has_an_id_that_stays_when_it_is_rotated() -> None:
    # sha256("tidetable gateway key " + text), its first ten digits.
    assert read_id(GATEWAY) == "gw6763c11c34"
    assert read_id(make_key_text("gw6763c11c34", SECRET)) == "gw6763c11c34"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tt_",
        "short",
        "a" * 19,
        "a" * 129,
        f"tt_0123456789_{SECRET}6",
        f"tt_0123456789_{SECRET[:-1]}-",
        f"tt_0123456789_{SECRET[:-1]}",
        f"tt_012345678_{SECRET}",
        f"tt_0123456789_{SECRET[:-1]}é",
        f"tt_0123456789_{SECRET}\n",
        "with a space that is long enough",
        "tt_gwghijklmnop_" + SECRET,
    ],
)
def test_another_text_is_no_key(text: str) -> None:
    assert read_id(text) is None


@pytest.mark.parametrize(("id", "secret"), [("short", SECRET), ("0123456789", "short"), ("01234_6789", SECRET)])
def test_a_key_that_could_not_be_read_is_never_made(id: str, secret: str) -> None:
    with pytest.raises(ValueError, match="an id has 10"):
        make_key_text(id, secret)


def test_the_secret_has_more_than_160_random_bits() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 62
    assert 62 ** len(SECRET) > 2**160


def test_only_a_salted_hash_is_kept() -> None:
    kept = Secret.of(TEXT, SALT)
    # What sha256sum prints for the bytes 01 to 10 (hexadecimal), then the text.
    assert kept.hash.hex() == "e41e6e35e8e397a15543e91a040cf0e825afb746453cd8fd45f43cd99eb91656"
    assert SECRET not in repr(kept)
    assert Secret.of(TEXT, bytes(16)).hash != kept.hash


texts = st.builds(
    make_key_text,
    st.text(ALPHABET, min_size=10, max_size=10),
    st.text(ALPHABET, min_size=32, max_size=32),
)


@settings(deadline=None)
@given(own=texts, other=texts)
def test_no_other_text_is_ever_accepted(own: str, other: str) -> None:
    assume(own != other)
    kept = record(own)
    assert kept.find_refusal(own, NOW) is None
    assert kept.find_refusal(other, NOW) == "wrong secret"


@settings(deadline=None)
@given(own=texts, place=st.integers(0, 45), character=st.characters())
def test_a_text_with_one_changed_character_is_refused(own: str, place: int, character: str) -> None:
    changed = own[: place % len(own)] + character + own[place % len(own) + 1 :]
    assume(changed != own)
    assert read_id(changed) is None or record(own).find_refusal(changed, NOW) == "wrong secret"


def test_hashes_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hash is compared whole, of every secret, and of a key that does not exist or that newer code wrote, too."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return hmac.compare_digest(first, second)

    monkeypatch.setattr(records, "compare_digest", compare)
    rotated = record(TEXT).rotate(Secret.of(GATEWAY, SALT), NOW, timedelta(days=1))
    rotated.find_refusal(GATEWAY, NOW)
    assert len(compared) == 2
    records.refuse_unknown(TEXT)
    assert len(compared) == 3
    replace(record(TEXT), secrets=(), newer=2).find_refusal(TEXT, NOW)
    assert len(compared) == 4
    assert {len(digest) for pair in compared for digest in pair} == {32}


class TestRotation:
    """A key with a new secret, of 12 March, and the former one for a day more."""

    later = f"tt_0123456789_{SECRET[::-1]}"

    def rotated(self, overlap: timedelta = timedelta(days=1)) -> records.CredentialRecord:
        return record(TEXT).rotate(Secret.of(self.later, SALT), NOW, overlap)

    def test_both_are_accepted_until_the_overlap_ends_and_then_one(self) -> None:
        end = NOW + timedelta(days=1)
        assert self.rotated().find_refusal(TEXT, end - timedelta(microseconds=1)) is None
        assert self.rotated().find_refusal(TEXT, end) == "rotated"
        assert self.rotated().find_refusal(self.later, end + timedelta(days=999)) is None
        assert (self.rotated().find_state(NOW), self.rotated().find_state(end)) == ("rotating", "active")

    def test_without_an_overlap_the_former_ends_at_once(self) -> None:
        assert self.rotated(timedelta(0)).find_refusal(TEXT, NOW) == "rotated"

    def test_a_second_rotation_does_not_lengthen_the_life_of_the_first_secret(self) -> None:
        third = f"tt_0123456789_{SECRET.upper()}"
        again = self.rotated().rotate(Secret.of(third, SALT), NOW + timedelta(hours=1), timedelta(days=30))
        assert again.find_refusal(TEXT, NOW + timedelta(days=1)) == "rotated"
        assert again.find_refusal(self.later, NOW + timedelta(days=29)) is None
        assert again.find_refusal(third, NOW + timedelta(days=99)) is None

    def test_a_second_rotation_may_shorten_the_life_of_the_first_secret(self) -> None:
        third = f"tt_0123456789_{SECRET.upper()}"
        again = self.rotated().rotate(Secret.of(third, SALT), NOW, timedelta(hours=1))
        assert again.find_refusal(TEXT, NOW + timedelta(hours=1)) == "rotated"

    def test_a_text_that_is_a_former_and_the_present_secret_is_accepted(self) -> None:
        again = self.rotated(timedelta(0)).rotate(Secret.of(TEXT, SALT), NOW, timedelta(0))
        former = records.Secret(SALT, hash_text(TEXT, SALT), NOW)
        twice = replace(again, secrets=(*again.secrets, former))
        assert twice.find_refusal(TEXT, NOW) is None

    @pytest.mark.parametrize("days", [1, 2])
    def test_a_secret_that_has_ended_is_forgotten_by_the_next_rotation(self, days: int) -> None:
        again = self.rotated().rotate(Secret.of(TEXT, SALT), NOW + timedelta(days=days), timedelta(0))
        assert len(again.secrets) == 2


def test_a_key_ends_at_its_time_and_not_before() -> None:
    end = datetime(2026, 4, 1, tzinfo=UTC)
    kept = record(TEXT, expires=end)
    assert kept.find_refusal(TEXT, end - timedelta(microseconds=1)) is None
    assert kept.find_refusal(TEXT, end) == "expired"
    assert kept.find_refusal(TEXT[:-1] + "x", end) == "wrong secret", (
        "nobody learns of a key whose secret he does not know"
    )


def test_a_revoked_key_is_refused() -> None:
    assert record(TEXT, revoked=NOW).find_refusal(TEXT, NOW) == "revoked"
    assert record(TEXT, revoked=NOW, expires=NOW).find_state(NOW) == "revoked"
    assert hash_text(TEXT, SALT) == record(TEXT).secrets[0].hash


@pytest.mark.parametrize("length", [20, 128])
def test_a_key_of_api_gateway_has_20_to_128_characters(length: int) -> None:
    assert (read_id("!" + "~" * (length - 1)) or "")[:2] == "gw"


def test_the_value_that_counts_requests_is_in_no_log() -> None:
    """It may be the text of the key itself."""
    assert "meter-of" not in repr(record(TEXT))
