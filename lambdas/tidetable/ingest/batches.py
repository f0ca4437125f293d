"""The batch of a request: the events that may be written, and the reasons why the others are refused.

Usual events are checked by columns, all at once. Only an event that may be refused, or that is unusual, is judged by
itself (``verdicts.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Self

from msgspec import Raw, field

from tidetable.batch import Batch, pick_values
from tidetable.events import JsonObject
from tidetable.exact_json import canonical_lines, decode_json, encode_json, is_usual
from tidetable.ingest.bodies import Sent
from tidetable.ingest.context import RequestContext
from tidetable.ingest.rejection import Code, Rejection
from tidetable.ingest.verdicts import SURELY_SHORT, Judged, hash_content, judge_event
from tidetable.large.shrink import find_unshrunk_bytes
from tidetable.times import identify_time, parse_stamps, to_text
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

# An item has at most four times the bytes of its JSON. In a list of digits, two bytes of JSON become four bytes.
_EXPANSION = 4
_HARMLESS = frozenset({str, bool, type(None)})
_WRITABLE = _HARMLESS | {int, Decimal, Raw}
# It stands for a value that is no event of usual types, while the columns are checked.
_ABSENT = Sent("-")


class SentBatch(Batch):
    """A batch whose numbers are the positions of the events in the request.

    ``stamps`` are the times as they were sent, and become ``times`` when the batch is checked. None stands for the time
    of arrival; an id may be None until then, too. ``odd`` has the values that are no events of usual types, and
    ``rejections`` those of refused events, by their numbers: their columns have no meaning.
    """

    stamps: list[Any] = field(default_factory=list)
    odd: dict[int, Any] = field(default_factory=dict)
    rejections: dict[int, Rejection] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> Self:
        """Make a batch without events."""
        return cls([], [], [], [], 0)

    @classmethod
    def of_values(cls, values: Sequence[Any]) -> Self:
        """Make a batch of decoded values, nearly all of which are ``Sent``."""
        odd: dict[int, Any] = {}
        if {*map(type, values)} != {Sent}:
            odd = {number: value for number, value in enumerate(values) if type(value) is not Sent}
            values = [_ABSENT if number in odd else value for number, value in enumerate(values)]
        ids: list[Any] = [event.id for event in values]
        series, datas = [event.series for event in values], [event.data for event in values]
        return cls([], series, ids, datas, 0, stamps=[event.time for event in values], odd=odd)

    def __len__(self) -> int:
        return len(self.series)

    def add(self, series: str, stamp: Any, id: str | None, data: JsonObject) -> None:
        """Add an event."""
        self.series.append(series)
        self.stamps.append(stamp)
        self.ids.append(id)  # type: ignore[arg-type]
        self.datas.append(data)

    def add_odd(self, value: Any) -> None:
        """Add a value that is no event of usual types."""
        self.odd[len(self)] = value
        self.add("-", None, None, {})

    def read_sent(self, number: int) -> Any:
        """Return the value with this number as it was sent."""
        if number in self.odd:
            return self.odd[number]
        return Sent(self.series[number], self.stamps[number], self.ids[number], self.datas[number])

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the events that are not refused, ascending."""
        numbers = range(len(self.times))
        return [number for number in numbers if number not in self.rejections] if self.rejections else numbers

    def reject(self, number: int, code: Code, detail: str) -> None:
        """Refuse the event with this number."""
        self.rejections[number] = Rejection.of(number, self.read_sent(number), code, detail)

    def list_rejections(self) -> list[Rejection]:
        """List the rejections in the order of the request."""
        return [self.rejections[number] for number in sorted(self.rejections)]


def check_batch(context: RequestContext, batch: SentBatch, *, small: bool = False) -> SentBatch:
    """Check what was sent, and return it. The default time is the arrival, the default id a hash of the content.

    ``small`` says that no event can exceed DynamoDB's limit for items.
    """
    doubtful, stamps, series, ids, datas = set(batch.odd), batch.stamps, batch.series, batch.ids, batch.datas
    now = to_text(context.now)
    times = parse_stamps([now if stamp is None else stamp for stamp in stamps] if None in stamps else stamps)
    _check_bounds(context, times, series, doubtful)
    _check_names(series, doubtful)
    _check_names(["-" if id is None else id for id in ids] if None in ids else ids, doubtful)
    fields = _settle_datas(datas, doubtful)
    if context.rules.judges_all:
        doubtful = set(range(len(batch)))
    elif not small:
        doubtful |= {
            number
            for number, data in enumerate(datas)
            if number not in doubtful and len(encode_json(data)) * _EXPANSION > MAX_ITEM_BYTES
        }
    if None in ids:
        for number, id in enumerate(ids):
            if id is None and number not in doubtful:
                stamp, time = stamps[number], times[number]
                identity = None if stamp is None else identify_time(stamp, time)
                ids[number] = hash_content(series[number], identity, datas[number])
    batch.times, batch.at, batch.fields = times, context.at, None if doubtful else fields
    if doubtful:
        _judge(context, batch, sorted(doubtful))
    return batch


def _judge(context: RequestContext, batch: SentBatch, numbers: Sequence[int]) -> None:
    """Judge events one by one. An accepted event gets its decoded data, and counts as large by its size."""
    large, most = list[int](), find_unshrunk_bytes(context.stream)
    for number in numbers:
        verdict = judge_event(context, batch.read_sent(number))
        if not isinstance(verdict, Judged):
            batch.reject(number, *verdict)
            continue
        batch.times[number], batch.series[number], batch.ids[number], batch.datas[number], size = verdict
        if size > most:
            large.append(number)
    batch.large = frozenset(large)


def _check_bounds(context: RequestContext, times: Sequence[str], series: Sequence[str], doubtful: set[int]) -> None:
    """An event without an instant, outside of the window, or of a series that the caller's key does not cover, is doubtful."""
    oldest, newest = to_text(context.window.oldest), to_text(context.window.newest)
    if times and not (oldest <= min(times) and max(times) <= newest):
        doubtful |= {number for number, time in enumerate(times) if not oldest <= time <= newest}
    if context.access.series_prefix:
        covers = context.access.covers
        doubtful |= {number for number, name in enumerate(series) if not covers(name)}


def _check_names(names: Sequence[Any], doubtful: set[int]) -> None:
    """An event whose series or id is empty, perhaps too long, or not a text is doubtful."""
    if {*map(type, names)} != {str} or not all(0 < length <= SURELY_SHORT for length in {*map(len, names)}):
        doubtful |= {
            number for number, name in enumerate(names) if type(name) is not str or not 0 < len(name) <= SURELY_SHORT
        }


def _settle_datas(datas: Sequence[JsonObject], doubtful: set[int]) -> Mapping[str, Sequence[Any]] | None:
    """Check data by the columns of its fields, and decode values that are not usual. An event of which DynamoDB would
    refuse a value is doubtful. Return the columns if all events have the same fields, and all values are usual.
    """
    usual: dict[str, Sequence[Any]] = {}
    groups = _group_by_shape(datas)
    for names, numbers in groups.items():
        own = datas if len(groups) == 1 else pick_values(datas, numbers)
        for name, column in zip(names, zip(*map(dict.values, own), strict=True), strict=True):
            if name and _is_usual_column(column):
                usual[name] = column
            elif not (name and _are_usual_objects(column)):
                _settle_column(name, numbers, datas, doubtful)
    return usual if len(groups) == 1 and len(usual) == len(names) else None


def _group_by_shape(datas: Sequence[JsonObject]) -> Mapping[tuple[str, ...], Sequence[int]]:
    """Group the numbers of events by the names of the fields in their data, in the order of the names."""
    first = tuple(datas[0]) if datas else ()
    # A name is in data once. So if the names repeat those of the first event, each event has exactly these.
    if list(chain.from_iterable(datas)) == [*first] * len(datas):
        return {first: range(len(datas))}
    groups: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, data in enumerate(datas):
        groups[tuple(data)].append(number)
    return groups


def _is_usual_column(column: Sequence[Any]) -> bool:
    """True if DynamoDB takes all of these values as they are."""
    # The decoder leaves all values of a body raw, and doors decode all values.
    kinds = {Raw} if type(column[0]) is Raw else {*map(type, column)}
    return kinds <= _HARMLESS or (kinds <= _WRITABLE and is_usual(canonical_lines(column)))


def _are_usual_objects(column: Sequence[Any]) -> bool:
    """True if the values are decoded objects of one shape with usual values, such as the attributes of metrics."""
    if {*map(type, column)} != {dict} or len(shapes := {*map(tuple, column)}) > 1:
        return False
    return all(name and _is_usual_column([value[name] for value in column]) for name in shapes.pop())


def _settle_column(name: str, numbers: Sequence[int], datas: Sequence[JsonObject], doubtful: set[int]) -> None:
    """Decode the values of a field, one by one, and check if DynamoDB takes them."""
    # Doors share objects between events, such as the resource of metrics: each is checked once.
    taken = set[int]()
    for number in numbers:
        data = datas[number]
        try:
            if type(data[name]) is Raw:
                data[name] = decode_json(data[name])
            elif id(data[name]) in taken:
                continue
            count_item_bytes({"data": {name: data[name]}})
            taken.add(id(data[name]))
        except ValueError:
            doubtful.add(number)
