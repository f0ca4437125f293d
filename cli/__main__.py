"""``python -m cli``."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("lambdas", "clients/python/src")]

from cli.start import load_app

if __name__ == "__main__":
    load_app(sys.argv[1:])(prog_name="tidetable")
