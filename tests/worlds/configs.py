"""Configurations that tests change."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
# The example configuration, as shipped.
CONFIG = ROOT / "tidetable.toml"

GOOD = """
[streams.s]
period = "day"
late = "1d"
retention = 3
[streams.s.key]
partition_by = "time"
bucket = "6h"
shards = 4
"""


PROVISIONED = GOOD + '[streams.s.capacity]\nmode = "provisioned"\nladder = [{ages}]\n'


def index(more: str) -> str:
    """The TOML of an index with these settings."""
    return f'\n[[streams.s.index]]\nname = "own"\n{more}\n'


def month(retention: int) -> str:
    return GOOD.replace('"day"', '"month"').replace("= 3", f"= {retention}")


def ladder(*steps: str) -> str:
    return (
        PROVISIONED.format(ages="")
        if not steps
        else PROVISIONED.replace("{ages}", ", ".join(f"{{{step}}}" for step in steps))
    )


TOPIC = "arn:aws:sns:us-east-1:123456789012:ops"


def notify(*targets: str) -> str:
    """A configuration whose alarms notify these targets."""
    return f"[observability]\nnotify = {list(targets)}\n" + GOOD


def uncomment(section: str) -> tuple[tuple[str, str], ...]:
    """The changes that activate a section which is a comment in the example, such as ``[[streams.quakes.rollup]]``."""
    text = CONFIG.read_text(encoding="utf-8")
    lines = text[text.index(f"# {section}") :].partition("\n\n")[0].splitlines()
    # In the file, a comment follows the section's name in its first line.
    first = (f"# {section}", section)
    return (first, *((line, line.removeprefix("# ")) for line in lines[1:]))
