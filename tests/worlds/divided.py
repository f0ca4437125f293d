"""Buckets that are divided although they have few events."""

import pytest


def divide_short(patch: pytest.MonkeyPatch, part: int = 1, whole: int = 1) -> None:
    """Let a part have about ``part`` events, and let a bucket with more than ``whole`` events be divided."""
    patch.setattr("tidetable.rollups.bucket_parts.PART_EVENTS", part)
    patch.setattr("tidetable.rollups.seal.MOST_WHOLE", whole)
