"""The configuration of a stage, with the text that its functions get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidetable.config import Config as Parsed
from tidetable.config import load
from tidetable.config import parse as parse_text
from tidetable.errors import ConfigError

from .errors import UsageError


@dataclass(frozen=True)
class Config:
    """A checked configuration: ``parsed`` for the synth, and ``content``, the TOML that the functions read."""

    parsed: Parsed
    content: bytes

    @classmethod
    def file(cls, path: str | Path) -> Config:
        """Read and check a file such as ``tidetable.toml``; UsageError lists every problem, each with its key and fix.

        A relative path starts at the working directory, which for an app is the folder of its ``cdk.json``.
        """
        file = Path(path)
        try:
            return cls(load(file), file.read_bytes())
        except ConfigError as error:
            raise UsageError(f"{file.name}: {error}") from None

    @classmethod
    def text(cls, toml: str) -> Config:
        """Check a configuration that is a text; UsageError lists every problem, each with its key and fix."""
        try:
            return cls(parse_text(toml), toml.encode())
        except ConfigError as error:
            raise UsageError(str(error)) from None
