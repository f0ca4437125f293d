"""The worst requests of each kind that pass the gateway, each in a process of its own, which measures its memory.

``python -m tests.worlds.worst`` prints a line of JSON for each: the outcome, and the growth of the process in megabytes.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any

from aws.arrow import encode_stream
from aws.sketches import DDSketches
from tests.worlds.cells import add_event
from tests.worlds.days import LAYOUTS, NOW, START, STREAM, Days
from tests.worlds.doors import Doors, config, nanos
from tests.worlds.intake import World
from tidetable.config import parse
from tidetable.events import Event
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import choose_form, parse_query, render_answer, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.definition import Definition

# The processor seconds after which a case is ended, on a machine that may be busy. Each case takes less than 10.
_SECONDS = 90
# More memory than any function has that answers requests.
_BYTES = 3 << 30
_BODY = 3_900_000
INGEST = parse(
    """
    [api]
    max_events = 10_000
    max_body = 4_000_000
    [streams.quakes]
    period = "day"
    late = "2d"
    retention = 7
    key = { partition_by = "time", bucket = "6h", shards = 4 }
    [[streams.quakes.index]]
    name = "states"
    partition_by = "state"
    """
)
Ask = Callable[[], str]
CASES: dict[str, Callable[[], Ask]] = {}


def case(make: Callable[[], Ask]) -> Callable[[], Ask]:
    """Register a function that prepares a case, and returns the request."""
    CASES[make.__name__] = make
    return make


def _ask(days: Days, kind: str, parameters: dict[str, str]) -> str:
    """Ask for a day of events or aggregates; return the number of rows and the bytes of the body, or the refusal."""
    form = choose_form(parameters, "")
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z", "order": "asc", **parameters}
    if kind == "aggregate" and "top" not in asked:
        del asked["order"]
    values = {name: [value] for name, value in asked.items()}
    try:
        answer: Any
        if kind == "events":
            query = parse_query(STREAM, values, NOW, days.reader.seal)
            answer = run_query(query, STREAM, days.reader, NOW, lambda: 100.0)
        else:
            aggregation = parse_aggregation(STREAM, values, NOW, days.reader.seal)
            answer = find_aggregate(aggregation, STREAM, days.reader, NOW, lambda: 100.0)
        rendered = render_answer(answer, form, encode_stream)
    except ProblemError as error:
        return f"{error.problem.status} {error.problem.code}: {error.problem.detail}"
    return f"200 {rendered.answer.count} rows, next {rendered.answer.next is not None}"


def _store(events: list[Event]) -> Days:
    days, layout = Days(), LAYOUTS[0]
    days.add_table(find_containing(START, Kind.DAY), layout, [layout.make_item(event) for event in events])
    return days


def _make_event(number: int, data: dict[str, Any]) -> Event:
    return Event(f"s{number:05}", START + timedelta(seconds=number), "1", data)


@case
def top_of_a_thousand_groups_in_every_second() -> Ask:
    days = _store([_make_event(number, {"n": number}) for number in range(1000)])
    parameters = {"by": "series", "top": "1000", "step": "1s", "fill": "zero"}
    return lambda: _ask(days, "aggregate", parameters)


@case
def a_group_with_a_long_text_in_every_second() -> Ask:
    days = _store([_make_event(0, {"text": "x" * 390_000})])
    return lambda: _ask(days, "aggregate", {"by": "text", "step": "10s", "fill": "zero"})


@case
def a_bucket_with_long_texts_and_names() -> Ask:
    """A bucket of a rollup whose 5,000 events have a text of 300,000 characters and a name of 90,000 each."""
    definition = Definition("h", timedelta(hours=1), ("text",), (), ("count",), 10_000, "quakes", "quakes-h")

    def compute() -> str:
        bucket = Bucket(definition, DDSketches())
        for number in range(5_000):
            data = {"text": f"{number}".ljust(300_000, "x"), f"{number}".ljust(90_000, "n"): 1}
            add_event(bucket, "a", f"{number}#a#1", data)
        return f"{len(bucket.make_events(START))} cells, over {bucket.is_over}"

    return compute


@case
def the_top_group_with_a_long_text_in_every_second() -> Ask:
    days = _store([_make_event(0, {"text": "x" * 390_000})])
    return lambda: _ask(days, "aggregate", {"by": "text", "step": "10s", "fill": "zero", "top": "1"})


@case
def many_groups_with_long_texts() -> Ask:
    text = "é" * 3_000
    days = _store([_make_event(number, {"text": f"{number}{text}"}) for number in range(10_000)])
    return lambda: _ask(days, "aggregate", {"by": "text", "top": "1"})


def _make_odd_events() -> Days:
    """Make 10,000 events with 35 fields of their own names each."""
    return _store([_make_event(n, {f"f{n}_{field}": 1 for field in range(35)}) for n in range(10_000)])


@case
def csv_of_events_with_different_fields() -> Ask:
    days = _make_odd_events()
    return lambda: _ask(days, "events", {"format": "csv", "limit": "10000"})


@case
def flat_json_of_events_with_different_fields() -> Ask:
    days = _make_odd_events()
    return lambda: _ask(days, "events", {"flat": "true", "limit": "10000"})


@case
def arrow_of_events_with_different_fields() -> Ask:
    days = _make_odd_events()
    return lambda: _ask(days, "events", {"format": "arrow", "limit": "10000"})


def _make_deep_event() -> Days:
    """Make an event whose 30,000 fields are in an object with a name of 150,000 characters."""
    return _store([_make_event(0, {"x" * 150_000: {f"{field:05}": 1 for field in range(30_000)}})])


@case
def flat_json_of_a_long_path() -> Ask:
    days = _make_deep_event()
    return lambda: _ask(days, "events", {"flat": "true"})


@case
def csv_of_a_long_path() -> Ask:
    days = _make_deep_event()
    return lambda: _ask(days, "events", {"format": "csv"})


def _post(body: bytes) -> Ask:
    world = World(INGEST)

    def ask() -> str:
        try:
            outcome = world.post(body, seconds=100)
        except ProblemError as error:
            first = error.problem.document().get("errors", [{}])[0].get("detail", "")
            return f"{error.problem.status} {error.problem.code}: {first or error.problem.detail}"
        return f"accepted {outcome.accepted}, refused {len(outcome.rejections)}"

    return ask


@case
def a_number_of_four_million_digits() -> Ask:
    return _post(b'{"series":"a","data":{"state":0.' + b"9" * _BODY + b"}}")


@case
def a_number_of_a_thousand_million_digits_in_an_index() -> Ask:
    return _post(b'{"series":"a","data":{"state":1e999999999}}')


@case
def a_whole_number_of_four_million_digits() -> Ask:
    return _post(b'{"series":"a","data":{"state":' + b"9" * _BODY + b"}}")


@case
def a_million_empty_lists() -> Ask:
    return _post(b'{"series":"a","data":{"state":[' + b"[]," * (_BODY // 3) + b"0]}}")


@case
def a_million_texts_of_one_character() -> Ask:
    return _post(b'{"series":"a","data":{"state":[' + b'"a",' * (_BODY // 4) + b"0]}}")


@case
def a_million_empty_objects_as_events() -> Ask:
    return _post(b"[" + b"{}," * (_BODY // 3) + b"{}]")


def _send(route: str, body: bytes, query: str = "", **headers: Any) -> Ask:
    doors = Doors(config({"max_events": 1000, "max_body": 4_000_000}))
    stream = "quakes" if "{stream}" in route else ""

    def ask() -> str:
        reply = doors.call("POST", route, body, query=query, stream=stream, seconds=100, **headers)
        return f"{reply.status} {len(doors.events())} events, {reply.body[:300].decode(errors='replace')}"

    return ask


def _write_lines(body: bytes) -> Ask:
    return _send("/api/v3/write_lp", body, "db=quakes")


@case
def a_line_of_four_hundred_thousand_tags() -> Ask:
    tags = b",".join([b"t%d=1" % number for number in range(400_000)])
    return _write_lines((b"m," + tags)[:_BODY] + b" v=1 %d" % nanos(60))


@case
def lines_of_all_tags_that_a_line_may_have() -> Ask:
    line = b"m," + b",".join([b"t%d=1" % number for number in range(256)]) + b" v=1 %d\n" % nanos(60)
    return _write_lines(line * (_BODY // len(line)))


@case
def a_line_of_a_million_fields() -> Ask:
    return _write_lines(b"m " + b",".join([b"%x=1" % number for number in range(450_000)]) + b" %d" % nanos(60))


@case
def four_million_ends_of_lines() -> Ask:
    return _write_lines(b"\n" * _BODY + b"m v=1 %d" % nanos(60))


def _send_otlp(document: bytes, signal: str = "metrics") -> Ask:
    return _send(f"/v1/streams/{{stream}}/otlp/v1/{signal}", document, content_type="application/json")


_POINT = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","%s":{"dataPoints":[%s]}}]}]}]}'


@case
def json_of_a_million_empty_points() -> Ask:
    return _send_otlp(_POINT % (b"gauge", b"{}," * (_BODY // 3) + b"{}"))


@case
def json_of_a_million_empty_metrics() -> Ask:
    return _send_otlp(b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[' + b"{}," * (_BODY // 3) + b"{}]}]}]}")


@case
def json_of_a_million_buckets() -> Ask:
    point = b'{"timeUnixNano":"%d","count":1,"bucketCounts":[' % nanos(60) + b"1," * (_BODY // 2) + b"1]}"
    return _send_otlp(_POINT % (b"histogram", point))


@case
def json_of_a_million_empty_attributes() -> Ask:
    point = b'{"timeUnixNano":"%d","asInt":1,"attributes":[' % nanos(60) + b"{}," * (_BODY // 3) + b"{}]}"
    return _send_otlp(_POINT % (b"gauge", point))


@case
def json_of_a_million_empty_values() -> Ask:
    value = b'{"arrayValue":{"values":[' + b"{}," * (_BODY // 3) + b"{}]}}"
    point = b'{"timeUnixNano":"%d","asInt":1,"attributes":[{"key":"a","value":%s}]}' % (nanos(60), value)
    return _send_otlp(_POINT % (b"gauge", point))


@case
def protobuf_of_a_million_buckets() -> Ask:
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    request = metrics_service_pb2.ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    point = metric.exponential_histogram.data_points.add(time_unix_nano=nanos(60), count=1)
    point.positive.bucket_counts.extend([1] * _BODY)
    kind = "application/x-protobuf"
    return _send("/v1/streams/{stream}/otlp/v1/metrics", request.SerializeToString(), content_type=kind)


@case
def a_batch_of_a_million_empty_events() -> Ask:
    body = b"[" + b"{}," * (_BODY // 3) + b"{}]"
    return _send("/v1/streams/{stream}/cloudevents", body, content_type="application/cloudevents-batch+json")


@case
def records_of_empty_objects() -> Ask:
    body = b'{"requestId":"r","timestamp":1,"records":[' + b'{"data":"e30="},' * (_BODY // 17) + b'{"data":"e30="}]}'
    return _send("/v1/streams/{stream}/firehose", body, content_type="application/json")


@case
def a_record_of_a_million_lines() -> Ask:
    data = base64.b64encode(b"1\n" * (_BODY // 3)).decode()
    body = json.dumps({"requestId": "r", "timestamp": 1, "records": [{"data": data}]}).encode()
    return _send("/v1/streams/{stream}/firehose", body[: _BODY + 100], content_type="application/json")


def _read_memory(name: str) -> int:
    """Read a line of the kernel's account of this process: its memory now (VmRSS), or its peak (VmHWM), in KB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0])


def _measure_case(name: str) -> dict[str, Any]:
    """Run a case; return its outcome, the growth of the process in megabytes, and its processor seconds."""
    ask = CASES[name]()
    gc.collect()
    # Linux: 5 sets the peak to the present memory, so that the peak is that of the request alone.
    Path("/proc/self/clear_refs").write_text("5")
    before, seconds = _read_memory("VmRSS"), process_time()
    try:
        outcome = ask()
    except MemoryError:
        outcome = "MemoryError"
    seconds = process_time() - seconds
    megabytes = (_read_memory("VmHWM") - before) // 1024
    return {"name": name, "outcome": outcome, "megabytes": megabytes, "seconds": round(seconds, 2)}


def main(names: list[str]) -> None:
    """Run each case in a process of its own, and print a line of JSON about it."""
    # Modules that a function has loaded before its first request: they are not part of a request's memory.
    _ask(_store([_make_event(0, {"n": 1})]), "events", {"format": "csv"})
    _ask(_store([_make_event(0, {"n": 1})]), "events", {"format": "arrow"})
    for name in names:
        process = os.fork()
        if process == 0:
            resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
            print(json.dumps(_measure_case(name)), flush=True)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            ended = f"the process ended with the status {os.waitstatus_to_exitcode(status)}"
            print(json.dumps({"name": name, "outcome": ended, "megabytes": 0, "seconds": 0}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
