"""Send the events of an outbox: with threads, or within the calls of the caller."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidetable_client import leaving
from tidetable_client.answers import Verdict
from tidetable_client.clocks import Clock
from tidetable_client.connection import judge_error
from tidetable_client.errors import Failure, NotFlushed, WriteFailed
from tidetable_client.outbox import Batch, Outbox, Settled
from tidetable_client.policy import Policy, refuse_full
from tidetable_client.stamps import Stamper

OnRefused = Callable[[Failure], None]
OnSettled = Callable[[Settled], None]
# A function that sends one request and judges its answer. It raises the errors of the HTTP client.
Send = Callable[[Batch], Verdict]


class Writer:
    """Takes events from any thread, and sends them.

    With ``background``, threads send while the caller goes on. Without it, requests are sent within ``write`` and
    ``flush``: this is for AWS Lambda, which stops threads between two calls of a function.
    """

    def __init__(
        self,
        policy: Policy,
        stamper: Stamper,
        send: Send,
        *,
        clock: Clock,
        random: Callable[[], float],
        background: bool = True,
        on_refused: OnRefused | None = None,
        on_settled: OnSettled | None = None,
    ) -> None:
        self._policy, self._stamper, self._send, self._clock = policy, stamper, send, clock
        self._random, self._background = random, background
        self._on_refused, self._on_settled = on_refused, on_settled
        self._reset_state()
        _all.add(self)

    def _reset_state(self) -> None:
        self._outbox = Outbox(self._policy, self._random)
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._reporting = 0
        self._closed = False

    # Writing

    def write(self, stream: str, events: Iterable[Any]) -> int:
        """Take events; return the number of events. See ``Client.write``."""
        count = 0
        for event in events:
            line = self._stamper.encode(event, self._clock.read_date())
            self._put_line(stream, line, count)
            count += 1
        return count

    def _put_line(self, stream: str, line: bytes, taken: int) -> None:
        with self._changed:
            if self._closed:
                raise ValueError("the client is closed")
            self._make_room(line, taken)
            # A waiting thread is notified only if a batch began or is full, not for each event.
            if self._outbox.add(stream, line, self._clock.read()):
                leaving.remember(self)
                if self._background and len(self._threads) < self._policy.in_flight:
                    self._start_thread()
                self._changed.notify_all()
        if not self._background:
            self._send_due()

    def _make_room(self, line: bytes, taken: int) -> None:
        """Wait until the event fits. WriteFailed if the buffer is full only of failures that nobody has collected."""
        began = self._clock.read()
        while not self._outbox.has_room(line):
            if self._outbox.failures and self._outbox.is_idle:
                raise WriteFailed(self._outbox.collect_failures(), taken)
            left = None
            if self._policy.block_for is not None:
                left = began + self._policy.block_for - self._clock.read()
            if self._policy.when_full == "raise" or (left is not None and left <= 0):
                raise refuse_full(self._policy, taken)
            self._outbox.close_batches(self._clock.read())
            if self._background:
                self._changed.notify_all()
                self._clock.wait(self._changed, left)
            else:
                self._changed.release()
                try:
                    self._advance_flush(left)
                finally:
                    self._changed.acquire()

    def flush(self, timeout: float | None = None) -> None:
        """Send all events and wait until they are settled. See ``Client.flush``."""
        began = self._clock.read()
        with self._changed:
            self._outbox.close_batches(began)
            self._changed.notify_all()
        while not self._is_done():
            left = None if timeout is None else began + timeout - self._clock.read()
            if left is not None and left <= 0:
                raise NotFlushed(self._outbox.pending)
            self._advance_flush(left)
        with self._changed:
            failures = self._outbox.collect_failures()
        if failures:
            raise WriteFailed(failures)

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end the threads.

        Events that are not acknowledged within ``timeout`` seconds fail as ``unsent``.
        """
        try:
            self.flush(timeout)
        except NotFlushed:
            reason = f"the client was closed, and the API did not take it within {timeout:g} s; it may be stored"
            self._abandon_events(reason)
            with self._changed:
                failures = self._outbox.collect_failures()  # empty if on_refused took them
            if failures:
                raise WriteFailed(failures) from None
        except BaseException as error:
            if not isinstance(error, WriteFailed):  # for example Ctrl-C
                self._abandon_events(f"the client was closed by {type(error).__name__}; it may be stored")
                with self._changed:
                    leaving.report_loss(self._outbox.collect_failures())
            raise
        finally:
            self._mark_closed()

    def leave(self) -> Sequence[Failure]:
        """Close at the end of the process; return the events that are lost."""
        try:
            self.close(self._policy.exit_timeout)
        except WriteFailed as error:
            return error.failures
        return []

    @property
    def pending(self) -> int:
        """Events that are not settled."""
        with self._changed:
            return self._outbox.pending

    # Sending

    def _is_done(self) -> bool:
        with self._changed:
            return self._outbox.is_idle and self._reporting == 0

    def _advance_flush(self, longest: float | None) -> None:
        """Do one step of a flush: wait for the threads or, without threads, send one request or wait for its time."""
        with self._changed:
            if self._background and (self._threads or self._outbox.is_idle):
                if not (self._outbox.is_idle and self._reporting == 0):
                    self._clock.wait(self._changed, longest)
                return
            now = self._clock.read()
            batch, wait = self._outbox.take(now), self._outbox.find_wait(now)
            if batch is None and wait is None and not (self._outbox.is_idle and self._reporting == 0):
                # Another thread sends the other events within its own call.
                self._clock.wait(self._changed, longest)
                return
        if batch is not None:
            self._deliver_batch(batch)
        elif wait is not None:
            self._clock.sleep(wait if longest is None else min(wait, longest))

    def _send_due(self) -> None:
        while True:
            with self._changed:
                batch = self._outbox.take(self._clock.read())
            if batch is None:
                return
            self._deliver_batch(batch)

    def _start_thread(self) -> None:
        number = len(self._threads) + 1
        thread = threading.Thread(target=self._send_batches, name=f"tidetable-writer-{number}", daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending: `leave` sends the events itself
            self._threads.remove(thread)

    def _send_batches(self) -> None:
        """Send requests until the client is closed: a thread runs this."""
        while True:
            with self._changed:
                while (batch := self._outbox.take(self._clock.read())) is None:
                    if self._closed and self._outbox.is_idle:
                        leaving.forget(self)
                        return
                    self._clock.wait(self._changed, self._outbox.find_wait(self._clock.read()))
            self._deliver_batch(batch)

    def _deliver_batch(self, batch: Batch) -> None:
        """Send a request, and report the events that its answer settled. Raise only errors that end the process."""
        try:
            verdict = self._send(batch)
        except Exception as error:
            verdict = judge_error(error)
        except BaseException:
            with self._changed:
                self._outbox.release_flying()
            raise
        with self._changed:
            settled = self._outbox.settle(batch, verdict, self._clock.read())
            self._reporting += 1
            self._changed.notify_all()
        try:
            self._report_settled(settled)
        finally:
            with self._changed:
                self._reporting -= 1
                self._changed.notify_all()

    def _report_settled(self, settled: Iterable[Settled]) -> None:
        """Call the user's functions, without the lock. ``flush`` raises the failures that they did not take."""
        for event in settled:
            kept = list(event.failures)
            try:
                if self._on_settled is not None:
                    self._on_settled(event)
                while self._on_refused is not None and kept:
                    self._on_refused(kept[0])
                    kept.pop(0)
            except Exception:
                leaving.logger.exception("a callback failed; flush will raise the failures that it did not take")
            with self._changed:
                self._outbox.keep(kept)

    def _abandon_events(self, reason: str) -> None:
        with self._changed:
            settled = self._outbox.abandon(reason)
            self._changed.notify_all()
        self._report_settled(settled)

    def _mark_closed(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        leaving.forget(self)


_all: weakref.WeakSet[Writer] = weakref.WeakSet()


def _begin_again() -> None:
    """Empty all writers of a child process: it has no threads, and its parent sends the parent's events."""
    for writer in list(_all):
        leaving.forget(writer)
        writer._reset_state()  # noqa: SLF001 - part of the class, but called once for all of its objects


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
