"""The functions' environment, read on first use and only here."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import field

from tidetable.config import Config, load

if TYPE_CHECKING:
    from tidetable.copies.reader import Copies

# The configuration travels inside the asset, beside this module.
CONFIG_FILE = Path(__file__).parent / "tidetable.toml"


class Settings(msgspec.Struct, frozen=True):
    """The environment of the functions; a value that a function does not need is empty."""

    stage: str = field(name="TIDETABLE_STAGE")
    catalog_table: str = field(name="TIDETABLE_CATALOG_TABLE", default="")
    rollups_table: str = field(name="TIDETABLE_ROLLUPS_TABLE", default="")
    overflow_queue_url: str = field(name="TIDETABLE_OVERFLOW_QUEUE_URL", default="")
    dead_letter_queue_url: str = field(name="TIDETABLE_DEAD_LETTER_QUEUE_URL", default="")
    archive_bucket: str = field(name="TIDETABLE_ARCHIVE_BUCKET", default="")
    archiver_function: str = field(name="TIDETABLE_ARCHIVER_FUNCTION", default="")
    archive_reader_function: str = field(name="TIDETABLE_ARCHIVE_READER_FUNCTION", default="")
    lifecycle_function: str = field(name="TIDETABLE_LIFECYCLE_FUNCTION", default="")
    alarm_prefix: str = field(name="TIDETABLE_ALARM_PREFIX", default="")
    feed_function: str = field(name="TIDETABLE_FEED_FUNCTION", default="")
    feed_dead_letter_queue_url: str = field(name="TIDETABLE_FEED_DEAD_LETTER_QUEUE_URL", default="")
    work_queue_url: str = field(name="TIDETABLE_WORK_QUEUE_URL", default="")
    lake_queue_url: str = field(name="TIDETABLE_LAKE_QUEUE_URL", default="")
    allow_time_travel: bool = field(name="TIDETABLE_ALLOW_TIME_TRAVEL", default=False)
    metrics_namespace: str = field(name="POWERTOOLS_METRICS_NAMESPACE", default="")
    # Lambda sets it.
    region: str = field(name="AWS_REGION", default="")

    @classmethod
    def from_environment(cls) -> Settings:
        """Read the variables that infra/ sets; ValidationError without TIDETABLE_STAGE: every name contains the stage."""
        variables: dict[str, Any] = {
            name: os.environ[name] for name in cls.__struct_encode_fields__ if name in os.environ
        }
        switch = "TIDETABLE_ALLOW_TIME_TRAVEL"
        variables[switch] = os.environ.get(switch) == "on"
        return msgspec.convert(variables, cls)


@cache
def read_settings() -> Settings:
    """Return the settings of this process."""
    return Settings.from_environment()


@cache
def find_copies() -> Copies | None:
    """Return the copies that this process reads if it is a reader in another Region; None in the Region of the stage."""
    origin = os.environ.get("TIDETABLE_ORIGIN", "")
    if not origin:
        return None
    from tidetable.copies.reader import Copies

    return Copies(os.environ.get("AWS_REGION", ""), origin)


@cache
def read_config() -> Config:
    """Return the configuration of this deployment, which was validated when the stack was synthesised."""
    return load(CONFIG_FILE, checked=True)
