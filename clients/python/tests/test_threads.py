"""The client with threads, and the end of a process. Servers are real sockets where the network is the subject."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from doubles import ManualClock, Server, answer, event
from tidetable_client import Client, Policy, WriteFailed

SOURCE = Path(__file__).parents[1] / "src"
QUICK = Policy(batch_events=20, backoff=0.001, linger=0.001)


def test_many_threads_write_through_faults_and_nothing_is_lost_or_doubled(server: Server, clock: ManualClock) -> None:
    server.faults = [server.dies_after, server.dies_before, answer(503), server.answers_half, answer(429)] * 10
    policy = Policy(batch_events=20, in_flight=3, buffer_bytes=20_000, block_for=None, retry_for=1e6)
    with Client("http://t.test", "k", policy=policy, transport=server.transport, clock=clock) as client:

        def write(part: int) -> None:
            for number in range(part * 500, part * 500 + 500):
                client.write("quakes", event(number))

        threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert server.values() == list(range(2000))


def test_events_go_by_themselves_when_they_have_waited(server: Server) -> None:
    arrived = threading.Event()
    store = server.store

    def serve(request: httpx.Request) -> httpx.Response:
        answer = store(request)
        arrived.set()
        return answer

    server.store = serve  # type: ignore[method-assign]
    client = Client("http://t.test", "k", policy=QUICK, transport=server.transport)
    client.write("quakes", event(1))
    assert arrived.wait(30)
    assert server.values() == [1]
    client.close()


def test_refusals_from_a_thread_are_raised_by_flush(server: Server, clock: ManualClock) -> None:
    client = Client("http://t.test", "k", transport=server.transport, clock=clock)
    client.write("quakes", [event(0), event(1, "bad")])
    with pytest.raises(WriteFailed) as failed:
        client.flush()
    assert [failure.index for failure in failed.value.failures] == [1]
    client.close()


class Socket(BaseHTTPRequestHandler):
    """A server whose process is killed at chosen moments: it closes the connection without an end."""

    server: Api
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by which connection the request came."""
        body = json.dumps({"streams": [{"port": self.client_address[1]}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        api = self.server
        headers = {"content-type": self.headers["Content-Type"]}
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = httpx.Request("POST", f"http://t.test{self.path}", content=body, headers=headers)
        with api.lock:
            api.posts += 1
            fate = api.fates.pop(0) if api.fates else "serve"
            answer = api.double.store(request) if fate != "kill before" else None
        if answer is None or fate == "kill after":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if fate == "half":
            self.wfile.write(answer.content[:40])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the tests report errors."""


class Api(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Socket)
        self.lock = threading.Lock()
        self.double = Server()
        self.fates: list[str] = []
        self.posts = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def test_killed_connections_and_half_written_answers_over_a_real_socket(api: Api) -> None:
    api.fates = ["kill after", "half", "kill before", "serve"] * 6
    with Client(api.url, "k", policy=QUICK) as client:
        client.write("quakes", [event(number) for number in range(200)])
    assert api.double.values() == list(range(200))
    assert api.fates == []


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603


FORGETFUL = """
import sys
from tidetable_client import Client, Policy
client = Client(sys.argv[1], "k", policy=Policy(linger=3600, exit_timeout=float(sys.argv[2]), backoff=0.01))
client.write("quakes", [{"series": sys.argv[3], "data": {"n": n}} for n in range(700)])
"""


def test_a_process_that_forgets_to_close_still_sends_everything(api: Api) -> None:
    done = run(FORGETFUL, api.url, "30", "s")
    assert (done.returncode, done.stderr) == (0, "")
    assert api.double.values() == list(range(700))


def test_a_process_that_forgets_to_close_says_which_events_were_refused(api: Api) -> None:
    done = run(FORGETFUL, api.url, "30", "bad")
    assert "the process ends, and 700 events are not stored (quakes: invalid 700)" in done.stderr


def test_a_process_that_ends_without_a_server_says_how_many_events_are_lost() -> None:
    done = run(FORGETFUL, "http://127.0.0.1:9", "0.05", "s")
    assert "the process ends, and 700 events are not stored (quakes: unsent 700)" in done.stderr


ASYNC = """
import asyncio, sys
from tidetable_client import AsyncClient, Policy
async def main():
    client = AsyncClient(sys.argv[1], "k", policy=Policy(linger=3600))
    await client.write("quakes", [{"series": "s", "data": {"n": n}} for n in range(700)])
asyncio.run(main())
"""


def test_a_loop_that_ends_without_closing_the_client_still_sends_everything(api: Api) -> None:
    done = run(ASYNC, api.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert api.double.values() == list(range(700))


FORK = """
import os, sys
from tidetable_client import Client, Policy
client = Client(sys.argv[1], "k", policy=Policy(linger=3600))
client.write("quakes", {"series": "s", "data": {"n": 0}})
child = os.fork()
client.write("quakes", {"series": "s", "data": {"n": 1 if child else 2}})
client.close()
if child:
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_sends_its_own_events_and_not_those_of_its_parent(api: Api) -> None:
    done = run(FORK, api.url)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
    assert api.double.values() == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_leaves_the_events_of_a_loop_to_its_parent(api: Api) -> None:
    done = run(ASYNC + "import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n", api.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert api.double.values() == list(range(700))
    assert api.posts == 2  # 700 events are two batches


FORK_AT_ONE_TIME = """
import os, sys
from tidetable_client import Client
client = Client(sys.argv[1], "k", unique_ids=True)
client.write("quakes", {"series": "s", "time": 1773576000000, "data": {"n": 0}})
client.flush()  # no thread may hold a lock while the process is copied
child = os.fork()
client.write("quakes", {"series": "s", "time": 1773576000000, "data": {"n": 1 if child else 2}})
client.close()
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_stamps_other_ids_than_its_parent(api: Api) -> None:
    done = run(FORK_AT_ONE_TIME, api.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert api.double.values() == [0, 1, 2]


FORK_AND_READ = """
import os, sys
from tidetable_client import Client
client = Client(sys.argv[1], "k")
before = client.streams()
child = os.fork()
if child:
    os.waitpid(child, 0)
print("parent" if child else "child", "as before" if client.streams() == before else "another", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_reads_over_its_own_connection(api: Api) -> None:
    """Over one connection of both, each could take the answer to the other's question."""
    done = run(FORK_AND_READ, api.url)
    assert (done.stdout.splitlines(), done.stderr) == (["child another", "parent as before"], "")


def test_no_thread_of_a_child_reads_over_the_connection_of_its_parent(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may ask while the first one opens the connections of the child."""
    client = Client(api.url, "k")
    ports = [client.streams()]
    open_connections = httpx.Client

    def ask_meanwhile(**options: Any) -> httpx.Client:
        monkeypatch.setattr(httpx, "Client", open_connections)
        ports.append(client.streams())
        return open_connections(**options)

    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(httpx, "Client", ask_meanwhile)
    ports.append(client.streams())
    assert len(ports) == 3
    assert ports[0] not in ports[1:]
    client.close()


def test_an_error_ends_a_program_with_a_note_and_the_events_are_sent(api: Api) -> None:
    program = FORGETFUL.replace("client.write", "with client:\n    client.write") + "    raise RuntimeError('oops')\n"
    done = run(program, api.url, "30", "s")
    assert "RuntimeError: oops" in done.stderr
    assert len(api.double.events) == 700


def test_the_memory_of_a_client_under_a_dead_server_is_bounded() -> None:
    """Measured: 300,000 events of 100 bytes are written into a buffer of 4 MB, and the rest is refused to the writer."""
    program = """
import tracemalloc, sys
from tidetable_client import BufferFull, Client, Policy, WriteFailed
client = Client("http://127.0.0.1:9", "k", policy=Policy(buffer_bytes=4_000_000, when_full="raise", exit_timeout=0.01))
client.write("warm", {"series": "s"})
tracemalloc.start()
full = 0
for n in range(60_000):
    try:
        client.write("quakes", {"series": "s", "data": {"n": n, "text": "x" * 60}})
    except BufferFull:
        full += 1
print(full, tracemalloc.get_traced_memory()[1])
"""
    done = run(program)
    full, peak = map(int, done.stdout.split())
    assert full > 40_000
    # The buffer, and the body of the request that is tried.
    assert peak < 8_000_000
    assert "events are not stored" in done.stderr


def test_the_json_of_a_loss_names_what_is_lost(api: Api) -> None:
    """The failure has everything that is needed to store the event elsewhere."""
    client = Client(api.url, "k", policy=QUICK)
    client.write("quakes", event(7, "bad", id="x", time="2026-03-15T12:00:00Z"))
    with pytest.raises(WriteFailed) as failed:
        client.close()
    (failure,) = failed.value.failures
    assert json.loads(failure.line) == event(7, "bad", id="x", time="2026-03-15T12:00:00Z")
