"""A process whose clock is moved, as the emulator's functions and the command line beside it are."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from local import Emulator
from local.emulator import can_move_clock

# What a hundred threads take of the processor to begin and to end, in seconds.
_THREADS = """
import threading, time
for _ in range(100):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
print(time.process_time())
"""


@pytest.mark.skipif(not can_move_clock(), reason="the clock cannot be moved here")
def test_threads_wait_for_one_another_without_using_the_processor() -> None:
    emulator = Emulator(clock=True)
    try:
        emulator.move_clock(timedelta(days=31))
        environment = os.environ | emulator.time_environment
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _THREADS], env=environment, capture_output=True, text=True, check=True
        )
    finally:
        emulator.stop()
    # Processor time does not grow with the load. With busy loops it is 4 s, without them 0.03 s.
    assert float(done.stdout) < 1
