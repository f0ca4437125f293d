"""A server that answers every DynamoDB request at once. It has its own process: its CPU time counts for no side."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

ANSWERS = {
    b"batchwriteitem": b'{"UnprocessedItems":{},"ConsumedCapacity":[]}',
    b"putitem": b"{}",
}


def _serve(connection: socket.socket, answers: dict[bytes, bytes]) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffered = b""
        while True:
            while (end := buffered.find(b"\r\n\r\n")) < 0:
                chunk = connection.recv(1 << 20)
                if not chunk:
                    return
                buffered += chunk
            head = buffered[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            while len(buffered) < end + 4 + length:
                buffered += connection.recv(1 << 20)
            request = head + buffered[end : end + 4 + length]
            operation = next((name for name in answers if name in request), b"")
            buffered = buffered[end + 4 + length :]
            body = answers.get(operation, b"{}")
            lines = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n" % len(
                body
            )
            connection.sendall(lines + body)


def _run(answers: dict[bytes, bytes], channel: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    channel.send(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, answers), daemon=True).start()


@contextmanager
def run_stub(answers: dict[bytes, bytes] | None = None) -> Iterator[str]:
    """Run a stub while the block lasts; yield its address.

    The names of ``answers`` are operations in lower case, or texts in a body. The stub gives the answer whose name is
    in the request.
    """
    spawn = get_context("spawn")
    own_end, child_end = spawn.Pipe()
    process = spawn.Process(target=_run, args=((answers or {}) | ANSWERS, child_end), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{own_end.recv()}"
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    with run_stub() as endpoint:
        print(endpoint)
        sys.stdin.read()
