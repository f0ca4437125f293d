"""Apply all rules to a history, and list the measurements that the rules lack. All functions here are pure."""

from __future__ import annotations

from collections.abc import Iterator

from cli.advising.capacity import choose_capacity, raise_maximum
from cli.advising.finding import Advice
from cli.advising.history import History
from cli.advising.indexes import advise_hot, advise_missing, advise_unused
from cli.advising.layout import advise_bucket, advise_packs, advise_period, advise_shards
from cli.advising.measured import Measured

# A week includes a weekend. Fewer days do not show what a month costs.
MIN_DAYS = 7


def advise(history: History) -> Advice:
    """Return the findings about a stream: first the findings against throttling, then the others by their saving."""
    measured = Measured(history)
    enough = measured.days >= MIN_DAYS - 0.01 and measured.count_units("Write") > 0
    capacity, finding = choose_capacity(measured, enough=enough)
    findings = [] if finding is None else [finding]
    findings += [*advise_shards(measured, enough=enough), *advise_hot(measured), *raise_maximum(measured)]
    if enough:
        findings += [*advise_bucket(measured), *advise_period(measured, capacity), *advise_packs(measured)]
        findings += [*advise_unused(measured), *advise_missing(measured)]
    findings.sort(key=lambda finding: (finding.saving is not None and finding.saving > 0, -(finding.saving or 0.0)))
    return Advice(history.stream.name, measured.days, tuple(findings), tuple(_list_missing(measured, enough=enough)))


def _list_missing(measured: Measured, *, enough: bool) -> Iterator[str]:
    history = measured.history
    if not measured.count_units("Write"):
        yield "no table of the stream was written to: there is nothing to judge"
    elif not enough:
        yield (
            f"{measured.days:.1f} days are measured: advice about the bill needs {MIN_DAYS}; advice about throttling needs 100"
            " throttled events in three hours"
        )
    if left := {own.period for own in history.resources} - {own.period for own in measured.fitting}:
        yield f"{len(left):,} tables were left out: a backfill wrote to them, or they have another period, or packs"
    if history.uses is None:
        yield "the queries' conditions are not known: no advice about indexes, buckets and fewer shards"
    if history.writing is None:
        yield "the events per request are not known: no advice about packs"
    hot = measured.find_throttling("Write", "KeyRangeThroughput", late=None)
    if hot.enough and history.shares is None:
        yield (
            "the heaviest partition keys are not known: turn on Contributor Insights for the newest table, in the mode"
            " ACCESSED_AND_THROTTLED_KEYS, for a day"
        )
    if measured.stream.capacity.autoscaling is not None:
        yield "auto scaling sets the units by itself: no advice about units"
    if measured.stream.capacity.most is not None:
        yield "the tables have a maximum (capacity.max): no advice about provisioned units"
    account = measured.find_throttling("Write", "AccountLimit", late=None)
    if account.events:
        yield f"{account.events:,.0f} writes were throttled by the account's limit: no line of tidetable.toml changes it; ask AWS"
    yield from history.missing
