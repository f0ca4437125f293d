"""Checks of the tables of a whole stage: ``[api]``, ``[observability]``, ``[doors]``, ``[lifecycle]``, ``[work]``,
``[storage]`` and ``[archive]``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from tidetable.config.bounds import KEY_ARN, MAX_BODY, check_bounds, find_repeated
from tidetable.config.check_copies import check_regions
from tidetable.config.model import Config, Stream
from tidetable.names import name_lake_table
from tidetable.periods import LONGEST

# AWS raises the quota of tables to 10,000 at the most.
MAX_QUOTA = 10_000
LOG_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
# An origin in the form that browsers send: scheme, host in lower case, and the port if it is not the scheme's default.
# It has no path.
_ORIGIN = re.compile(r"https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9]\d{0,4})?")
_ADDRESS = re.compile(r"[^\s@,;<>\"]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]{1,256}")
# AWS: 100 executions of an account cannot be reserved. The quota of an account may be raised to tens of thousands.
MAX_CONCURRENCY = 10_000
_LEAVES = " executions for each function that answers requests; AWS keeps 100 of an account's unreserved"
MAX_ORIGINS = 20
MAX_ADDRESSES = 20
# AWS: five actions per state of an alarm. The stack's own topic, for e-mail addresses, is one of them.
MAX_TOPICS = 5
# Two places need a text between them: otherwise different values would make one series. A backslash escapes that text.
_TEMPLATE = re.compile(r"(?:[^{}\\]|\{[^{}]+\}(?!\{))*")
_PATH = re.compile(r"[^.]+(?:\.[^.]+)*")
_DAY = timedelta(days=1)
# AWS: objects are at least 30 days old when they are put into the class Standard-Infrequent Access.
_LEAST_DAYS = {"infrequent-access": 30}


def check_stage(config: Config) -> Iterator[str]:
    """Yield the problems of the stage's tables, one line each."""
    yield from _check_api(config)
    if config.observability.log_retention_days not in LOG_RETENTION_DAYS:
        days = ", ".join(map(str, LOG_RETENTION_DAYS))
        yield f"observability.log_retention_days: choose a number of days that CloudWatch Logs offers: {days}"
    if not config.api.ways or find_repeated(config.api.ways):
        yield 'api.auth: name at least one way, each once, such as "api-key" or ["api-key", "iam"]'
    yield from _check_origins(config.api.cors)
    yield from _check_targets(config)
    yield from _check_doors(config)
    for stream in config.streams.values():
        yield from _check_mappings(stream)
    yield from _check_lifecycle(config)
    # AWS: the limits of MaximumConcurrency in the scaling of a mapping from SQS.
    for name in ("workers", "consumers"):
        most = " executions of a function at the same time"
        yield from check_bounds(f"work.{name}", getattr(config.work, name), 2, 1_000, most)
    yield from check_bounds("lake.keep_snapshots", config.lake.keep_snapshots, 1, 1_000, " snapshots of each table")
    yield from _check_storage(config)
    yield from _check_lake_names(config)
    yield from check_keeping(config)


def _check_api(config: Config) -> Iterator[str]:
    api = config.api
    yield from check_bounds("api.max_events", api.max_events, 1, 10_000)
    yield from check_bounds("api.max_body", api.max_body, 1_000, MAX_BODY, " bytes, the most that a Lambda can receive")
    if not 1 <= api.rate <= 10_000 or not 1 <= api.burst <= 5_000:
        yield "api.rate, api.burst: choose a rate within 1 to 10000 requests per second and a burst within 1 to 5000"
    elif not 0.1 <= api.rate_per_key <= api.rate or not 1 <= api.burst_per_key <= api.burst:
        yield (
            "api.key_rate, api.key_burst: choose a rate within 0.1 and the rate of the stage, and a burst within 1 and the"
            " burst of the stage: no key can have more"
        )
    if api.concurrency is not None:
        yield from check_bounds("api.concurrency", api.concurrency, 1, MAX_CONCURRENCY, _LEAVES)


def _check_origins(origins: tuple[str, ...]) -> Iterator[str]:
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield (
                f'api.cors: "{origin}" is not an origin; write scheme, host and port as browsers send them, in lower case and'
                ' without a path, such as "https://app.example.com" or "http://localhost:3000"'
            )
    if "*" in origins and len(origins) > 1:
        yield 'api.cors: "*" allows every origin; remove it, or remove the others'
    if len(origins) > MAX_ORIGINS or find_repeated(origins):
        yield f"api.cors: name at most {MAX_ORIGINS} origins, each once"


def _check_targets(config: Config) -> Iterator[str]:
    policy = config.observability
    for address in policy.addresses:
        if not _ADDRESS.fullmatch(address):
            yield (
                f'observability.notify: "{address}" is neither an e-mail address, such as "ops@example.com", nor the ARN of an'
                ' SNS topic, such as "arn:aws:sns:us-east-1:123456789012:ops"'
            )
    for topic in policy.topics:
        if not _TOPIC.fullmatch(topic):
            yield (
                f'observability.notify: "{topic}" is not the ARN of an SNS topic; write it as'
                ' "arn:aws:sns:us-east-1:123456789012:ops"'
            )
    if find_repeated(policy.notify):
        yield "observability.notify: a target is named twice; name each once"
    if len(policy.addresses) > MAX_ADDRESSES:
        yield (
            f"observability.notify: {len(policy.addresses)} e-mail addresses are more than {MAX_ADDRESSES}; use a mailing list"
        )
    by_region = Counter(topic.split(":")[3] for topic in policy.topics if _TOPIC.fullmatch(topic))
    if max(by_region.values(), default=0) + bool(policy.addresses) > MAX_TOPICS:
        yield (
            f"observability.notify: an alarm notifies at most {MAX_TOPICS} topics of its Region, and all e-mail addresses"
            " together need a topic of their own; name fewer"
        )


def _check_doors(config: Config) -> Iterator[str]:
    for key, name in (("otlp_metrics", config.doors.otlp_metrics), ("otlp_logs", config.doors.otlp_logs)):
        if name is None:
            continue
        stream = config.streams.get(name)
        if stream is None:
            yield f'doors.{key}: there is no stream "{name}"; name one of the streams of this file'
        elif stream.source:
            yield f'doors.{key}: "{name}" is a rollup, which the pipeline itself writes; name the stream {stream.source}'
        if not config.doors.otlp:
            yield f"doors.{key}: the door is closed; add otlp = true to [doors], or remove the key"


def _check_mappings(stream: Stream) -> Iterator[str]:
    path = f"streams.{stream.name}"
    if not _TEMPLATE.fullmatch(stream.influx.series):
        yield (
            f'{path}.influx.series: "{stream.influx.series}" is not a template; write names of tags in braces, with a'
            ' text between them and without a backslash, such as "{measurement}/{host}"'
        )
    if find_repeated(stream.otlp.series) or not all(stream.otlp.series):
        yield f"{path}.otlp.series: an attribute is empty or named twice; name each once"
    for key in ("series", "time", "id"):
        if not _PATH.fullmatch(getattr(stream.firehose, key)):
            yield f'{path}.firehose.{key}: write the path of a field in a record, such as "device.id"'


def _check_lifecycle(config: Config) -> Iterator[str]:
    policy = config.lifecycle
    yield from check_bounds("lifecycle.delete_grace", policy.delete_grace, "0s", "365d")
    yield from check_bounds("lifecycle.stagger", policy.stagger, "0s", "1h")
    yield from check_bounds("lifecycle.table_quota", policy.table_quota, 1, MAX_QUOTA, " tables; AWS begins with 2500")
    yield from check_bounds("lifecycle.max_deletes", policy.max_deletes, 1, 2_500, " tables in a run")


def _check_storage(config: Config) -> Iterator[str]:
    policy = config.storage
    if policy.encryption != "service-managed" and not KEY_ARN.fullmatch(policy.encryption):
        yield f'storage.encryption: "{policy.encryption}" is neither service-managed nor the ARN of a KMS key'
    for key in policy.former_keys:
        if not KEY_ARN.fullmatch(key):
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


def check_keeping(config: Config, stream: str | None = None) -> Iterator[str]:
    """Yield the problems of ``[archive]``, or of a stream's own ``archive`` table."""
    policy = config.archive if stream is None else config.find_keeping(stream)
    own = config.streams[stream] if stream is not None else None
    retained = own is not None and own.archive_at == "close"
    if stream is not None and policy == config.archive and not retained:
        return
    path = "archive" if stream is None else ".archive"
    for name in ("expire_after", "storage_class_after"):
        length = getattr(policy, name)
        if length % _DAY:
            yield f"{path}.{name}: {length} is not a whole number of days; S3's rules count days, such as 365d"
    expires = policy.expire_after
    # 100 years: the day on which an archive expires must be a day of the calendar, which ends with the year 9999.
    yield from check_bounds(f"{path}.expire_after", expires, "0s", "36525d", '; "0s" keeps archives for ever')
    kept: timedelta = config.lifecycle.delete_grace
    why = f"lifecycle.delete_grace, {config.lifecycle.delete_grace}"
    if own is not None and retained:
        kept += own.retention * LONGEST[own.period]
        why = f'retention and {why}, as archive_at = "close" writes the archive when the period closes'
    if expires and expires <= kept:
        yield f"{path}.expire_after: {expires} is not more than {why}: an archive would expire before its table is deleted"
    if policy.storage_class == "standard":
        return
    after = policy.storage_class_after
    least = _LEAST_DAYS.get(policy.storage_class, 0)
    if after < timedelta(days=least):
        yield f"{path}.storage_class_after: {after} is too early; S3 takes {policy.storage_class} from {least}d on"
    if expires and expires <= after:
        yield f"{path}.expire_after: {expires} is not after storage_class_after, {after}; S3 refuses such a rule"
