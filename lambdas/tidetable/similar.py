"""The word that somebody meant, after a typing mistake."""

from __future__ import annotations

from collections.abc import Collection


def find_similar(word: str, known: Collection[str]) -> str | None:
    """Return the known word that the user probably meant; None if no word is similar."""
    # Imported only after a typing mistake: functions load the configuration at every start.
    from difflib import get_close_matches

    matches = get_close_matches(word, known, n=1, cutoff=0.7)
    return matches[0] if matches else None
