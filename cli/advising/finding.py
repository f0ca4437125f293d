"""A finding: a change, the reason for it, and its saving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice.

    ``toml`` has the lines of tidetable.toml that replace the present lines of the same keys. ``saving`` is in dollars
    per month: negative if the change costs money, None if it does not change the bill.
    """

    rule: str
    text: str
    evidence: tuple[str, ...]
    saving: float | None
    toml: str
    confidence: Confidence

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON; dollars are rounded to cents."""
        return {
            "rule": self.rule,
            "advice": self.text,
            "evidence": list(self.evidence),
            "dollars_saved_per_month": None if self.saving is None else round(self.saving, 2),
            "toml": self.toml,
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """The findings about a stream in their order, and the measurements that are missing for other findings."""

    stream: str
    days: float
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the advice as JSON."""
        return {
            "stream": self.stream,
            "days": round(self.days, 1),
            "findings": [finding.document() for finding in self.findings],
            "missing": list(self.missing),
        }
