"""Servers of the local stage. A server listens on the loopback interface only, and ends with all of its processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
HOST = "127.0.0.1"
PORT_TRIES = 5
_READY_SECONDS = 90
_TAIL = 3000


class PortTaken(RuntimeError):
    """Another process took the port between the search for a free port and the start of the server."""


def clean_environment() -> dict[str, str]:
    """Return this process's environment without the variables that could lead to a real account."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def read_clock_variables() -> dict[str, str]:
    """Read the variables with which libfaketime moves this process's clock; empty unless the tests run at another hour."""
    return {name: value for name, value in os.environ.items() if name.startswith(("FAKETIME", "LD_PRELOAD"))}


def drop_clock(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables of libfaketime: a process then has the machine's own time."""
    moved = read_clock_variables()
    return {name: value for name, value in environment.items() if name not in moved}


def find_free_port() -> int:
    """Find a free port of the loopback interface. Another process may take the port before the caller does."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class LocalServer(ABC):
    """A server of the local stage on a free port of the loopback interface; a ``with`` block starts and stops it."""

    port = 0

    @property
    def endpoint(self) -> str:
        """The server's address, after ``start``."""
        return f"http://{HOST}:{self.port}"

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers."""

    @abstractmethod
    def stop(self) -> None:
        """End the server with all of its processes."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_server(
    name: str,
    command: Sequence[str],
    log: Path,
    is_ready: Callable[[str], bool],
    *,
    folder: Path,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a server in its own process group, and wait until ``is_ready`` accepts the text of its log.

    The log decides, not an answer at the port: such an answer may come from another process that listens there.
    PortTaken if the server ended because its port was in use; RuntimeError with the end of its log if it does not
    start.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + _READY_SECONDS
    try:
        while True:
            ended = process.poll() is not None
            text = log.read_text(errors="replace")
            if not ended and is_ready(text):
                return process
            if ended or time.monotonic() > deadline:
                kind = PortTaken if "in use" in text else RuntimeError
                raise kind(f"{name} did not start; the end of its log:\n{text[-_TAIL:]}")
            time.sleep(0.1)
    except BaseException:
        end_group(process.pid)
        process.wait(timeout=10)
        raise


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a server and all processes that it started."""
    end_group(process.pid)
    process.wait(timeout=10)


def end_group(pid: int) -> None:
    """End a process group: by SIGTERM, and then by SIGKILL if it still runs."""
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
