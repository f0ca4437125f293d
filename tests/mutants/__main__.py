"""Sample mutations, run the tests that should notice them, and list the survivors.

    make mutate SEED=7                              300 mutations of lambdas/
    make mutate SEED=7 COUNT=50 PATHS=lambdas/tidetable/query

Each mutation runs in the room of its module (tests/mutants/rooms.py). A survivor also runs in the other quick folders
with ELSEWHERE=1. Exit code 1: fewer than 93 % of the mutations that are not known as equivalent died in their room.
"""

import argparse
import random
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from tests.mutants.mutations import Mutation, find_mutations, is_python
from tests.mutants.rooms import ROOMS, find_room
from tests.mutants.runner import ROOT, Outcome, import_libraries, measure_tests, run_tests

BAR = 0.93
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutation: ``died``, ``stopped``, ``survived`` or ``equivalent``; by which test or why."""

    mutation: Mutation
    fate: str
    reason: str = ""


def sample_mutations(paths: Iterable[str], seed: int, count: int) -> list[Mutation]:
    """The same mutations for the same seed and sources: a kind after the other, so that rare kinds are seen, too."""
    lottery = random.Random(seed)
    by_kind: dict[str, list[Mutation]] = defaultdict(list)
    for file in list_files(paths):
        for mutation in find_mutations(ROOT / file, file):
            by_kind[mutation.kind].append(mutation)
    for mutations in by_kind.values():
        lottery.shuffle(mutations)
    chosen: list[Mutation] = []
    while len(chosen) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(chosen) < count:
                mutation = by_kind[kind].pop()
                if is_python(mutation.apply_to((ROOT / mutation.path).read_bytes())):
                    chosen.append(mutation)
    return chosen


def list_files(paths: Iterable[str]) -> Iterator[str]:
    """The Python files of folders and files, each as a path from the project's root."""
    for path in paths:
        place = ROOT / path
        if not place.exists():
            raise SystemExit(f"PATHS: {path} does not exist")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        yield from (file.relative_to(ROOT).as_posix() for file in files)


def read_equivalent() -> dict[tuple[str, str, str], str]:
    """The reason of each known mutation that changes no result, by path, line of the source and "before -> after"."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("mutation", [])
    return {(entry["path"], entry["line"], entry["change"]): entry["reason"] for entry in entries}


class Mutator:
    """Runs mutations, and the unchanged tests of each folder when its first mutation comes to it."""

    def __init__(self, elsewhere: bool) -> None:
        self.elsewhere = elsewhere
        self.usual: dict[str, Outcome] = {}
        self.lock = Lock()
        self.equivalent = read_equivalent()

    def judge(self, mutation: Mutation) -> Verdict:
        """Run a mutation in its room, then, if it lives and this is wanted, in the other folders."""
        if reason := self.equivalent.get(mutation.describe()):
            return Verdict(mutation, "equivalent", reason)
        room = find_room(mutation.path)
        for folder in room:
            outcome = run_tests(folder, mutation, self.measure_folder(folder))
            if outcome.result != "passed":
                return Verdict(mutation, "died" if outcome.result == "failed" else "stopped", outcome.test or folder)
        if self.elsewhere:
            for folder in sorted({name for names in ROOMS.values() for name in names} - {*room}):
                if run_tests(folder, mutation, self.measure_folder(folder)).result != "passed":
                    return Verdict(mutation, "survived", f"noticed by tests/{folder} only")
        return Verdict(mutation, "survived")

    def measure_folder(self, folder: str) -> Outcome:
        """Run the unchanged tests of a folder, once. Ends the program if one fails: every mutation would "die"."""
        with self.lock:
            if folder not in self.usual:
                outcome = measure_tests(folder)
                if outcome.result != "passed":
                    raise SystemExit(f"tests/{folder} fails without a mutation: {outcome.test or outcome.result}")
                self.usual[folder] = outcome
                print(f"tests/{folder}: {outcome.seconds:.0f} s of CPU", flush=True)
            return self.usual[folder]


def main() -> int:
    arguments = _read_arguments()
    mutations = sample_mutations(arguments.paths, arguments.seed, arguments.count)
    import_libraries()
    mutator = Mutator(arguments.elsewhere)
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for verdict in pool.map(mutator.judge, mutations):
            verdicts.append(verdict)
            print(f"{len(verdicts):4} {verdict.fate:10} {verdict.mutation.show()}  [{verdict.reason}]", flush=True)
    return _report(verdicts, arguments.seed)


def _report(verdicts: list[Verdict], seed: int) -> int:
    by_fate: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_fate[verdict.fate].append(verdict)
    living = by_fate["survived"]
    judged = len(verdicts) - len(by_fate["equivalent"])
    noticed = judged - len(living)
    print(f"\nseed {seed}: {len(verdicts)} mutations, {len(by_fate['equivalent'])} known as equivalent")
    print(f"{noticed} of {judged} died in their room, {noticed / max(judged, 1):.1%}", end="")
    print(f"; of them {len(by_fate['stopped'])} were stopped by a limit of time")
    rooms: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.fate != "equivalent":
            rooms[find_room(verdict.mutation.path)[0]].append(verdict)
    for room, within in sorted(rooms.items()):
        print(f"  tests/{room}: {sum(verdict.fate != 'survived' for verdict in within)} of {len(within)}")
    for verdict in living:
        print(f"  {verdict.mutation.show()}  [{verdict.reason or 'noticed nowhere'}]")
    return int(noticed < BAR * judged)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make mutate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--elsewhere", action="store_true", help="run survivors in the other folders, too")
    parser.add_argument("paths", nargs="*", default=["lambdas"])
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
