"""Let the emulator answer a question about a stack when its deployment has ended.

The CDK's command line asks at once, and then every five seconds. The emulator makes a stack in less than one second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from ministack import app

# Longer than any stack of the project takes. Clients wait for an answer for a minute.
_SECONDS = 30
_PAUSE = 0.02
_SERVICE = "cloudformation"

Answer = Callable[[str, str, Any, bytes, Any], Awaitable[Any]]


def answer_when_complete() -> None:
    """Replace the function of the emulator that answers CloudFormation's requests, when its module is loaded.

    The module takes a second of CPU time. A stage that is starting does not need it.
    """
    load = app._get_module  # noqa: SLF001

    def load_service(name: str) -> ModuleType:
        loaded = name in app._loaded_modules  # noqa: SLF001
        module: ModuleType = load(name)
        if name == _SERVICE and not loaded:
            module.handle_request = delay_answer(module.handle_request, module._stacks)  # type: ignore[attr-defined]  # noqa: SLF001
        return module

    app._get_module = load_service  # noqa: SLF001


def delay_answer(answer: Answer, stacks: Any) -> Answer:
    """Return a function that answers a question about stacks when none of the stacks is changing."""

    async def wait_and_answer(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        if b"Action=DescribeStacks&" in body:
            deadline = time.monotonic() + _SECONDS
            while any(map(_is_changing, stacks.values())) and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE)
        return await answer(method, path, headers, body, query)

    return wait_and_answer


def _is_changing(stack: Any) -> bool:
    status = stack["StackStatus"]
    return bool(status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS")
