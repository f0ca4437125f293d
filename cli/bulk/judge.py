"""Rows become the items that an archive holds of events that ingest has stored, or are refused for its reasons."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from aws.dynamodb.wire import encode_items
from aws.zstd import Zstd
from cli.sources import Row
from tidetable.batch import pick_values
from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.events import Item
from tidetable.exact_json import decode_json, encode_json
from tidetable.forms.choose import choose_form
from tidetable.forms.plain import PlainForm
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.bodies import Body, decode_body
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.large.forms import FORMS
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.large.unpack import Unpacker
from tidetable.layout import Layout
from tidetable.layout.hierarchy import render_number
from tidetable.lifecycle.premake import find_fitting
from tidetable.periods import Period
from tidetable.ports import Put
from tidetable.problems import ProblemError
from tidetable.times import from_text, to_micros
from tidetable.window import Window
from tidetable_client import EventInvalid
from tidetable_client.stamps import Stamper

# A period begins at a whole hour, so the first 13 characters of a time say to which period it belongs.
_HOUR = 13
_NOTHING: Any = None
# Numbers of items that DynamoDB answers in another form. Within a text of JSON, a quote has a backslash before it.
_ODD_NUMBERS = re.compile(r'"N":"(-0|-?\d+\.\d*0|-?[\d.]+E[-+]?\d+)"')


class Refusal(NamedTuple):
    """A row that is refused."""

    row: Row
    code: str
    detail: str


class PeriodItems(NamedTuple):
    """Items of a period: the keys by which they are sorted, and their DynamoDB JSON; and the times of their events.

    ``rows`` counts the rows: of copies of an event, only one item may be left.
    """

    keys: Sequence[str]
    texts: Sequence[str]
    oldest: str
    newest: str
    rows: int


def make_sort_key(layout: Layout, pk: str, sk: str) -> str:
    """Make the key by which items are sorted: copies and versions of an event have the same.

    Items of a table by time are in the order of time; of a table by series, the events of a series come together.
    """
    place = layout.find_place(sk)
    return place if layout.partition_by == "time" else f"{pk}\0{place}"


class Periods:
    """The periods of a stream: those of the catalog, and for all other times the periods that a backfill would make."""

    def __init__(self, stream: Stream, entries: Iterable[Entry]) -> None:
        self._stream = stream
        self.entries = {entry.period: entry for entry in entries}
        self._claims = list(self.entries)
        self._of_hour: dict[str, Period] = {}

    def find_period(self, hour: str) -> Period:
        """Find the period that has an hour, given as the first characters of a time."""
        period = self._of_hour.get(hour)
        if period is None:
            at = from_text(f"{hour}:00:00Z")
            period = next((claim for claim in self._claims if at in claim), None)
            if period is None:
                period = find_fitting(self._stream.period, at, self._claims)
                self._claims.append(period)
            self._of_hour[hour] = period
        return period

    def find_layout(self, period: Period) -> Layout:
        """Return the layout of a period; one that the catalog does not know gets the stream's."""
        entry = self.entries.get(period)
        return self._stream.layout if entry is None else entry.layout


class Judge:
    """Judges rows as the API would if every past time were open, and makes their items. All were accepted at ``now``."""

    def __init__(self, stream: Stream, periods: Periods, now: datetime) -> None:
        self._stream, self._periods, self._now = stream, periods, now
        self._stamper, self._zstd = Stamper(), Zstd()
        self._services = LargeValueServices(values=_NOTHING, compressor=self._zstd, unique=lambda: "")
        self._unpacker = Unpacker(store=_NOTHING, values=_NOTHING, compressor=self._zstd)
        window = Window(datetime.min.replace(tzinfo=UTC), Window.of(stream, now).newest)
        rules = StreamRules.of(stream, stream.layout)
        self._context = RequestContext(stream, rules, window, now, at=to_micros(now) // 1000, backfills=())

    def judge_rows(self, rows: Sequence[Row]) -> tuple[Mapping[Period, PeriodItems], list[Refusal]]:
        """Return the items of rows by period, and the rows that are refused."""
        refusals: list[Refusal] = []
        sent = list(self._encode_rows(rows, refusals))
        batch = check_batch(self._context, SentBatch.of_values(_decode_lines([line for _, line in sent])))
        refusals += [Refusal(sent[own.index][0], own.code, own.detail) for own in batch.list_rejections()]
        numbers_of = defaultdict[Period, list[int]](list)
        times, of_hour = batch.times, dict[str, list[int]]()
        for number in batch.numbers:
            hour = times[number][:_HOUR]
            numbers = of_hour.get(hour)
            if numbers is None:
                numbers = of_hour[hour] = numbers_of[self._periods.find_period(hour)]
            numbers.append(number)
        found = {}
        for period, numbers in numbers_of.items():
            items, too_large = self._make_items(batch, period, numbers)
            for number in too_large:
                detail = "the event takes more bytes than the tables of its period can keep"
                refusals.append(Refusal(sent[number][0], "too_large", detail))
            if not items:
                continue
            layout, own = self._periods.find_layout(period), pick_values(times, numbers)
            keys = [make_sort_key(layout, item["pk"], item["sk"]) for item in items]
            texts = _settle_numbers(encode_items(items))
            found[period] = PeriodItems(keys, texts, min(own), max(own), len(numbers) - len(too_large))
        refusals.sort(key=lambda refusal: refusal.row.number)
        return found, refusals

    def _encode_rows(self, rows: Sequence[Row], refusals: list[Refusal]) -> Iterator[tuple[Row, bytes]]:
        """Encode rows as the client sends them."""
        for row in rows:
            if row.event is None:
                refusals.append(Refusal(row, "unreadable", row.problem))
                continue
            try:
                yield row, self._stamper.encode(row.event, self._now)
            except EventInvalid as error:
                refusals.append(Refusal(row, "invalid", str(error)))

    def _make_items(self, batch: SentBatch, period: Period, numbers: list[int]) -> tuple[list[Item], Sequence[int]]:
        """Make the whole items of a period's events, and return the numbers of those that are too large."""
        layout = self._periods.find_layout(period)
        if layout.indexes and layout.indexes != self._stream.layout.indexes:
            # Events were measured with the indexes of the stream's layout, as in routing.
            batch.large = range(len(batch.times))
        entry = Entry(self._stream.name, period, "", layout, State.DELETED, period.start)

        def shrink(item: Item) -> Put | None:
            put = Shrinker.of(self._stream, self._services).shrink_item(item, entry)
            if put is None or put.item.keys().isdisjoint(FORMS):
                return put
            return Put(put.table, self._unpacker.note_packing(put.item, item))

        plain, items, too_large = numbers, list[Item](), list[int]()
        if layout.pack is not None:
            plain = []
            large = {number for number in numbers if len(encode_json(batch.datas[number])) > layout.pack.max_bytes}
            made = choose_form(layout).make_puts(batch, sorted(large), "", self._zstd, shrink)
            for put, members in zip(made.puts, made.members, strict=True):
                if put.slot in made.packs:
                    large -= set(members)
                else:
                    items.append(put.item)
            too_large += made.too_large
            plain = [number for number in numbers if number not in large]
            batch.large = ()
        if plain:
            # Of equal keys in one call the last item is left, or all that are different versions.
            puts = PlainForm(layout).make_puts(batch, plain, "", self._zstd, shrink)
            items += [put.item for put in puts.puts]
            too_large += puts.too_large
        return items, too_large


def _settle_numbers(texts: Sequence[str]) -> Sequence[str]:
    """Write the numbers of items as DynamoDB answers them: 1.50 as 1.5."""
    joined = "\n".join(texts)
    settled = _ODD_NUMBERS.sub(lambda found: f'"N":"{render_number(Decimal(found[1]))}"', joined)
    return texts if settled is joined else settled.split("\n")


def _decode_lines(lines: Sequence[bytes]) -> list[Any]:
    """Decode events as the API decodes the body of a request."""
    if not lines:
        return []
    try:
        return decode_body(Body(b"[" + b",".join(lines) + b"]", "application/json"), max_events=len(lines))
    except ProblemError:
        return [decode_json(line) for line in lines]
