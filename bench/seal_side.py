"""One side of ``bench.seal``: a bucket of one source tree is computed from its events, in a process of its own.

The garbage collector stands still if it does so in the tree's function. The arguments are the tree, the shards, the
events, the groups, and the events per pack (0: plain). The script prints JSON: seconds of CPU, requests, and the peak of
memory in MB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from older_trees import pause_collector  # type: ignore[import-not-found]
from whole_side import START, TREE, Answers, LeanStore, OneTable, Unpacker, import_first, make_events  # type: ignore[import-not-found]

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.fakes import SEAL
from tests.fakes.serial import Serial
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.periods import Kind, find_containing
from tidetable.query import Reader
from tidetable.rollups.collect import collect_bucket

Definition = import_first("tidetable.rollup_model.definition", "tidetable.rollups.definition").Definition
make_packs = import_first("tests.worlds.packing", "tidetable.packs").make_packs
STATS = ("count", "sum", "min", "max")


def main() -> None:
    """Measure one bucket."""
    shards, count, groups, batch = (int(sys.argv[number]) for number in (2, 3, 4, 5))
    pack = '[streams.s.pack]\nspan = "1m"\n' if batch else ""
    key = f'key = {{ partition_by = "time", bucket = "1h", shards = {shards} }}\n'
    stream = parse(f'[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\n{key}{pack}').streams["s"]
    entry = Entry("s", find_containing(START, Kind.DAY), "t.s", stream.layout, State.OPEN, START)
    plain = getattr(entry.layout, "before_packing", entry.layout)
    items: list[Any] = [plain.make_item(event, at=1) for event in make_events(count, groups)]
    if batch:
        batches = [items[first : first + batch] for first in range(0, count, batch)]
        items = [pack.item for some in batches for pack in make_packs(some, entry.layout, Zstd()).packs]
    answers = Answers(items)
    del items
    store: Any = LeanStore(answers, "catalog")
    nothing: Any = None
    catalog: Any = OneTable(entry)
    reader = Reader(catalog, store, nothing, Unpacker(store, nothing, Zstd()), SEAL, DDSketches(), Serial)
    services: Any = SimpleNamespace(catalog=catalog, reader=reader, remaining=lambda: 100.0)
    definition = Definition("m", timedelta(minutes=10), ("path",), ("ms",), STATS, 100_000, "s", "s-m")
    segments: Any = [(START, START + timedelta(minutes=10), None)]

    def run() -> Any:
        answers.requests = 0
        bucket = collect_bucket(definition, segments, services)
        if sum(state.count for state in bucket.groups.values()) != count or len(bucket.groups) != groups:
            raise AssertionError(len(bucket.groups))

    run()
    pause_collector(TREE, "refresher")
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        run()
        seconds.append(time.process_time() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": min(seconds), "requests": answers.requests, "peak": peak}))


if __name__ == "__main__":
    main()
