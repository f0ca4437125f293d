"""``python -m cli``."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lambdas", "clients/python/src")]

from cli.app import app

if __name__ == "__main__":
    app(prog_name="tidetable")
