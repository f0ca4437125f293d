"""Starts and stops DynamoDB Local, the official engine; ``make test`` fetches its jar."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from local.emulator import ROOT, clean_environment, end_group, free_port

FOLDER = ROOT / ".dynamodb-local"
_READY_SECONDS = 60


class DynamoDBLocal:
    """One DynamoDB Local in memory on a free port of the loopback interface; a ``long`` one runs faster."""

    def __init__(self, *, long: bool = False) -> None:
        self._long = long
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="tidetable-dynamodb-local-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> DynamoDBLocal:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it answers; RuntimeError that says what is missing if it cannot."""
        java = shutil.which("java")
        if java is None:
            raise RuntimeError("DynamoDB Local needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
        if not (FOLDER / "DynamoDBLocal.jar").is_file():
            raise RuntimeError(f"{FOLDER / 'DynamoDBLocal.jar'} is missing: run `make test`, which fetches it")
        log = self._folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    java,
                    *([] if self._long else ["-XX:TieredStopAtLevel=1"]),
                    "-Djava.library.path=DynamoDBLocal_lib",
                    "-jar",
                    "DynamoDBLocal.jar",
                    "-inMemory",
                    "-sharedDb",
                    "-disableTelemetry",
                    "-port",
                    str(self.port),
                ],
                cwd=FOLDER,
                env=clean_environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-3000:]
                self.stop()
                raise RuntimeError(f"DynamoDB Local did not start; the end of its log:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it and remove its folder."""
        if self._process is not None:
            end_group(self._process.pid)
            self._process.wait(timeout=10)
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=2):  # noqa: S310 - our own address
                return True
        except urllib.error.HTTPError:
            # It refuses a request that names no operation, and so it is there.
            return True
        except OSError:
            return False
