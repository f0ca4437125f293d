"""Events as API Gateway sends them: below a custom domain's base path, from web pages, and with the request's id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.gateway import NOON, Gateway, serving
from tests.fakes.stage import Stage
from tests.worlds.configs import CONFIG
from tests.worlds.gateway_events import QUAKES, ask, event

PAGE = "https://app.example.com"
OTHER = "https://app-example.com"
ROUTES = [
    ("/v1/health", None, 200),
    ("/v1/streams", None, 200),
    ("/v1/streams/{stream}/periods", QUAKES, 200),
    ("/v1/streams/{stream}/events", QUAKES, 200),
    ("/v1/streams/{stream}/aggregate", QUAKES, 200),
    ("/v1/streams/{stream}/events/{ref}", {"stream": "quakes", "ref": "abc"}, 400),
    ("/v1/streams/{stream}/latest", QUAKES, 400),
    ("/v1/streams/{stream}/top", QUAKES, 400),
    ("/v1/streams/{stream}/series", QUAKES, 400),
    ("/v1/streams/{stream}/fields", QUAKES, 400),
    ("/v1/streams/{stream}/fields/{field}/values", {"stream": "quakes", "field": "mag"}, 400),
]


def served(tmp_path: Path, cors: str) -> Iterator[Gateway]:
    file = tmp_path / "tidetable.toml"
    file.write_text(CONFIG.read_text().replace("cors = []", f"cors = {cors}"))
    stage = Stage(NOON, file.read_text())
    while stage.run_lifecycle().done:
        pass
    yield from serving(stage, file)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    yield from served(tmp_path_factory.mktemp("plain"), "[]")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    yield from served(tmp_path_factory.mktemp("pages"), f'["{PAGE}", "http://localhost:3000"]')


@pytest.fixture(scope="module")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    yield from served(tmp_path_factory.mktemp("everybody"), '["*"]')


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("base", ["", "/tides", "/data/v1", "/v1/streams"])
@pytest.mark.parametrize(("resource", "parameters", "status"), ROUTES)
def test_a_route_answers_the_same_below_any_base_path(
    base: str, resource: str, parameters: dict[str, str] | None, status: int
) -> None:
    found, _, document = ask(event(resource, parameters, base=base))
    assert found == status
    assert document.get("code") != "not_found"


def test_events_are_sent_and_found_by_ref_below_a_base_path(plain: Gateway) -> None:
    body = json.dumps({"series": "ci", "id": "ci/1 é", "data": {"mag": 4.2}})
    status, _, stored = ask(event("/v1/streams/{stream}/events", QUAKES, base="/tides", body=body))
    assert (status, stored["accepted"]) == (200, 1)
    plain.stage.settle()
    ref = {"stream": "quakes", "ref": stored["refs"][0]}
    status, _, document = ask(event("/v1/streams/{stream}/events/{ref}", ref, base="/tides"))
    assert (status, document["id"], document["data"]) == (200, "ci/1 é", {"mag": 4.2})


def test_a_page_says_in_its_headers_where_the_next_begins_and_what_it_took(plain: Gateway) -> None:
    body = json.dumps([{"series": "pages", "id": str(n), "data": {}} for n in range(3)])
    assert ask(event("/v1/streams/{stream}/events", QUAKES, body=body))[0] == 200
    plain.stage.settle()

    def page(**given: str) -> tuple[dict[str, str], Any]:
        sent = event("/v1/streams/{stream}/events", QUAKES)
        parameters = {name: [value] for name, value in {"series": "pages", **given}.items()}
        status, headers, document = ask(sent | {"multiValueQueryStringParameters": parameters})
        assert status == 200
        return headers, document

    headers, document = page(limit="2")
    assert len(document["events"]) == 2
    assert headers["Tidetable-Next"] == document["next"]
    assert headers["Tidetable-Gaps"] == str(len(document["gaps"]))
    assert float(headers["Tidetable-Read-Units"]) > 0
    assert int(headers["Tidetable-Events-Read"]) >= 2
    headers, document = page(cursor=headers["Tidetable-Next"], limit="2")
    assert len(document["events"]) == 1
    assert "Tidetable-Next" not in headers


ASKED = [
    event("/v1/streams", None),
    event("/v1/streams/{stream}/events", {"stream": "nothing"}),
    event("/v1/streams/{stream}/events", QUAKES, body='{"series": "ci"}'),
    event("/v1/streams/{stream}/events", QUAKES, body="{oops"),
]
KINDS = ["an answer", "a refusal", "stored", "refused"]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("sent", ASKED, ids=KINDS)
def test_every_answer_says_which_request_it_answers_and_what_it_is(sent: dict[str, Any]) -> None:
    _, headers, _ = ask(sent)
    assert headers["Tidetable-Request-Id"] == "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.startswith("Access-Control-")]


@pytest.mark.usefixtures("plain")
def test_the_functions_log_names_the_gateways_request() -> None:
    from handlers._observe import logger

    ask(event("/v1/streams/{stream}/events", QUAKES, body="{oops"))
    assert logger.get_current_keys()["api_request_id"] == "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("name", ["Origin", "origin"])
@pytest.mark.parametrize("sent", ASKED, ids=KINDS)
def test_a_page_of_an_allowed_origin_may_read_every_answer(sent: dict[str, Any], name: str) -> None:
    _, headers, _ = ask(sent | {"headers": sent["headers"] | {name: PAGE}})
    assert headers["Access-Control-Allow-Origin"] == PAGE
    assert headers["Access-Control-Expose-Headers"] == "*"
    assert headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in headers


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("origin", [OTHER, "http://app.example.com", "https://app.example.com.evil.test", "null", None])
def test_no_other_page_may_read_an_answer(origin: str | None) -> None:
    sent = event("/v1/streams", None, headers={} if origin is None else {"Origin": origin})
    status, headers, _ = ask(sent)
    assert status == 200
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Vary"] == "Origin"


@pytest.mark.usefixtures("everybody")
def test_every_page_may_read_an_answer_if_all_origins_are_allowed() -> None:
    _, headers, _ = ask(event("/v1/streams", None, headers={"Origin": OTHER}))
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Vary" not in headers
