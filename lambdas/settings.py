"""The functions' environment, read on first use and only here."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidetable.config import Config, load

if TYPE_CHECKING:
    from tidetable.copies import Copies

# The configuration travels inside the asset, beside this module.
CONFIG_FILE = Path(__file__).parent / "tidetable.toml"


class Settings(msgspec.Struct, frozen=True):
    """The environment of the functions; a value that a function does not need is empty."""

    stage: str
    catalog_table: str
    rollups_table: str
    overflow_queue_url: str
    dead_letter_queue_url: str
    archive_bucket: str
    archiver_function: str
    archive_reader_function: str
    lifecycle_function: str
    alarm_prefix: str
    feed_function: str
    feed_dead_letter_queue_url: str
    tracing: bool
    allow_time_travel: bool
    metrics_namespace: str
    region: str

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the variables that infra/ sets; KeyError without TIDETABLE_STAGE: every name contains the stage."""
        env = os.environ
        return cls(
            stage=env["TIDETABLE_STAGE"],
            catalog_table=env.get("TIDETABLE_CATALOG_TABLE", ""),
            rollups_table=env.get("TIDETABLE_ROLLUPS_TABLE", ""),
            overflow_queue_url=env.get("TIDETABLE_OVERFLOW_QUEUE_URL", ""),
            dead_letter_queue_url=env.get("TIDETABLE_DEAD_LETTER_QUEUE_URL", ""),
            archive_bucket=env.get("TIDETABLE_ARCHIVE_BUCKET", ""),
            archiver_function=env.get("TIDETABLE_ARCHIVER_FUNCTION", ""),
            archive_reader_function=env.get("TIDETABLE_ARCHIVE_READER_FUNCTION", ""),
            lifecycle_function=env.get("TIDETABLE_LIFECYCLE_FUNCTION", ""),
            alarm_prefix=env.get("TIDETABLE_ALARM_PREFIX", ""),
            feed_function=env.get("TIDETABLE_FEED_FUNCTION", ""),
            feed_dead_letter_queue_url=env.get("TIDETABLE_FEED_DEAD_LETTER_QUEUE_URL", ""),
            tracing=env.get("TIDETABLE_TRACING") == "on",
            allow_time_travel=env.get("TIDETABLE_ALLOW_TIME_TRAVEL") == "on",
            metrics_namespace=env.get("POWERTOOLS_METRICS_NAMESPACE", ""),
            # Lambda sets it.
            region=env.get("AWS_REGION", ""),
        )


@cache
def settings() -> Settings:
    """Return the settings of this process."""
    return Settings.from_environment()


@cache
def copies() -> Copies | None:
    """Return the copies that this process reads if it is a reader in another Region; None in the Region of the stage."""
    origin = os.environ.get("TIDETABLE_ORIGIN", "")
    if not origin:
        return None
    from tidetable.copies import Copies

    return Copies(os.environ.get("AWS_REGION", ""), origin)


@cache
def config() -> Config:
    """Return the configuration of this deployment, which was validated when the stack was synthesised."""
    return load(CONFIG_FILE, checked=True)
