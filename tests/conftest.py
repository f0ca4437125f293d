"""Which tests share a process: those of a folder, as they share what is expensive to start. The longest begin first."""

import os
from pathlib import Path

import pytest

SEED = int(os.environ.get("TIDETABLE_SEED", "1"))
DAYS = int(os.environ.get("TIDETABLE_DAYS", "60"))
LONGEST = ("e2e", "timelapse", "infra", "strict", "contract")


def pytest_report_header() -> str:
    return f"time-lapse: {DAYS} days, seed {SEED} (TIDETABLE_DAYS, TIDETABLE_SEED)"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes never name a test: what was made at import may differ between two workers, which must collect the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = {item: _folder(item) for item in items}
    for item, folder in folders.items():
        item.add_marker(pytest.mark.xdist_group(folder))
    order = {folder: place for place, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(folders[item], len(LONGEST)))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]
