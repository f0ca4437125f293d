"""A new key's rights: each problem of what an operator wrote, and the instants at which a key ends."""

from datetime import UTC, datetime, timedelta

import pytest

from tidetable.access import Access
from tidetable.credentials.records import CredentialRecord, Secret
from tidetable.credentials.rights import check_rights
from tidetable.credentials.text import make_key_text
from tidetable.problems import ProblemError

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "streams", "can", "prefix", "problem"),
    [
        ("", None, ["read"], "", "--name '': use 1 to 63 letters, digits, dots, hyphens and underscores"),
        (
            "n" * 64,
            None,
            ["read"],
            "",
            f"--name '{'n' * 64}': use 1 to 63 letters, digits, dots, hyphens and underscores",
        ),
        ("n", [], ["read"], "", "add --stream NAME once for each stream, or --all-streams"),
        ("n", ["s"] * 51, ["read"], "", "--stream: at most 50; use --all-streams, or several keys"),
        ("n", ["No Name"], ["read"], "", "--stream 'No Name' is not the name of a stream"),
        ("n", None, [], "", "--can is a list such as write,read of write, read, operate"),
        ("n", None, ["read", "own"], "", "--can is a list such as write,read of write, read, operate"),
        (
            "n",
            None,
            ["read"],
            "*",
            "--series-prefix '*' is the series of rollups that do not group by series: leave it out",
        ),
    ],
)
def test_what_is_wrong_with_a_new_key_is_said(
    name: str, streams: list[str] | None, can: list[str], prefix: str, problem: str
) -> None:
    assert check_rights(name, streams, can, prefix)[1] == [problem]


def test_a_new_key_has_the_rights_that_were_written() -> None:
    access, problems = check_rights("n" * 63, ["s"] * 50, ["read", "write"], "site-1.")
    assert problems == []
    assert access == Access("", frozenset({"s"}), frozenset({"write", "read"}), "site-1.")


def test_a_key_is_expired_from_its_very_end_on() -> None:
    secret = Secret.of("text", b"0" * 16)
    record = CredentialRecord("0123456789", "n", Access(), NOON, (secret,), expires=NOON + timedelta(days=1))
    end = NOON + timedelta(days=1)
    assert [record.find_state(end - timedelta(microseconds=1)), record.find_state(end)] == ["active", "expired"]
    assert [record.find_refusal("text", end - timedelta(microseconds=1)), record.find_refusal("text", end)] == [
        None,
        "expired",
    ]


def test_a_former_secret_is_refused_from_the_end_of_its_overlap_on() -> None:
    old, new = Secret.of("old", b"0" * 16), Secret.of("new", b"1" * 16)
    record = CredentialRecord("0123456789", "n", Access(), NOON, (old,)).rotate(new, NOON, timedelta(hours=1))
    end = NOON + timedelta(hours=1)
    assert record.find_refusal("old", end - timedelta(microseconds=1)) is None
    assert record.find_refusal("old", end) == "rotated"
    assert [record.find_state(end - timedelta(microseconds=1)), record.find_state(end)] == ["rotating", "active"]


@pytest.mark.parametrize(("length", "fits"), [(31, False), (32, True), (33, False)])
def test_a_secret_has_32_letters_and_digits(length: int, fits: bool) -> None:
    if fits:
        assert make_key_text("0123456789", "a" * length) == f"tt_0123456789_{'a' * length}"
    else:
        with pytest.raises(ValueError, match="a secret 32"):
            make_key_text("0123456789", "a" * length)


def test_a_refusal_names_the_rights_in_one_order() -> None:
    for scopes in (("write", "operate", "read"), ("read", "write", "operate")):
        with pytest.raises(ProblemError, match=r"this key may not operate or read or write the stream 's': use a key"):
            Access("k", frozenset()).require("s", *scopes)
