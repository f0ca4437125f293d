"""A cold start: the time from a new process to the first answer, compared with bare boto3.

Our process imports the ingest function with its logs and metrics, reads the configuration and the catalog, and writes.
The query function and the authorizer of keys have their own processes. The process of the baseline makes a boto3 client
and puts an item. All processes call a server that answers at once. The bench prints milliseconds, the ratio of wall
times, and the time of a call of the authorizer when it is warm and knows the key.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from compileall import compile_dir
from datetime import UTC, datetime
from statistics import median

from bench.function import ROOT

# isort: split
from aws.dynamodb.catalog_items import make_attributes, make_period_key
from aws.dynamodb.credential_items import make_record_item
from aws.dynamodb.wire import encode_item
from bench.results import note_ratios
from bench.stub import run_stub
from tidetable.access import Access
from tidetable.catalog import Entry, State
from tidetable.config import load
from tidetable.credentials import CredentialRecord, Secret
from tidetable.events import Event
from tidetable.names import name_table
from tidetable.periods import find_containing

ROUNDS = 11
# The environment of a function before its handler is imported.
FUNCTION = """
import sys
from pathlib import Path
sys.path.insert(0, "lambdas")
import settings
settings.CONFIG_FILE = Path("tidetable.toml")
class Context:
    function_name, memory_limit_in_mb, aws_request_id = "bench", 512, "bench"
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:bench"
    def get_remaining_time_in_millis(self):
        return 30_000
"""
INGEST = """
from handlers import ingest
event = {"headers": {}, "pathParameters": {"stream": "quakes"}, "body": '{"series": "a", "data": {"mag": 4.2}}'}
answer = ingest.handler(event, Context())
assert '"accepted":1' in answer["body"], answer
"""
QUERY = """
from handlers import query
event = {
    "httpMethod": "GET", "path": "/v1/streams/quakes/events", "resource": "/v1/streams/{stream}/events", "headers": {},
    "pathParameters": {"stream": "quakes"}, "queryStringParameters": {"limit": "10"}, "body": None,
    "multiValueQueryStringParameters": {"limit": ["10"]}, "requestContext": {"requestId": "b", "stage": "api"},
}
answer = query.handler(event, Context())
assert answer["statusCode"] == 200, answer
"""
KEY = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
AUTHORIZER = f"""
from handlers import authorizer
event = {{
    "type": "REQUEST", "httpMethod": "POST", "resource": "/v1/streams/{{stream}}/events", "methodArn": "arn:aws:execute-api:x",
    "headers": {{"x-api-key": "{KEY}"}}, "multiValueHeaders": {{"x-api-key": ["{KEY}"]}},
    "pathParameters": {{"stream": "quakes"}}, "queryStringParameters": None, "multiValueQueryStringParameters": None,
}}
answer = authorizer.handler(event, Context())
assert answer["policyDocument"]["Statement"][0]["Effect"] == "Allow", answer
"""
WARM = """
import time
begun = time.process_time()
for _ in range(2000):
    authorizer.handler(event, Context())
print((time.process_time() - begun) / 2000 * 1e6)
"""
BARE = """
import boto3
boto3.client("dynamodb").put_item(TableName="bench", Item={"pk": {"S": "a"}, "sk": {"S": "b"}, "mag": {"N": "4.2"}})
"""


def make_catalog_answer() -> bytes:
    """The answer to a Query of the catalog: the present period."""
    now = datetime.now(UTC)
    stream = load(ROOT / "tidetable.toml").streams["quakes"]
    period = find_containing(now, stream.period)
    entry = Entry("quakes", period, name_table("bench", "quakes", period), stream.layout, State.OPEN, now)
    # Every read of the catalog gets this answer. A query whose page is full also reads the secret of cursors from the
    # catalog.
    item = make_period_key("quakes", period) | make_attributes(entry) | {"secret": "00" * 32}
    return f'{{"Items":[{encode_item(item)}],"Count":1}}'.encode()


def make_events_answer() -> bytes:
    """The answer to a Query of a period table: one event."""
    layout = load(ROOT / "tidetable.toml").streams["quakes"].layout
    item = layout.make_item(Event("a", datetime.now(UTC), "1", {"mag": 4}), at=1)
    return f'{{"Items":[{encode_item(item)}],"Count":1}}'.encode()


def make_key_answer() -> bytes:
    """The answer to a GetItem: an API key for one stream."""
    secret = Secret.of(KEY, bytes(16))
    access = Access("0123456789", frozenset({"quakes"}), frozenset({"write"}))
    record = CredentialRecord("0123456789", "bench", access, datetime.now(UTC), (secret,), meter="m" * 20)
    return f'{{"Item":{encode_item(make_record_item(record))}}}'.encode()


def time_program(program: str, environment: dict[str, str]) -> float:
    """Wall time of a program in its own process."""
    begun = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, "-c", program], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begun


def main() -> None:
    """Measure both sides alternately, many times. Modules are compiled before, as in assets and installed packages."""
    compile_dir(ROOT / "lambdas", quiet=2)
    answers = {b".getitem": make_key_answer(), b"bench-catalog": make_catalog_answer(), b".query": make_events_answer()}
    with run_stub(answers) as endpoint:
        environment = os.environ | {"AWS_ENDPOINT_URL": endpoint}
        programs = (FUNCTION + INGEST, FUNCTION + QUERY, FUNCTION + AUTHORIZER, BARE)
        rounds = [[time_program(program, environment) for program in programs] for _ in range(ROUNDS)][1:]
        warm = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", FUNCTION + AUTHORIZER + WARM],
            check=True,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
    ingest, query, keys, bare = (1000 * median(side) for side in zip(*rounds, strict=True))
    print(
        f"cold start to the first answer, ms: ingest {ingest:.0f}, query {query:.0f}, authorizer {keys:.0f},"
        f" bare boto3 {bare:.0f}"
    )
    print(f"a warm call of the authorizer: {float(warm.stdout.split()[-1]):.0f} us of CPU")
    note_ratios(
        ingest_cold_ours_over_bare_boto3=median(ingest / bare for ingest, _, _, bare in rounds),
        query_cold_ours_over_bare_boto3=median(query / bare for _, query, _, bare in rounds),
        authorizer_cold_ours_over_bare_boto3=median(keys / bare for _, _, keys, bare in rounds),
    )


if __name__ == "__main__":
    main()
