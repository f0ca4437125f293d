"""``make fixtures``: write the fixtures of every stored format anew."""

from pathlib import Path
from shutil import rmtree

from tests.worlds.formats_story import make_files

FIXTURES = Path(__file__).parent / "fixtures"


def main(folder: Path = FIXTURES) -> None:
    """Write the fixtures into a folder, in place of what it has."""
    files = make_files()
    if folder.exists():
        rmtree(folder)
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    print(f"{folder}: {len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main()
