"""One side of ``bench.whole``: an aggregate of one table of one source tree, measured in a process of its own.

The arguments are the tree, the shards, the events, the groups, the statistics, and the events per pack (0: plain). The
table's answers are bytes, as DynamoDB would send them, so everything from the decoding on is measured. An answer is made
once, before the measured run. The script prints JSON: seconds of CPU, requests, read units, and the peak of memory in MB.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from base64 import b64encode
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

TREE = Path(sys.argv[1])
sys.path[:0] = [str(TREE), str(TREE / "lambdas")]

from older_trees import import_first  # type: ignore[import-not-found]

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.fakes import SEAL
from tests.fakes.serial import Serial
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.events import Event
from tidetable.periods import Kind, find_containing
from tidetable.query import Reader
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

LeanStore = import_first("aws.dynamodb.store", "aws.lean.store").LeanStore
encode_item = import_first("aws.dynamodb.wire", "aws.wire").encode_item
make_packs = import_first("tests.worlds.packing", "tidetable.packs").make_packs
_json = import_first("tidetable.exact_json", "tidetable.exact")
canonical_json, decode_json = _json.canonical_json, _json.decode_json
Unpacker = import_first("tidetable.large.unpack", "tidetable.large.whole").Unpacker
START = datetime(2026, 3, 5, 12, tzinfo=UTC)
NOW = START + timedelta(hours=2)
# AWS: a page ends at 1 MB; an eventually consistent read unit reads 8 KB.
PAGE, UNIT = 1_048_576, 8_192


def make_events(count: int, groups: int) -> list[Event]:
    """Requests to ``groups`` paths within ten minutes, from 200 hosts, each with its duration."""
    chance = random.Random(11)  # noqa: S311 - made-up data
    events = []
    for number in range(count):
        at = START + number * timedelta(minutes=10) / count
        path = f"/shop/items/{number % groups:05d}"
        ms = f"{chance.lognormvariate(3, 1):.2f}"
        data: Any = decode_json(f'{{"path":"{path}","ms":{ms},"status":200,"agent":"Mozilla/5.0"}}')
        series = f"host-{chance.randrange(200):03d}"
        id = sha256(canonical_json((series, to_text(at), data))).hexdigest()[:32]
        events.append(Event(series, at, id, data))
    return events


class Answers:
    """Answers Query from a table in memory, each request with the same bytes each time."""

    def __init__(self, items: list[Any]) -> None:
        self._partitions: dict[str, list[tuple[str, str, int, bool]]] = {}
        for item in sorted(items, key=lambda item: item["sk"]):
            size = sum(len(name) + len(str(value)) for name, value in item.items())
            if "pack" in item:
                body = b64encode(item["pack"]).decode()
                text = encode_item({**item, "pack": ""}).replace('"pack":{"S":""}', f'"pack":{{"B":"{body}"}}')
                size = len(item["pack"]) + 120
            else:
                text = encode_item(item)
            self._partitions.setdefault(item["pk"], []).append((item["sk"], text, size, "pack" in item))
        self._answers: dict[bytes, bytes] = {}
        self.requests = 0

    def pause(self, most: float) -> None:
        """There is nothing to wait for."""

    def call_all(self, requests: Any, *, insist: bool = True) -> list[Any]:  # noqa: ARG002 - as the lean client
        """Answer each request."""
        self.requests += len(requests)
        return [request.decode(self._answer(request.body)) for request in requests]

    def _answer(self, body: bytes) -> bytes:
        answer = self._answers.get(body)
        if answer is None:
            answer = self._answers[body] = self._make_answer(json.loads(body))
        return answer

    def _make_answer(self, asked: Any) -> bytes:
        names, values = asked["ExpressionAttributeNames"], asked["ExpressionAttributeValues"]
        pk, low, high = (values[f":v{number}"]["S"] for number in range(3))
        rows = self._partitions.get(pk, [])
        keys = [row[0] for row in rows]
        start, end = bisect_left(keys, low), bisect_right(keys, high)
        if "ExclusiveStartKey" in asked:
            start = bisect_right(keys, asked["ExclusiveStartKey"]["sk"]["S"])
        stop, size = start, 0
        while stop < min(end, start + asked["Limit"]) and (stop == start or size + rows[stop][2] <= PAGE):
            size += rows[stop][2]
            stop += 1
        texts = [row[1] for row in rows[start:stop]]
        if "ProjectionExpression" in asked:
            wanted = {names[path.split(".")[-1]] for path in asked["ProjectionExpression"].split(", ")}
            texts = [_project(text, wanted) for text in texts]
        units = max(-(-size // (UNIT // 2)), 1) / 2
        answer: dict[str, Any] = {"ScannedCount": stop - start, "ConsumedCapacity": {"CapacityUnits": units}}
        if stop < end:
            answer["LastEvaluatedKey"] = {"pk": {"S": pk}, "sk": {"S": rows[stop - 1][0]}}
        return f'{{"Items":[{",".join(texts)}],{json.dumps(answer)[1:]}'.encode()


def _project(text: str, wanted: set[str]) -> str:
    item = json.loads(text)
    shown = {name: value for name, value in item.items() if name in wanted}
    shown["data"] = {"M": {name: value for name, value in item["data"]["M"].items() if name in wanted}}
    return json.dumps(shown)


class OneTable:
    """A catalog with one period."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def entries(self, *_: Any, **__: Any) -> list[Entry]:
        """Read the one entry."""
        return [self._entry]

    walk = entries


def main() -> None:
    """Measure one aggregate."""
    shards, count, groups, batch = (int(sys.argv[number]) for number in (2, 3, 4, 6))
    pack = '[streams.s.pack]\nspan = "1m"\n' if batch else ""
    key = f'key = {{ partition_by = "time", bucket = "1h", shards = {shards} }}\n'
    stream = parse(f'[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\n{key}{pack}').streams["s"]
    entry = Entry("s", find_containing(START, Kind.DAY), "t.s", stream.layout, State.OPEN, START)
    events = make_events(count, groups)
    plain = entry.layout
    items: list[Any] = [plain.make_item(event, at=1) for event in events]
    if batch:
        batches = [items[first : first + batch] for first in range(0, count, batch)]
        items = [pack.item for some in batches for pack in make_packs(some, entry.layout, Zstd()).packs]
    answers = Answers(items)
    del items, events
    store: Any = LeanStore(answers, "catalog")
    nothing: Any = None
    catalog: Any = OneTable(entry)
    reader = Reader(catalog, store, nothing, Unpacker(store, nothing, Zstd()), SEAL, DDSketches(), Serial)
    asked = {"from": [to_text(START)], "to": [to_text(START + timedelta(minutes=10))], "stat": [sys.argv[5]]}
    asked |= {"field": ["ms"], "by": ["path"], "limit": ["10000"]}

    def run() -> Any:
        answers.requests = 0
        answer = find_aggregate(parse_aggregation(stream, asked, NOW, SEAL), stream, reader, NOW, lambda: 100.0)
        if sum(row["count"] for row in answer.rows) != count or len(answer.rows) != groups:
            raise AssertionError(answer.rows[:3])
        return answer

    run()
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        answer = run()
        seconds.append(time.process_time() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": min(seconds), "requests": answers.requests, "units": answer.cost.units, "peak": peak}))


if __name__ == "__main__":
    main()
