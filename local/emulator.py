"""Starts and stops ministack, the AWS emulator; everything that it starts ends with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
_READY_SECONDS = 60


def clean_environment() -> dict[str, str]:
    """This process's environment without anything that could lead to a real account."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


class Emulator:
    """One ministack on a free port of the loopback interface, with its state in a temporary folder.

    ``clock`` makes its time movable (Linux on x86-64 only, where libfaketime's library is at hand).
    """

    def __init__(self, *, clock: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidetable-"))
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = self.folder / "emulator.log"
        self._clock = self.folder / "clock" if clock else None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Emulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process group to end, while it runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start and wait until it answers; RuntimeError with its log's end if it does not."""
        environment = clean_environment() | {
            "GATEWAY_PORT": str(self.port),
            "IOT_MTLS_ENABLED": "0",
            "NODE_PATH": str(ROOT / "node_modules"),
            "TMPDIR": str(self.folder),
            # A bundle's folder is made once; compiling it again in each worker would only cost time.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self._clock is not None:
            self._clock.write_text("+0\n")
            environment |= _movable(self._clock)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [str(Path(sys.executable).parent / "ministack")],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-3000:]
                self.stop()
                raise RuntimeError(f"the emulator did not start; the end of its log:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the emulator and all that it started, and remove its folder."""
        if self._process is not None:
            end_group(self._process.pid)
            self._process.wait(timeout=10)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def move_clock(self, offset: str) -> None:
        """Set the emulator's time, and its functions', apart from this machine's: such as ``+31d``."""
        if self._clock is None:
            raise RuntimeError("this emulator's clock cannot be moved")
        self._clock.write_text(f"{offset}\n")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=2):  # noqa: S310 - our own address
                return True
        except OSError:
            return False


def clock_can_move() -> bool:
    """Whether this machine has what it takes to move the emulator's clock."""
    return sys.platform == "linux" and find_spec("libfaketime") is not None


def end_group(pid: int) -> None:
    """End a process group: first politely, then for sure."""
    for kind, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(pid, kind)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def _movable(clock: Path) -> dict[str, str]:
    spec = find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise RuntimeError("libfaketime is not installed")
    library = next(Path(spec.origin).parent.rglob("libfaketime.so.1"))
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
