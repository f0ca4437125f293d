"""Text that hardly compresses."""

import random


def noise(length: int, seed: int = 0) -> str:
    """Random text that keeps at least half of its length when it is compressed."""
    return random.Random(seed).randbytes(length // 2).hex()
