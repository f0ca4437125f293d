"""What a ring drops, what a refusal still says, and the rights that no other test reaches."""

from datetime import timedelta
from typing import Any

import pytest

from settings import read_settings
from tests.credentials.records import NOW, record
from tidetable.access import Access, find_scopes
from tidetable.copies.reader import Copies
from tidetable.credentials import Call, CredentialRecord, CredentialRing, decide
from tidetable.credentials import decide as package_decide
from tidetable.credentials import ring as ring_module
from tidetable.credentials.first import dismiss_first
from tidetable.credentials.rights import check_rights
from wiring import Pipeline

SECOND = timedelta(seconds=1)
TEXT = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
EVENTS = "/v1/streams/{stream}/events"


def test_a_ring_holds_20000_keys_of_each_kind() -> None:
    assert ring_module.MOST == 20_000


def test_a_full_ring_drops_the_key_whose_last_use_is_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST", 4)
    read: list[str] = []

    def find(id: str) -> CredentialRecord:
        read.append(id)
        return record(TEXT)

    ring = CredentialRing(find)
    # "b" is used again before the ring is full, "a" is read again after its minute: "c" was not used for the longest time.
    for id, second in (("a", 0), ("b", 30), ("c", 31), ("b", 32), ("a", 60), ("d", 61), ("e", 61)):
        ring.find(id, NOW + second * SECOND)
    assert read == ["a", "b", "c", "a", "d", "e"]
    read.clear()
    for id in ("a", "b", "d", "e", "c"):
        ring.find(id, NOW + 62 * SECOND)
    assert read == ["c"]


def test_a_full_ring_drops_the_unknown_id_that_was_looked_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST", 3)
    read: list[str] = []
    ring = CredentialRing(read.append)
    # "a" is looked up again after its ten seconds, and is then the youngest.
    for id, second in (("a", 0), ("b", 5), ("a", 10), ("c", 11), ("d", 11)):
        ring.find(id, NOW + second * SECOND)
    read.clear()
    for id in ("a", "c", "d", "b"):
        ring.find(id, NOW + 12 * SECOND)
    assert read == ["b"]


@pytest.mark.parametrize("facts", [{"expires": NOW}, {"revoked": NOW}])
def test_a_refusal_of_the_right_text_names_its_key(facts: dict[str, Any]) -> None:
    kept = record(TEXT, **facts)
    decision = decide(Call("GET", EVENTS, "quakes", {"x-api-key": [TEXT]}), CredentialRing(lambda _: kept), NOW)
    assert (decision.allowed, decision.record) == (False, kept)
    assert decision.context()["key_id"] == "0123456789"


def test_an_unknown_key_takes_the_time_of_a_wrong_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the time of the answer would tell which keys there are."""
    hashed: list[str] = []
    monkeypatch.setitem(package_decide.__globals__, "refuse_unknown", hashed.append)
    decide(Call("GET", EVENTS, "quakes", {"x-api-key": [TEXT]}), CredentialRing(lambda _: None), NOW)
    assert hashed == [TEXT]


class Two:
    """A revoked and another key of one origin, and a key of no origin."""

    def all(self) -> list[CredentialRecord]:
        ids = ("tt_aaaaaaaaaa_", "tt_bbbbbbbbbb_", "tt_cccccccccc_")
        origins = ("gk", "gk", "")
        return [record(id + TEXT[-32:], origin=origin) for id, origin in zip(ids, origins, strict=True)]

    def forget(self, id: str) -> bool:
        return id != "aaaaaaaaaa"


def test_the_first_key_is_dismissed_but_for_a_revoked_one() -> None:
    assert dismiss_first(Two(), "gk") == ["bbbbbbbbbb"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prefix", "problems"), [("é" * 240, []), ("é" * 241, ["--series-prefix has at most 480 bytes"])]
)
def test_the_prefix_of_series_is_counted_in_bytes(prefix: str, problems: list[str]) -> None:
    assert check_rights("n", None, ["read"], prefix)[1] == problems


@pytest.mark.parametrize("route", ["/v1/plan", "/v1/alarms", "/v1/activity", "/v1/cost"])
def test_the_routes_of_operators_need_their_scope(route: str) -> None:
    assert find_scopes("GET", route, Access()) == frozenset({"operate"})


def test_a_prefix_begins_the_series() -> None:
    access = Access("k", series_prefix="a.")
    assert [access.covers(series) for series in ("a.b", "a.", "b.a.", "a")] == [True, True, False, False]


def test_a_request_without_a_key_is_counted_by_none() -> None:
    decision = decide(Call("GET", EVENTS, "quakes"), CredentialRing(lambda _: None), NOW)
    assert (decision.refusal, decision.meter) == ("no key", "")


def test_a_key_in_the_address_of_influxdb_1_is_decided_about() -> None:
    call = Call("POST", "/write", parameters={"p": [TEXT]})
    assert decide(call, CredentialRing(lambda _: record(TEXT)), NOW).allowed


def test_a_refusal_names_every_scope_that_would_do() -> None:
    call = Call("GET", "/v1/streams/{stream}/periods", "quakes", {"x-api-key": [TEXT]})
    assert decide(call, CredentialRing(lambda _: record(TEXT, can=("write",))), NOW).refusal == "needs operate or read"


def test_a_ring_reads_a_key_once_in_an_instant() -> None:
    read: list[str] = []
    ring = CredentialRing(lambda wanted: read.append(wanted))
    assert [ring.find("a", NOW), ring.find("a", NOW)] == [None, None]
    assert read == ["a"]


def test_a_long_name_is_cut_in_the_problem() -> None:
    problems = check_rights("n" * 100, ["S" * 100], ["read"], "")[1]
    assert problems == [
        f"--name '{'n' * 64}': use 1 to 63 letters, digits, dots, hyphens and underscores",
        f"--stream '{'S' * 64}' is not the name of a stream",
    ]


@pytest.mark.parametrize("name", ["-n", ".n", "a b", "a/b", "é", ""])
def test_a_name_that_api_gateway_or_a_log_could_misread_is_refused(name: str) -> None:
    problem = f"--name {name!r}: use 1 to 63 letters, digits, dots, hyphens and underscores"
    assert check_rights(name, None, ["read"], "")[1] == [problem]


@pytest.mark.parametrize(("copies", "counted"), [(None, True), (Copies("eu-west-1", "us-east-1"), False)])
def test_a_reader_in_another_region_counts_no_changes_because_they_may_arrive_before_the_keys(
    copies: Copies | None, monkeypatch: pytest.MonkeyPatch, *, counted: bool
) -> None:
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    read_settings.cache_clear()
    ring = Pipeline(copies=copies, dynamodb=None).key_ring
    read_settings.cache_clear()
    assert (ring._count_changes is not None) == counted
