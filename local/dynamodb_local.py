"""Start and stop DynamoDB Local, the official engine; ``make test`` fetches its jar."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from local.processes import ROOT, LocalServer, clean_environment, drop_clock, end_process, start_server

FOLDER = ROOT / ".dynamodb-local"
_SERVER = Path(__file__).parent / "dynamodb-local.xml"
# Jetty logs this line when it listens. The operating system chose the port, so no other process can use it.
_LISTENING = re.compile(r"Started ServerConnector\S*\{.*\}\{[^{}:]*:(\d+)\}")


class DynamoDBLocal(LocalServer):
    """A DynamoDB Local in memory on a free port of the loopback interface.

    With ``long`` it runs faster, but starts slower. Its log is in ``folder``; ``stop`` removes this folder.
    """

    def __init__(self, *, long: bool = False, folder: Path | None = None) -> None:
        self._long = long
        self._folder = folder or Path(tempfile.mkdtemp(prefix="tidetable-dynamodb-local-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process group of DynamoDB Local while it runs, otherwise None."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start DynamoDB Local and wait until it listens; RuntimeError names the missing program or file."""
        java = shutil.which("java")
        if java is None:
            raise RuntimeError("DynamoDB Local needs Java 17 or newer: apt-get install openjdk-17-jre-headless")
        if not (FOLDER / "DynamoDBLocal.jar").is_file():
            raise RuntimeError(f"{FOLDER / 'DynamoDBLocal.jar'} is missing: run `make dynamodb`, which fetches it")
        self._folder.mkdir(exist_ok=True)
        log = self._folder / "log"
        # With libfaketime, Java would wait for each of its timers in a busy loop. No test looks at the engine's own
        # time.
        environment = drop_clock(clean_environment())
        self._process = start_server(
            "DynamoDB Local",
            [
                java,
                *([] if self._long else ["-XX:TieredStopAtLevel=1"]),
                "-Djava.library.path=DynamoDBLocal_lib",
                "-Dorg.eclipse.jetty.LEVEL=INFO",
                "-cp",
                "DynamoDBLocal.jar:DynamoDBLocal_lib/*",
                "org.eclipse.jetty.xml.XmlConfiguration",
                str(_SERVER),
            ],
            log,
            lambda text: _LISTENING.search(text) is not None,
            folder=FOLDER,
            environment=environment | {"DDB_LOCAL_TELEMETRY": "0"},
        )
        match = _LISTENING.search(log.read_text(errors="replace"))
        self.port = int(match[1]) if match is not None else 0

    def stop(self) -> None:
        """End DynamoDB Local and remove its folder."""
        if self._process is not None:
            end_process(self._process)
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)
