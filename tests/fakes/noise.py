"""Text that is nearly as long compressed as it is."""


def noise(length: int, seed: int = 0) -> str:
    """Text that does not compress to less than half."""
    state, letters = seed * 7919 + 1, []
    for _ in range(length // 6):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        letters.append(f"{state >> 40:06x}")
    return "".join(letters)
