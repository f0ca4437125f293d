"""Text that hardly compresses."""


def noise(length: int, seed: int = 0) -> str:
    """Random text that keeps at least half of its length when it is compressed."""
    state, letters = seed * 7919 + 1, []
    for _ in range(length // 6):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        letters.append(f"{state >> 40:06x}")
    return "".join(letters)
