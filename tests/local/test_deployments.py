"""What a deployment of the local stage waits for: the bootstrap beside it, and the emulator's stacks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from ministack import app

from local import synth
from local.stacks import answer_when_complete

QUESTION = b"Action=DescribeStacks&Version=2010-05-15&StackName=Tidetable-local"


def test_a_synth_ends_when_the_bootstrap_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bootstrapped"
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        # The file is made first, and then written.
        pauses.append(seconds)
        file.write_text("complete" if len(pauses) == 2 else "")

    monkeypatch.setattr(time, "sleep", pause)
    synth.wait_for_bootstrap(file)
    assert len(pauses) == 2
    file.write_text("failed")
    with pytest.raises(SystemExit, match="the bootstrap failed"):
        synth.wait_for_bootstrap(file)
    file.unlink()
    monkeypatch.setattr(synth, "_SECONDS", -1)
    with pytest.raises(SystemExit, match="the bootstrap failed"):
        synth.wait_for_bootstrap(file)


class FakeService:
    """CloudFormation of the emulator, with one stack."""

    def __init__(self, status: str) -> None:
        self._stacks = {"a": {"StackStatus": "CREATE_COMPLETE"}, "b": {"StackStatus": status}}

    async def handle_request(self, *_: Any) -> Any:
        return self._stacks["b"]["StackStatus"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """The service as a request finds it."""
    made = FakeService("CREATE_IN_PROGRESS")
    monkeypatch.setattr(app, "_loaded_modules", {})
    monkeypatch.setattr(app, "_get_module", lambda name: app._loaded_modules.setdefault(name, made))
    answer_when_complete()
    found: object = app._get_module("cloudformation")
    assert found is made
    # Another request does not wrap the function a second time.
    answer = made.handle_request
    assert app._get_module("cloudformation").handle_request == answer
    return made


async def change_and_ask(service: FakeService, body: bytes) -> Any:
    """Ask, and complete the stack a little later."""
    asked = asyncio.ensure_future(service.handle_request("POST", "/", {}, body, {}))
    await asyncio.sleep(0)
    service._stacks["b"]["StackStatus"] = "CREATE_COMPLETE"
    return await asked


def test_a_stack_is_described_when_it_is_complete(service: FakeService) -> None:
    assert asyncio.run(change_and_ask(service, QUESTION)) == "CREATE_COMPLETE"


def test_other_questions_are_answered_at_once(service: FakeService) -> None:
    assert asyncio.run(change_and_ask(service, QUESTION.replace(b"Stacks", b"StackEvents"))) == "CREATE_IN_PROGRESS"


def test_a_stack_that_only_has_a_change_set_is_described_at_once(service: FakeService) -> None:
    service._stacks["b"]["StackStatus"] = "REVIEW_IN_PROGRESS"
    assert asyncio.run(change_and_ask(service, QUESTION)) == "REVIEW_IN_PROGRESS"
