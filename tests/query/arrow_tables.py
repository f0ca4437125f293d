"""Queries of a stream with declared columns, and their answers in Arrow."""

from base64 import b64decode
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, StoredEvents
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.query import Answer, AnswerForm, parse_query, render_answer, run_query
from tidetable.times import to_text

ARROW = AnswerForm("arrow")
SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS)), "order": "asc"}
TYPES = {"n": "integer", "mag": "double", "cost": "decimal(6, 2)", "ok": "boolean", "status": "string"}
_COLUMNS = ", ".join(f'{name} = "{kind}"' for name, kind in TYPES.items())


def policy_of(more: str = "") -> Stream:
    text = f"""
    [streams.s]
    period = "day"
    late = "5d"
    retention = 9
    {BY_TIME}
    {more}
    archive = {{ columns = {{ {_COLUMNS} }} }}
    [[streams.s.index]]
    name = "best"
    partition_by = "*"
    sort_by = "mag"
    """
    return parse(text).streams["s"]


POLICY = policy_of()


def stored(events: list[Event], policy: Stream = POLICY) -> StoredEvents:
    """Five days; the first and the third are archived."""
    return StoredEvents(policy, events, [policy.layout] * DAYS)


def ask(base: StoredEvents, **parameters: str) -> Answer:
    query_string = {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()}
    query_string |= {name: [value] for name, value in parameters.items()}
    query = parse_query(base.policy, query_string, NOW, SEAL)
    return run_query(query, base.policy, base.reader, NOW, lambda: 100.0)


def table_of(answer: Answer) -> pa.Table:
    rendered = render_answer(answer, ARROW, encode_stream)
    assert (rendered.encoded, rendered.content_type) == (True, "application/vnd.apache.arrow.stream")
    return pa.ipc.open_stream(b64decode(rendered.body)).read_all()


def exact(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, float) else value


def events_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as the JSON of events."""
    events = []
    for row in table.to_pylist():
        data = {name: exact(row.pop(name)) for name in TYPES if name in row and name != "data"}
        typed = {name: value for name, value in data.items() if value is not None}
        rest = decode_json(row.pop("data"))
        assert typed.keys() & rest.keys() <= {"mag"}, "a double may be rounded; the JSON has its digits"
        event = {name: value for name, value in row.items() if value is not None}
        for name in ("time", "accepted"):
            if name in event:
                event[name] = to_text(event[name])
        if not event.pop("incomplete"):
            event.pop("incomplete", None)
        events.append(event | {"data": typed | rest})
    return events


def sample(number: int, **data: Any) -> Event:
    return Event(f"s{number % 3}", START + timedelta(hours=number, microseconds=number), str(number), data)


SCHEMA = pa.schema(
    [
        ("series", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("id", pa.string()),
        ("n", pa.int64()),
        ("mag", pa.float64()),
        ("cost", pa.decimal128(6, 2)),
        ("ok", pa.bool_()),
        ("status", pa.string()),
        ("data", pa.string()),
        ("ref", pa.string()),
        ("incomplete", pa.bool_()),
    ]
)
