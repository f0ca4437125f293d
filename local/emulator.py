"""Start and stop ministack, the AWS emulator, with all of its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from local.dynamodb_local import DynamoDBLocal
from local.processes import (
    HOST,
    PORT_TRIES,
    ROOT,
    LocalServer,
    PortTaken,
    clean_environment,
    end_process,
    find_free_port,
    start_server,
)
from local.tables import start_layer

__all__ = ["ENGINES", "REGION", "ROOT", "Emulator", "Engine", "clean_environment", "can_move_clock"]

REGION = "us-east-1"
# A process reads the file of the moved clock again after this number of seconds.
_CLOCK_SECONDS = 1
# The engine of the tables: the emulator's own DynamoDB, or AWS's DynamoDB Local, which needs Java and can hold more
# events.
Engine = Literal["emulator", "dynamodb-local"]
ENGINES: tuple[Engine, ...] = get_args(Engine)


class Emulator(LocalServer):
    """A ministack on a free port of the loopback interface, with its state in a temporary folder.

    With ``clock`` its time can be moved (only on Linux for x86-64, with libfaketime's library). With the ``engine``
    dynamodb-local, its functions use DynamoDB Local, which other clients reach at the address ``dynamodb``. ``long`` is
    for a stage that lives longer than some minutes (see DynamoDBLocal). ``program`` is a Python file to start instead
    of ministack. ``variables`` are added to the environment of the process.
    """

    def __init__(
        self,
        *,
        clock: bool = False,
        engine: Engine = "emulator",
        long: bool = True,
        program: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidetable-"))
        self.log = self.folder / "emulator.log"
        self.engine = engine
        self._long = long
        self._clock = self.folder / "clock" if clock else None
        # With -P Python does not look for modules in the program's folder.
        self._command = [sys.executable, "-P", str(Path(__file__).with_name("bundles.py"))]
        self._command += [] if program is None else [str(program)]
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._tables: DynamoDBLocal | None = None
        self._layer: subprocess.Popen[bytes] | None = None
        self._dynamodb = ""

    @property
    def dynamodb(self) -> str:
        """The address of the stage's DynamoDB."""
        return self._dynamodb or self.endpoint

    @property
    def clock(self) -> Path | None:
        """The file of the moved clock; None if the clock cannot be moved."""
        return self._clock

    @property
    def pids(self) -> list[int]:
        """The process groups of the running emulator, which ``stop`` ends."""
        pids = [self._tables.pid if self._tables is not None else None]
        pids += [process.pid for process in (self._process, self._layer) if process is not None]
        return [pid for pid in pids if pid is not None]

    def start(self) -> None:
        """Start the emulator and wait until it answers; RuntimeError with the end of its log if it does not start."""
        try:
            if self.engine == "dynamodb-local":
                self._start_tables()
            self._start_emulator()
        except BaseException:
            self.stop()
            raise

    def change_engine(self, engine: Engine) -> None:
        """Change the engine of the tables.

        The emulator restarts without any data, so this can be used only before a deployment.
        """
        if engine == self.engine:
            return
        running = self._process is not None
        self._end_processes()
        self.engine = engine
        if running:
            self.start()

    def stop(self) -> None:
        """End the emulator and all processes that it started, and remove its folder."""
        self._end_processes()
        shutil.rmtree(self.folder, ignore_errors=True)

    def move_clock(self, offset: timedelta) -> None:
        """Set the time of the emulator and its functions to this machine's time plus an offset."""
        if self._clock is None:
            raise RuntimeError("this emulator's clock cannot be moved")
        self._clock.write_text(f"{offset.total_seconds() + _read_own_offset():+.0f}\n")
        if self._process is not None:
            # After this wait every process has read the file again. libfaketime compares whole seconds, so a process
            # may keep the earlier time for one second more than its cache says.
            time.sleep(_CLOCK_SECONDS + 1.1)

    @property
    def time_environment(self) -> dict[str, str]:
        """Return the environment variables with which another program has the emulator's time."""
        return {} if self._clock is None else make_time_environment(self._clock)

    def _start_tables(self) -> None:
        self._tables = DynamoDBLocal(long=self._long, folder=self.folder / "dynamodb-local")
        self._tables.start()
        log = self.folder / "tables.log"
        self._layer, self._dynamodb = start_layer(self._tables.endpoint, self._origin, log)

    def _start_emulator(self) -> None:
        for attempt in range(PORT_TRIES):
            self.port = find_free_port()
            try:
                self._process = start_server(
                    "the emulator",
                    self._command,
                    self.log,
                    lambda text: "Running on http" in text and self._is_answering(),
                    folder=self.folder,
                    environment=self._make_environment(),
                )
            except PortTaken:
                if attempt == PORT_TRIES - 1:
                    raise
            else:
                self._origin.write_text(self.endpoint)
                return

    @property
    def _origin(self) -> Path:
        return self.folder / "endpoint"

    def _make_environment(self) -> dict[str, str]:
        environment = clean_environment() | {
            # The emulator accepts any key and runs code, so no other machine may reach it. By default it listens on
            # every interface.
            "BIND_HOST": HOST,
            "GATEWAY_PORT": str(self.port),
            "IOT_MTLS_ENABLED": "0",
            "NODE_PATH": str(ROOT / "node_modules"),
            "TMPDIR": str(self.folder),
            # The processes of functions share an unpacked bundle, and must not write to it.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self._dynamodb:
            # The emulator passes its environment to the functions that it runs.
            environment["AWS_ENDPOINT_URL_DYNAMODB"] = self._dynamodb
        if self._clock is not None:
            self.move_clock(timedelta(0))
            environment |= make_time_environment(self._clock)
        return environment | self._variables

    def _end_processes(self) -> None:
        for process in (self._process, self._layer):
            if process is not None:
                end_process(process)
        if self._tables is not None:
            self._tables.stop()
        self._process = self._layer = self._tables = None
        self._dynamodb = ""

    def _is_answering(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=2):  # noqa: S310 - our own address
                return True
        except OSError:
            return False


def can_move_clock() -> bool:
    """True if this machine can move the emulator's clock."""
    return sys.platform == "linux" and find_spec("libfaketime") is not None


def _read_own_offset() -> float:
    """Read the seconds by which this process's own time is moved. libfaketime counts only from the machine's clock.

    The tests can be run at another hour: with ``+<seconds>`` in the file that FAKETIME_TIMESTAMP_FILE names.
    """
    moved = os.environ.get("FAKETIME_TIMESTAMP_FILE")
    return float(Path(moved).read_text()) if moved else 0.0


def make_time_environment(clock: Path) -> dict[str, str]:
    """Make the environment variables with which a program has the time of a file; RuntimeError without libfaketime."""
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise RuntimeError("libfaketime is not installed")
    library = next(Path(spec.origin).parent.rglob("libfaketime.so.1"))
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # Without a cache, every call for the time reads the file: this took half of all CPU time of the emulator.
        "FAKETIME_CACHE_DURATION": str(_CLOCK_SECONDS),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Timers are not moved, so waits for timers must not be moved either. By default (from glibc 2.30 on),
        # libfaketime would end each wait at once: Python's threads would then wait for one another in busy loops (40 ms
        # per thread).
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
