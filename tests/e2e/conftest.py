"""The real stack, deployed once for all end-to-end tests: the example configuration with a feed of the stations and a rollup of
the quakes.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any, TypeVar

import pytest

from local import Deployed, Emulator, deploy
from local.emulator import REGION, ROOT, can_move_clock, clean_environment
from local.http import Api, invoke_lifecycle
from local.stack import make_aws_client
from tests.e2e.clock import OFFSET
from tests.worlds.configs import uncomment

_T = TypeVar("_T")
PATIENCE_SECONDS = 600
Keys = Callable[..., Any]
# The queue that receives the changes of the stations.
CHANGES = "changes"
_CHANGES = (*uncomment("[[streams.quakes.rollup]]"), ('by = ["net"]', 'by = ["series", "status"]'))
_FEED = f'feed = {{ targets = ["arn:aws:sqs:{REGION}:000000000000:{CHANGES}"] }}'


@pytest.fixture(scope="package")
def stage() -> Iterator[tuple[Emulator, Deployed]]:
    with Emulator(clock=can_move_clock()) as emulator:
        # First, as the clock of a stage must not go back: the emulator's scheduler would wait until the time of the deploy.
        if can_move_clock():
            emulator.move_clock(OFFSET)
        file, text = emulator.folder / "tidetable.toml", (ROOT / "tidetable.toml").read_text()
        assert "\n[streams.stations]\n" in text
        for before, after in (*_CHANGES, ("\n[streams.stations]\n", f"\n[streams.stations]\n{_FEED}\n")):
            text = text.replace(before, after, 1)
        assert '\nby = ["series", "status"]' in text
        file.write_text(text)
        make_aws_client(emulator.endpoint, "sqs").create_queue(QueueName=CHANGES)
        yield emulator, deploy(emulator, config=file)


@pytest.fixture(scope="package")
def deployed(stage: tuple[Emulator, Deployed]) -> Deployed:
    return stage[1]


@pytest.fixture(scope="package")
def api(deployed: Deployed) -> Api:
    return Api(deployed)


@pytest.fixture(scope="package")
def hour(stage: tuple[Emulator, Deployed], api: Api) -> Any:
    """An hour that the refresher has sealed, for which the clock is moved; None if it cannot be moved."""
    from tests.e2e.rollups import seal_hour

    return seal_hour(*stage, api) if can_move_clock() else None


def eventually(probe: Callable[[], _T], holds: Callable[[_T], bool]) -> _T:
    """Repeat a request until its answer meets the condition; a failure shows the last answer. A busy machine is no failure."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not holds(answer := probe()):
        assert monotonic() < deadline, f"not within {PATIENCE_SECONDS} s; the last answer was {str(answer)[-3000:]}"
        sleep(0.3)
    return answer


def run_lifecycle(deployed: Deployed, **payload: Any) -> dict[str, Any]:
    """Run the lifecycle beside the runs of its schedule: while one of them has the lease, a run is skipped."""
    return eventually(lambda: invoke_lifecycle(deployed, **payload), lambda report: report["skipped"] is None)


@pytest.fixture
def keys(stage: tuple[Emulator, Deployed]) -> Keys:
    emulator, deployed = stage
    environment = clean_environment() | emulator.time_environment | deployed.environment

    def run(*words: str) -> Any:
        command = [str(ROOT / "bin" / "tidetable"), "keys", *words]
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return run
