"""The end of a process, and forks. Servers are real sockets."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest

from sockets import Api, run
from tidetable_client import Client

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


# Python 3.12 warns of each fork beside threads.
FORK_AT_ONE_TIME = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
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
