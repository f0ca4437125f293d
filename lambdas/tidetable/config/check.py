"""Check a well-formed configuration, so that mistakes are found before the first event comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidetable.config.bounds import MAX_OPEN_TABLES, MAX_RETENTION, MAX_UNITS, check_bounds, find_repeated
from tidetable.config.check_capacity import check_capacity
from tidetable.config.check_copies import check_copies, check_regions
from tidetable.config.check_dialects import check_dialects
from tidetable.config.check_doors import check_doors
from tidetable.config.check_feed import check_feed
from tidetable.config.check_index import check_index
from tidetable.config.check_keeping import check_keeping
from tidetable.config.check_pack import check_pack
from tidetable.config.check_rollup import check_rollups
from tidetable.config.columns import COLUMN_TYPES, RESERVED_COLUMNS, is_column_name, parse_decimal
from tidetable.config.demand import SHORTEST, describe_tables, list_demands
from tidetable.config.model import ArchivePolicy, Config, Stream
from tidetable.durations import Duration
from tidetable.names import STREAM, name_lake_table
from tidetable.periods import LONGEST

_DAY_SECONDS = 86_400
# AWS raises the quota of tables to 10,000 at the most.
MAX_QUOTA = 10_000
# AWS: 50 tags per resource; the pipeline adds four of its own.
MAX_TAGS = 40
MAX_COLD = 20
# AWS: 20 global secondary indexes per table.
MAX_INDEXES = 20
# AWS: 5 local secondary indexes per table.
MAX_LOCAL = 5
_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
# AWS: the characters that a tag of a DynamoDB table may have; letters and digits of any language.
_TAG = re.compile(r"[\w +\-=.:/@]*")
# AWS: a Lambda answers at most 6 MB. A request is also encoded in base64, which makes it a third larger.
MAX_BODY = 4_400_000
LOG_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip


def check(config: Config) -> list[str]:
    """Return the problems of a configuration whose types are right, one line each; no lines if it can be deployed."""
    problems = list(_check_api(config))
    if config.observability.log_retention_days not in LOG_RETENTION_DAYS:
        days = ", ".join(map(str, LOG_RETENTION_DAYS))
        problems.append(
            f"observability.log_retention_days: choose a number of days that CloudWatch Logs offers: {days}"
        )
    problems += check_doors(config)
    problems += check_dialects(config)
    problems += _check_lifecycle(config)
    problems += _check_storage(config)
    problems += _check_lake_names(config)
    problems += check_keeping(config)
    for stream in config.streams.values():
        if stream.source:
            # This stream follows from a rollup. A user can change only the rollup's keys, which are checked there.
            continue
        path = f"streams.{stream.name}"
        stream_problems = (
            *_check_window(stream),
            *_check_key(stream),
            *_check_indexes(stream),
            *_check_table(stream),
            *_check_large(stream),
            *check_pack(stream),
            *check_feed(stream),
            *check_rollups(stream, config.streams),
            *check_capacity(stream),
            *check_copies(stream),
            *_check_archive(stream.archive),
            *check_keeping(config, stream.name),
        )
        problems += [f"{path}{problem}" for problem in stream_problems]
    # The quota is checked last: a sum of numbers that are out of bounds would have no meaning.
    return problems or list(_check_quota(config))


def _check_quota(config: Config) -> Iterator[str]:
    needed, quota = list_demands(config), config.lifecycle.table_quota
    if sum(need.tables for need in needed) > quota:
        most = max(needed, key=lambda need: need.tables)
        yield (
            f"lifecycle.table_quota: {describe_tables(config)}; lower retention or choose a longer period, first of"
            f" {most.stream}, or have AWS raise the quota (Service Quotas, DynamoDB) and write it here"
        )


def _check_api(config: Config) -> Iterator[str]:
    api = config.api
    yield from check_bounds("api.max_events", api.max_events, 1, 10_000)
    yield from check_bounds("api.max_body", api.max_body, 1_000, MAX_BODY, " bytes, the most that a Lambda can receive")
    if not 1 <= api.rate <= 10_000 or not 1 <= api.burst <= 5_000:
        yield "api.rate, api.burst: choose a rate within 1 to 10000 requests per second and a burst within 1 to 5000"


def _check_lifecycle(config: Config) -> Iterator[str]:
    policy = config.lifecycle
    yield from check_bounds("lifecycle.delete_grace", policy.delete_grace, "0s", "365d")
    yield from check_bounds("lifecycle.stagger", policy.stagger, "0s", "1h")
    yield from check_bounds("lifecycle.table_quota", policy.table_quota, 1, MAX_QUOTA, " tables; AWS begins with 2500")
    yield from check_bounds("lifecycle.max_deletes", policy.max_deletes, 1, 2_500, " tables in a run")


def _check_storage(config: Config) -> Iterator[str]:
    policy = config.storage
    if policy.encryption != "service-managed" and not _KEY_ARN.fullmatch(policy.encryption):
        yield f'storage.encryption: "{policy.encryption}" is neither service-managed nor the ARN of a KMS key'
    for key in policy.former_keys:
        if not _KEY_ARN.fullmatch(key):
            yield f'storage.former_keys: "{key}" is not the ARN of a KMS key, such as arn:aws:kms:us-east-1:123456789012:key/...'
    yield from check_regions("storage.former_regions", policy.former_regions)
    if config.keeps_tables and policy.removal == "delete":
        keeper = next(stream.name for stream in config.streams.values() if stream.removal == "keep")
        yield (
            f'storage.removal: "delete" would delete the large values and the record of the tables that streams.{keeper} keeps;'
            f' set removal = "delete" in every stream, or "keep" here'
        )


def _check_lake_names(config: Config) -> Iterator[str]:
    """Check Athena's names, which have no hyphens: streams ``a-b`` and ``a_b`` would share one table."""
    names: dict[str, str] = {}
    for name in config.streams:
        first = names.setdefault(name_lake_table(name), name)
        if first != name:
            table = name_lake_table(name)
            yield f"streams.{name}: streams.{first} has the same Athena table, {table}; rename one of the two streams"


def _check_archive(archive: ArchivePolicy) -> Iterator[str]:
    if not 0 < archive.read_share <= 1:
        yield f".archive.read_share: {archive.read_share} is not a share; choose a number above 0, at most 1"
    yield from check_bounds(".archive.segments", archive.segments, 1, 32)
    if archive.read_units is not None:
        yield from check_bounds(".archive.read_units", archive.read_units, 1, MAX_UNITS, " units per second")
    names = [name.lower() for name in archive.columns]
    for name, kind in archive.columns.items():
        at = f".archive.columns.{name}"
        if not is_column_name(name):
            yield f"{at}: a column's name is 1 to 64 letters, digits and _, begins with a letter, and not with pk_"
        elif name.lower() in RESERVED_COLUMNS or names.count(name.lower()) > 1:
            yield f"{at}: there is another column of this name (Athena does not distinguish upper and lower case)"
        if kind not in COLUMN_TYPES and parse_decimal(kind) is None:
            yield f'{at}: "{kind}" is none of {", ".join(COLUMN_TYPES)}, decimal(precision, scale)'


def _check_window(stream: Stream) -> Iterator[str]:
    if not STREAM.fullmatch(stream.name):
        yield ": a stream's name is 1 to 63 of a-z, 0-9, _ and -, and begins with a letter; rename it"
    if stream.retention < 1:
        yield f".retention: {stream.retention} is too few; keep at least 1 whole period"
        return
    length = LONGEST[stream.period]
    longest = MAX_RETENTION // length
    if stream.retention > longest:
        yield (
            f".retention: {stream.retention} {stream.period} periods are more than 100 years; choose at most {longest}, or"
            ' on_expiry = "keep" for tables that stay'
        )
        return
    # The shortest month has 28 days: the retention must be long enough in February too.
    shortest = SHORTEST[stream.period]
    if stream.late > stream.retention * shortest:
        yield (
            f".retention: {stream.retention} {stream.period} periods end before events up to {stream.late} late have come;"
            f" raise retention to at least {-(-stream.late // shortest)} or lower late"
        )
    yield from check_bounds(".ahead", stream.ahead, "0s", "1d", "; clocks that run further ahead are wrong")
    without = " periods; with 0, a period could begin without a table"
    yield from check_bounds(".premake", stream.premake, 1, 10, without)
    tables = stream.late // length + 2 + stream.premake
    if tables > MAX_OPEN_TABLES:
        yield (
            f".late: {stream.late} of {stream.period} periods would hold {tables} tables open, more than {MAX_OPEN_TABLES};"
            " lower late or choose a longer period"
        )


def _check_key(stream: Stream) -> Iterator[str]:
    key = stream.key
    yield from check_bounds(".key.shards", key.shards, 1, 256, "; every query of a whole range reads each of them")
    if key.partition_by == "series":
        if key.bucket is not None:
            yield '.key.bucket: only streams partitioned by "time" have buckets; remove it'
        if key.shard_by == "series" and key.shards != 1:
            yield '.key.shard_by: a partition holds one series, so all its events would get one suffix; use "id"'
        return
    if key.bucket is None:
        yield '.key.bucket: missing; a stream partitioned by "time" needs one, such as "1h"'
        return
    seconds = int(key.bucket.total_seconds())
    longest = min(_DAY_SECONDS, int(LONGEST[stream.period].total_seconds()))
    if seconds < 60 or longest % seconds:
        yield f'.key.bucket: "{key.bucket}" does not divide {Duration(seconds=longest)}; choose such as "15m", "1h" or "6h"'


def _check_indexes(stream: Stream) -> Iterator[str]:
    names = [index.name for index in stream.index]
    local = [index.name for index in stream.index if index.local]
    if len(names) - len(local) > MAX_INDEXES:
        yield f".index: {len(names) - len(local)} indexes; AWS allows {MAX_INDEXES} per table"
    if len(local) > MAX_LOCAL:
        yield f".index: {len(local)} local indexes; AWS allows {MAX_LOCAL} per table: make some of them global with partition_by"
    for name in find_repeated(names):
        yield f".index: two indexes are named {name!r}; rename one of them"
    for index in stream.index:
        yield from check_index(index, stream.cold)
    if sum(index.replica for index in stream.index) > 1:
        yield ".index: two indexes are replicas; keep one, from which queries with priority = low are answered"


def _check_table(stream: Stream) -> Iterator[str]:
    key = stream.table.encryption
    if key not in ("aws-owned", "aws-managed") and not _KEY_ARN.fullmatch(key):
        yield f'.table.encryption: "{key}" is none of aws-owned, aws-managed and the ARN of a KMS key'
    tags = stream.table.tags
    if len(tags) > MAX_TAGS:
        yield f".table.tags: {len(tags)} tags; name at most {MAX_TAGS}: AWS allows 50 per table, and Tidetable adds its own"
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            yield f".table.tags.{key[:40]}: a key has 1 to 128 characters, a value 256 at the most"
        if not _TAG.fullmatch(key) or not _TAG.fullmatch(value):
            yield f".table.tags.{key[:40]}: AWS takes letters, digits, spaces and + - = . _ : / @ in tags; leave out the rest"
        if key.lower().startswith(("aws:", "tidetable:")) or key == "project":
            yield f".table.tags.{key}: this tag is not yours to set; choose another key"


def _check_large(stream: Stream) -> Iterator[str]:
    above = stream.large.compress_above
    if above is not None:
        saves = " bytes; below 1 KB, data takes one write unit, compressed or not"
        yield from check_bounds(".large.compress_above", above, 1024, MAX_BODY, saves)
    if len(stream.cold) > MAX_COLD or len(set(stream.cold)) < len(stream.cold):
        yield f".cold: name at most {MAX_COLD} fields, each once"
    for field in stream.cold:
        if not field or "," in field:
            yield f'.cold: "{field}" cannot be named in a query; name fields of data without commas'
        elif "." in field:
            whole = field.partition(".")[0]
            yield f'.cold: "{field}" is a path, but only whole fields are kept apart: name "{whole}", or move the field up'
