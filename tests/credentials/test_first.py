"""The first key of a stage: how it is read from API Gateway, added to the catalog, and removed."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.gateway_credentials import GatewayCredentials
from tests.credentials.records import NOW, SALT
from tests.fakes.gateway import refused
from tidetable.access import Access
from tidetable.credentials import CredentialRecord, Secret
from tidetable.credentials.first import admit_first, dismiss_first
from tidetable.errors import BadInvocation

VALUE = "Zq3vTn8mLx2KbW7cRj5yHd9sFg1aPe4uNw6iOkVt"


class Gateway:
    """API Gateway, which refuses the first ``denials`` calls with the code ``code``."""

    def __init__(self, denials: int, code: str) -> None:
        self.denials = denials
        self.code = code
        self.calls: list[dict[str, Any]] = []

    def get_api_key(self, **request: Any) -> dict[str, Any]:
        self.calls.append(request)
        if len(self.calls) <= self.denials:
            raise refused(self.code, "not now")
        return {"id": "gk0", "value": VALUE}


@pytest.mark.parametrize("code", ["AccessDeniedException", "AccessDenied"])
def test_a_right_that_holds_later_is_waited_for(code: str) -> None:
    """AWS: a right may take about a minute until it holds everywhere. The deployment waits for a minute and a half."""
    pauses: list[float] = []
    gateway = Gateway(14, code)
    assert GatewayCredentials(lambda: gateway, pauses.append).read_value("gk0") == VALUE
    assert pauses == [6.0] * 14
    assert gateway.calls == [{"apiKey": "gk0", "includeValue": True}] * 15


@pytest.mark.parametrize(
    ("code", "calls"), [("AccessDeniedException", 15), ("NotFoundException", 1), ("TooManyRequestsException", 1)]
)
def test_a_refusal_that_stays_or_is_of_another_kind_is_raised(code: str, calls: int) -> None:
    pauses: list[float] = []
    gateway = Gateway(99, code)
    with pytest.raises(ClientError, match=code):
        GatewayCredentials(lambda: gateway, pauses.append).read_value("gk0")
    assert (len(gateway.calls), len(pauses)) == (calls, calls - 1)


class Kept:
    """The keys of the catalog."""

    def __init__(self) -> None:
        self.added: list[CredentialRecord] = []

    def add(self, record: CredentialRecord) -> bool:
        self.added.append(record)
        return True

    def all(self) -> list[CredentialRecord]:
        return self.added

    def forget(self, _: str) -> bool:
        return True


def test_the_first_key_may_do_everything_and_knows_its_origin() -> None:
    kept: Any = Kept()
    asked: list[str] = []

    def read(id: str) -> str:
        asked.append(id)
        return VALUE

    assert admit_first(kept, "gk0", read, lambda: SALT, NOW) == "gw6763c11c34"
    assert asked == ["gk0"]
    secret = Secret.of(VALUE, SALT)
    assert kept.added == [
        CredentialRecord("gw6763c11c34", "first", Access("gw6763c11c34"), NOW, (secret,), origin="gk0")
    ]
    assert dismiss_first(kept, "gk1") == []
    assert dismiss_first(kept, "gk0") == ["gw6763c11c34"]


def test_a_value_of_another_form_ends_the_deployment() -> None:
    kept: Any = Kept()
    with pytest.raises(BadInvocation, match="gk0 has another form"):
        admit_first(kept, "gk0", lambda _: "short", lambda: SALT, NOW)
    assert kept.added == []
