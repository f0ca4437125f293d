"""Findings of cdk-nag's AwsSolutions rules that stand on purpose, each with its reason."""

from __future__ import annotations

from aws_cdk import Stack, Validations

_REASONS: dict[str, str] = {}


def acknowledge(stack: Stack) -> None:
    """Record the reasons on the stack."""
    for id, reason in _REASONS.items():
        Validations.of(stack).acknowledge(id=id, reason=reason)
